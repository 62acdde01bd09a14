#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph_import/plan.h"
#include "graph_import/print.h"

namespace atalla {

namespace {

std::string_view placement_name(Placement placement) {
    switch (placement) {
        case Placement::Accelerator: return "accelerator";
        case Placement::Host: return "host";
        case Placement::Unsupported: return "unsupported";
    }
    return "";
}

std::string escaped(const std::string &text) {
    std::string result;
    for (char c : text) {
        if (c == '<') result += "&lt;";
        else if (c == '&') result += "&amp;";
        else result += c;
    }
    return result;
}

}  // namespace

std::string plan_text(const Graph &graph, const Plan &plan) {
    std::vector<std::vector<std::string>> rows = {{"step", "segment", "runs on", "group", "result", "why not on the accelerator"}};
    for (size_t s = 0; s < plan.segments.size(); s++) {
        for (int32_t g : plan.segments[s].groups) {
            const Group &group = plan.groups[g];
            std::vector<std::string> results;
            for (ValueId output : group.outputs) results.push_back(graph.value(output).name);
            rows.push_back({std::to_string(g), std::to_string(s), std::string(placement_name(group.placement)), group.pattern,
                            fmt::format("{}", fmt::join(results, ", ")), group.reason});
        }
    }
    std::string text = columns(rows) + fmt::format("{} groups in {} segments\n\n", plan.groups.size(), plan.segments.size());
    rows = {{"tensor", "bytes", "offset", "steps", "note"}};
    for (const PlannedTensor &tensor : plan.memory.tensors) {
        if (tensor.offset < 0 && !tensor.alias_of) continue;
        rows.push_back({graph.value(tensor.value).name, std::to_string(tensor.bytes), tensor.offset < 0 ? "-" : std::to_string(tensor.offset),
                        fmt::format("{} to {}", tensor.first, tensor.last),
                        tensor.alias_of ? "in the place of " + graph.value(tensor.alias_of).name : ""});
    }
    return text + columns(rows) +
           fmt::format("{} bytes, aligned to {}; {} are alive at a time at most\n", plan.memory.arena_bytes, plan.memory.alignment, plan.memory.lower_bound);
}

std::string plan_svg(const Graph &graph, const Plan &plan) {
    constexpr double width = 960, height = 480, margin = 40;
    const double steps = std::max<double>(1, static_cast<double>(plan.groups.size()));
    const double bytes = std::max<double>(1, static_cast<double>(plan.memory.arena_bytes));
    const auto x = [&](double step) { return margin + step / steps * (width - 2 * margin); };
    const auto y = [&](double at) { return height - margin - at / bytes * (height - 2 * margin); };
    std::string svg = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"10\">\n"
                                  "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n", width, height);
    for (const PlannedTensor &tensor : plan.memory.tensors) {
        if (tensor.offset < 0 || tensor.alias_of) continue;
        const double left = x(tensor.first), right = x(std::min<double>(tensor.last + 1, steps));
        const double top = y(static_cast<double>(tensor.offset + tensor.bytes)), bottom = y(static_cast<double>(tensor.offset));
        svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#9ecae1\" stroke=\"#08519c\" stroke-width=\"0.5\">"
                           "<title>{}: {} bytes at {}, steps {} to {}</title></rect>\n",
                           left, top, std::max(right - left, 1.0), std::max(bottom - top, 0.5), escaped(graph.value(tensor.value).name), tensor.bytes,
                           tensor.offset, tensor.first, tensor.last);
    }
    svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#cb181d\" stroke-dasharray=\"4 3\"/>\n", margin, width - margin,
                       y(static_cast<double>(plan.memory.lower_bound)), y(static_cast<double>(plan.memory.lower_bound)));
    return svg + fmt::format("<text x=\"{}\" y=\"{}\">steps 0 to {}; arena {} bytes; the line: most bytes alive at a time, {}</text>\n</svg>\n", margin,
                             height - margin / 2, plan.groups.size(), plan.memory.arena_bytes, plan.memory.lower_bound);
}

}  // namespace atalla
