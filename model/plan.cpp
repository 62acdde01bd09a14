#include "model/plan.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph_import/print.h"

namespace atalla {

namespace {

std::string escaped(const std::string &text) {
    std::string result;
    for (const char c : text) {
        if (c == '<')
            result += "&lt;";
        else if (c == '&')
            result += "&amp;";
        else
            result += c;
    }
    return result;
}

int64_t bytes_alive(const ModelPlan &plan, int32_t time) {
    int64_t bytes = 0;
    for (const PlannedTensor &tensor : plan.tensors)
        if (tensor.first <= time && time <= tensor.last) bytes += tensor.bytes;
    return bytes;
}

}  // namespace

std::string plan_text(const ModelPlan &plan) {
    std::vector<std::vector<std::string>> rows = {
        {"time", "segment", "runs on", "what", "result", "why not on the accelerator"}};
    for (const PlannedCall &call : plan.calls)
        rows.push_back({std::to_string(call.time), std::to_string(call.segment), call.device ? "accelerator" : "host",
                        call.what, call.result, call.reason});
    std::string text = columns(rows) + fmt::format("{} calls in {} segments\n\n", plan.calls.size(), plan.segments());
    rows = {{"tensor", "bytes", "offset", "alive"}};
    for (const PlannedTensor &tensor : plan.tensors)
        rows.push_back({tensor.name, std::to_string(tensor.bytes), std::to_string(tensor.offset),
                        fmt::format("{} to {}", tensor.first, tensor.last)});
    return text + columns(rows) +
           fmt::format("arena of {} bytes; {} are alive at a time at most\n", plan.arena_bytes, plan.arena_bound);
}

nlohmann::ordered_json plan_json(const ModelPlan &plan) {
    nlohmann::ordered_json calls = nlohmann::ordered_json::array(), tensors = nlohmann::ordered_json::array();
    for (const PlannedCall &call : plan.calls)
        calls.push_back({{"time", call.time},
                         {"segment", call.segment},
                         {"on", call.device ? "accelerator" : "host"},
                         {"what", call.what},
                         {"result", call.result},
                         {"reason", call.reason}});
    for (const PlannedTensor &tensor : plan.tensors)
        tensors.push_back({{"name", tensor.name},
                           {"bytes", tensor.bytes},
                           {"offset", tensor.offset},
                           {"first", tensor.first},
                           {"last", tensor.last}});
    return {{"calls", calls},
            {"segments", plan.segments()},
            {"tensors", tensors},
            {"arena_bytes", plan.arena_bytes},
            {"arena_bound", plan.arena_bound}};
}

std::string plan_svg(const ModelPlan &plan) {
    constexpr double width = 960, height = 480, margin = 40;
    int32_t end = 1;
    for (const PlannedTensor &tensor : plan.tensors) end = std::max(end, tensor.last + 1);
    const auto bytes = static_cast<double>(std::max<int64_t>(1, plan.arena_bytes));
    const auto x = [&](int32_t time) { return margin + time * (width - 2 * margin) / end; };
    const auto y = [&](int64_t at) { return height - margin - static_cast<double>(at) / bytes * (height - 2 * margin); };
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"10\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width, height);
    for (const PlannedTensor &tensor : plan.tensors) {
        const double left = x(tensor.first), top = y(tensor.offset + tensor.bytes);
        svg += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#9ecae1\" stroke=\"#08519c\" "
            "stroke-width=\"0.5\">"
            "<title>{}: {} bytes at {}, alive from {} to {}</title></rect>\n",
            left, top, std::max(x(tensor.last + 1) - left, 1.0), std::max(y(tensor.offset) - top, 0.5), escaped(tensor.name),
            tensor.bytes, tensor.offset, tensor.first, tensor.last);
    }
    std::string points;
    for (int32_t time = 0; time < end; time++)
        points += fmt::format("{0:.1f},{2:.1f} {1:.1f},{2:.1f} ", x(time), x(time + 1), y(bytes_alive(plan, time)));
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"#cb181d\"/>\n", points);
    return svg +
           fmt::format("<text x=\"{}\" y=\"{}\">{} calls; arena {} bytes; the line: bytes alive, at most {}</text>\n</svg>\n",
                       margin, height - margin / 2, plan.calls.size(), plan.arena_bytes, plan.arena_bound);
}

}  // namespace atalla
