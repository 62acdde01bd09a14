#include "runtime/describe.h"

#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "simulator/report.h"

namespace atalla {

namespace {

using Json = nlohmann::ordered_json;

template <class Vector, class Function>
Json list(const Vector *vector, const Function &function) {
    Json result = Json::array();
    if (vector != nullptr)
        for (const auto *item : *vector) result.push_back(function(*item));
    return result;
}

// Cycles of a fusion's parts, which may have no kernel by themselves.
std::string parts_text(int64_t cycles) {
    return cycles == std::numeric_limits<int64_t>::max() ? "its parts have no kernel" : fmt::format("its parts {}", cycles);
}

std::string text_of(const flatbuffers::String *text) { return text == nullptr ? "" : text->str(); }

Json port_json(const loadable::Port &port) {
    Json sizes = Json::array();
    for (const auto *dim : *port.dims()) {
        if (dim->expression() != nullptr && dim->expression()->size() != 0)
            sizes.push_back(dim->expression()->str());
        else
            sizes.push_back(dim->size());
    }
    return {{"name", port.name()->str()}, {"dtype", dtype_name(static_cast<DType>(port.dtype()))}, {"sizes", sizes}};
}

Json range_json(const loadable::Range &range) {
    return {{"name", range.name()->str()},
            {"begin", range.begin()},
            {"end", range.end()},
            {"routine", range.routine()},
            {"bound_cycles", range.bound_cycles()}};
}

Json step_json(const loadable::Step &step) {
    Json result = {{"node", text_of(step.node())}};
    if (const auto *device = step.work_as_DeviceCall())
        result.update({{"on", "accelerator"},
                       {"entry", device->entry()},
                       {"reads", device->reads()->size()},
                       {"writes", device->writes()->size()}});
    else
        result.update({{"on", "host"}, {"target", step.work_as_HostCall()->target()->str()}});
    return result;
}

Json specialization_json(const Model &model, const Model::Specialization &s) {
    const loadable::Specialization &table = *s.table;
    Json inputs = Json::array(), symbols = Json::object();
    for (int32_t v : *table.inputs()) inputs.push_back(s.sizes_of(v));
    if (table.symbols() != nullptr)
        for (const auto *symbol : *table.symbols()) symbols[symbol->name()->str()] = symbol->value();
    Json result = {{"symbols", symbols},
                   {"inputs", inputs},
                   {"values", table.values()->size()},
                   {"memory_bytes", table.memory_bytes()},
                   {"arena_bytes", table.arena_bytes()},
                   {"arena_bound", table.arena_bound()},
                   {"packets", s.program.packets.size()}};
    if (table.code() != nullptr) {
        result["routines"] = list(table.code()->routines(), range_json);
        result["calls"] = list(table.code()->calls(), range_json);
    }
    result["fusions"] = list(table.fusions(), [](const loadable::Fusion &fusion) -> Json {
        return {{"kernel", fusion.kernel()->str()},
                {"calls", fusion.calls()},
                {"cycles", fusion.cycles()},
                {"apart", fusion.apart()},
                {"chosen", fusion.chosen()}};
    });
    result["steps"] = list(table.steps(), step_json);
    (void)model;
    return result;
}

const char *name_of(HostKernel kernel) {
    switch (kernel) {
        case HostKernel::Interpreter:
            return "interpreter";
        case HostKernel::Compiled:
            return "compiled kernel";
        case HostKernel::Registered:
            return "registered kernel";
    }
    return "";
}

std::string port_text(const Json &port) {
    std::vector<std::string> sizes;
    for (const Json &size : port["sizes"]) sizes.push_back(size.is_string() ? size.get<std::string>() : size.dump());
    return fmt::format("{} {}[{}]", port["name"].get<std::string>(), port["dtype"].get<std::string>(), fmt::join(sizes, ", "));
}

}  // namespace

Json describe(const Model &model) {
    const loadable::Model &table = model.table();
    Json result = {{"name", table.name()->str()},
                   {"format", fmt::format("{}.{}", table.major(), table.minor())},
                   {"compiler", table.compiler()->str()},
                   {"machine", table.machine()->str()},
                   {"machine_fingerprint", table.machine_fingerprint()->str()}};
    result["inputs"] = list(table.inputs(), port_json);
    result["outputs"] = list(table.outputs(), port_json);
    result["symbols"] = list(table.symbols(), [](const loadable::Symbol &symbol) -> Json {
        return {{"name", symbol.name()->str()}, {"least", symbol.least()}, {"most", symbol.most()}};
    });
    Json guards = Json::array();
    if (table.guards() != nullptr)
        for (const auto *guard : *table.guards()) guards.push_back(guard->str());
    result["guards"] = guards;
    uint64_t bytes = 0;
    for (const auto *constant : *table.constants()) bytes += constant->data()->size();
    result["constants"] = {{"count", table.constants()->size()}, {"bytes", bytes}};
    result["states"] = list(table.states(), [](const loadable::State &state) -> Json { return state.name()->str(); });
    result["operators"] = list(table.findings(), [](const loadable::Finding &finding) -> Json {
        return {{"target", finding.target()->str()},
                {"calls", finding.calls()},
                {"on", finding.accelerator() ? "accelerator" : "host"},
                {"reason", text_of(finding.reason())}};
    });
    result["specializations"] = Json::array();
    for (const Model::Specialization &s : model.specializations())
        result["specializations"].push_back(specialization_json(model, s));
    return result;
}

Json describe_run(const Context &context) {
    const ContextCounters &c = context.counters();
    Json result = {{"machine", context.model().machine().name},
                   {"runs", c.runs},
                   {"programs_loaded", c.programs_loaded},
                   {"cycles", c.last.cycles},
                   {"packets", c.last.packets},
                   {"device_calls", c.device_calls},
                   {"host_calls", c.host_calls},
                   {"bytes_to_device", c.bytes_to_device},
                   {"bytes_from_device", c.bytes_from_device}};
    result["counters"] = counters_json(c.last);
    result["steps"] = Json::array();
    for (const StepProfile &step : context.profile()) {
        result["steps"].push_back({{"node", step.node},
                                   {"target", step.target},
                                   {"on", step.device ? "accelerator" : "host"},
                                   {"cycles", step.cycles},
                                   {"seconds", step.seconds}});
        if (!step.device) result["steps"].back()["by"] = name_of(step.by);
    }
    return result;
}

std::string describe_text(const Model &model) {
    const Json json = describe(model);
    std::string text = fmt::format("{}: format {}, machine {} ({}), compiler {}\n", json["name"].get<std::string>(),
                                   json["format"].get<std::string>(), json["machine"].get<std::string>(),
                                   json["machine_fingerprint"].get<std::string>(), json["compiler"].get<std::string>());
    for (const Json &port : json["inputs"]) text += fmt::format("  input   {}\n", port_text(port));
    for (const Json &port : json["outputs"]) text += fmt::format("  output  {}\n", port_text(port));
    for (const Json &state : json["states"]) text += fmt::format("  state   {}\n", state.get<std::string>());
    for (const Json &symbol : json["symbols"])
        text += fmt::format("  symbol  {} in [{}, {}]\n", symbol["name"].get<std::string>(), symbol["least"].dump(),
                            symbol["most"].dump());
    text += fmt::format("  {} constants, {} bytes\n", json["constants"]["count"].get<size_t>(),
                        json["constants"]["bytes"].get<uint64_t>());
    text += "\noperator                                    calls  runs on      reason\n";
    for (const Json &finding : json["operators"])
        text += fmt::format("{:<42} {:>6}  {:<11}  {}\n", finding["target"].get<std::string>(), finding["calls"].get<int>(),
                            finding["on"].get<std::string>(), finding["reason"].get<std::string>());
    for (const Json &s : json["specializations"]) {
        text += fmt::format("\nfor inputs {}: {} packets, {} bytes of memory, arena {} bytes (at least {})\n",
                            s["inputs"].dump(), s["packets"].get<size_t>(), s["memory_bytes"].get<uint64_t>(),
                            s["arena_bytes"].get<uint64_t>(), s["arena_bound"].get<uint64_t>());
        if (s.contains("routines")) {
            std::vector<int> calls(s["routines"].size(), 0);
            for (const Json &call : s["calls"]) calls[call["routine"].get<size_t>()]++;
            for (size_t r = 0; r < calls.size(); r++) {
                const Json &routine = s["routines"][r];
                text += fmt::format("  routine {:<40} {:>6} bytes of code, {} calls\n", routine["name"].get<std::string>(),
                                    routine["end"].get<int64_t>() - routine["begin"].get<int64_t>(), calls[r]);
            }
        }
        for (const Json &fusion : s["fusions"])
            text += fmt::format("  {} {}: {} cycles, {}; {} times\n", fusion["chosen"].get<bool>() ? "fused  " : "apart  ",
                                fusion["kernel"].get<std::string>(), fusion["cycles"].get<int64_t>(),
                                parts_text(fusion["apart"].get<int64_t>()), fusion["calls"].get<int>());
        for (const Json &step : s["steps"])
            text += step["on"] == "host" ? fmt::format("  host         {} ({})\n", step["node"].get<std::string>(),
                                                       step["target"].get<std::string>())
                                         : fmt::format("  accelerator  {}\n", step["node"].get<std::string>());
    }
    return text;
}

}  // namespace atalla
