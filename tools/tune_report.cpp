#include "tools/tune_report.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "simulator/simulator.h"

namespace atalla {

namespace {

std::string grouped(int64_t number) {
    return number < 1000 ? std::to_string(number) : fmt::format("{},{:03}", grouped(number / 1000), number % 1000);
}

double array_share(const Tuned &tuned) {
    const Machine &machine = tuned.evaluator->machine();
    const double peak = 2.0 * static_cast<double>(machine.sa.rows * machine.sa.cols);
    return tuned.evaluator->workload().flops() / static_cast<double>(tuned.result.cycles) / peak;
}

struct Part {
    std::string name;
    int64_t cycles;
};

std::vector<Part> parts_of(const nlohmann::json &counters) {
    std::vector<Part> parts = {{"issue", counters.at("packets")}};
    for (int cause = 0; cause < stall_causes; cause++) {
        const char *name = stall_name(static_cast<Stall>(cause));
        if (const int64_t cycles = counters.at("stalls").at(name); cycles > 0) parts.push_back({name, cycles});
    }
    return parts;
}

// Columns of each part: its share of the width, the largest remainders rounded up, so that they add up to the width.
std::vector<int> columns_of(const std::vector<Part> &parts, int width) {
    int64_t total = 0;
    for (const Part &part : parts) total += part.cycles;
    std::vector<int> columns;
    std::vector<std::pair<double, size_t>> remainders;
    int used = 0;
    for (size_t i = 0; i < parts.size(); i++) {
        const double exact = static_cast<double>(parts[i].cycles) * width / static_cast<double>(total);
        columns.push_back(static_cast<int>(exact));
        used += columns.back();
        remainders.emplace_back(columns.back() - exact, i);
    }
    std::sort(remainders.begin(), remainders.end());
    for (size_t i = 0; used < width; i++, used++) columns[remainders[i % remainders.size()].second]++;
    return columns;
}

constexpr std::array<int, 11> colours = {32, 31, 33, 34, 35, 36, 91, 93, 94, 95, 96};

// How far from the best possible the result is proven to be.
std::string certificate(const TuneResult &result) {
    std::string text;
    if (result.bound_share > 0)
        text = fmt::format("; proven: at most {:.1f} % of the cycles could be saved", 100 * (1 - result.bound_share));
    if (result.optimal_in_space)
        text += result.ruled_out == 0
                    ? "; no schedule of the space is faster"
                    : fmt::format("; no schedule of the space is faster, {} of them by bounds of their own", result.ruled_out);
    else if (result.model_optimum_tried)
        text += "; every schedule was priced, and the one that is best by the model was simulated";
    return text;
}

}  // namespace

std::string stall_bar(const nlohmann::json &counters, int width, bool colour) {
    const std::vector<Part> parts = parts_of(counters);
    const std::vector<int> columns = columns_of(parts, width);
    const auto total = counters.at("cycles").get<double>();
    std::string bar, legend, used;
    for (size_t i = 0; i < parts.size(); i++) {
        std::string mark = "█";
        if (!colour) {
            const size_t free = parts[i].name.find_first_not_of(used);
            mark = free == std::string::npos ? "?" : parts[i].name.substr(free, 1);
            used += mark;
        }
        const auto painted = [&](const std::string &text) {
            return colour ? fmt::format("\033[{}m{}\033[0m", colours[i % colours.size()], text) : text;
        };
        std::string stretch;
        for (int column = 0; column < columns[i]; column++) stretch += mark;
        bar += painted(stretch);
        legend += fmt::format("{}{} {} {:.1f} %", i == 0 ? "" : "   ", painted(mark), parts[i].name,
                              100 * static_cast<double>(parts[i].cycles) / total);
    }
    return "  [" + bar + "]\n  " + legend + "\n";
}

nlohmann::ordered_json report_json(const Tuned &tuned, const std::filesystem::path &database) {
    const Workload &workload = tuned.evaluator->workload();
    const Machine &machine = tuned.evaluator->machine();
    const TuneResult &result = tuned.result;
    nlohmann::ordered_json json;
    json["op"] = tuned.op->name();
    json["shape"] = workload.shape();
    json["workload"] = nlohmann::json::parse(workload.text());
    json["machine"] = machine.name;
    json["cycles"] = result.cycles;
    json["bound_cycles"] = tuned.bound.cycles;
    json["bound_share"] = result.bound_share;
    json["gap"] = result.bound_share > 0 ? nlohmann::json(1 / result.bound_share - 1) : nlohmann::json();
    json["optimal_in_space"] = result.optimal_in_space;
    json["ruled_out"] = result.ruled_out;
    json["model_optimum_tried"] = result.model_optimum_tried;
    json["bound_by"] = tuned.bound.binding;
    json["array_share"] = array_share(tuned);
    json["naive_cycles"] = tuned.naive_cycles ? nlohmann::json(*tuned.naive_cycles) : nlohmann::json();
    json["drafted"] = result.drafted;
    json["lowered"] = result.lowered;
    json["simulated"] = result.simulated;
    json["from_database"] = result.from_cache;
    json["with_choices"] = result.with_choices;
    json["given_up"] = result.given_up;
    json["failed"] = result.failed;
    json["seconds"] = result.seconds;
    json["schedule"] = nlohmann::json(result.best);
    json["schedule_words"] = schedule_words(workload, machine, result.best);
    json["stalls"] = tuned.counters.is_object() ? tuned.counters.at("stalls") : nlohmann::json();
    json["verified"] = result.verified;
    json["stopped_because"] = result.stopped_because;
    json["notes"] = result.notes;
    json["machine_fingerprint"] = machine.fingerprint();
    json["compiler_fingerprint"] = compiler_fingerprint();
    json["db"] = database.empty() ? nlohmann::json() : nlohmann::json(database.string());
    return json;
}

std::string report_text(const Tuned &tuned, const std::filesystem::path &database, bool colour) {
    const Workload &workload = tuned.evaluator->workload();
    const Machine &machine = tuned.evaluator->machine();
    const TuneResult &result = tuned.result;
    const char *unit = machine.timed() ? "cycles" : "packets";
    std::string text = fmt::format("{}{} {} on {}{}\n", colour ? "\033[1m" : "", tuned.op->name(), workload.title(),
                                   machine.name, colour ? "\033[0m" : "");
    const auto row = [&](const char *name, const std::string &value) { text += fmt::format("  {:<16}{}\n", name, value); };
    row(unit, grouped(result.cycles));
    row("lower bound", fmt::format("{}, decided by {}", grouped(tuned.bound.cycles), tuned.bound.binding));
    row("of the bound", fmt::format("{:.1f} %{}", 100 * result.bound_share, certificate(result)));
    const bool multiplies = std::any_of(tuned.bound.terms.begin(), tuned.bound.terms.end(),
                                        [](const auto &term) { return term.first == "array" && term.second > 0; });
    if (multiplies)
        row("of array's peak", fmt::format("{:.1f} %, {:.0f} FLOP/cycle", 100 * array_share(tuned),
                                           workload.flops() / static_cast<double>(result.cycles)));
    row("naive schedule", tuned.naive_cycles
                              ? fmt::format("{} {}; this one is {:.1f} times as fast", grouped(*tuned.naive_cycles), unit,
                                            static_cast<double>(*tuned.naive_cycles) / static_cast<double>(result.cycles))
                              : "not run: the shape is too large for it");
    row("trials",
        fmt::format("{} drafted, {} lowered, {} simulated{}{}{}{}", grouped(result.drafted), result.lowered, result.simulated,
                    result.with_choices > 0 ? fmt::format(", {} of them with choices", result.with_choices) : "",
                    result.from_cache > 0 ? fmt::format(", {} from the database", result.from_cache) : "",
                    result.given_up > 0 ? fmt::format(", {} given up as slower", result.given_up) : "",
                    result.failed > 0 ? fmt::format(", {} failed", result.failed) : ""));
    row("time", fmt::format("{:.1f} s; {}", result.seconds, result.stopped_because));
    row("schedule", schedule_words(workload, machine, result.best));
    row("verified", result.verified
                        ? fmt::format("bit for bit against {}, within {} bf16 ulps of float64",
                                      tuned.naive_cycles ? "the unoptimized program" : "the host", workload.tolerance_ulps())
                        : "no");
    if (!database.empty()) row("stored in", database.string());
    for (const auto &[point, differs] : result.rejected)
        row("wrong results", fmt::format("{}: {}", point.assignments(), differs));
    for (const std::string &note : result.notes) row("note", note);
    if (tuned.counters.is_object() && machine.timed())
        text += "  where the cycles went:\n" + stall_bar(tuned.counters, 76, colour);
    return text;
}

std::string report_line(const Tuned &tuned) {
    const Workload &workload = tuned.evaluator->workload();
    return fmt::format("{} {} on {}: {} cycles, {:.1f} % of the bound{}\n", tuned.op->name(), workload.title(),
                       tuned.evaluator->machine().name, grouped(tuned.result.cycles), 100 * tuned.result.bound_share,
                       tuned.result.verified ? ", verified" : ", not verified");
}

}  // namespace atalla
