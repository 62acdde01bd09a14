#include "tools/whatif_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "simulator/report.h"

namespace atalla {

namespace {

std::string value_of(const Setting &setting) {
    const std::string text = setting_text(setting);
    return text.substr(text.find('=') + 1);
}

// The cycles that changes are told against; 0 if nothing runs.
int64_t first_cycles(const std::vector<WhatIf> &rows) {
    const auto found = std::ranges::find_if(rows, [](const WhatIf &row) { return row.cycles > 0; });
    return found == rows.end() ? 0 : found->cycles;
}

double change(const WhatIf &row, int64_t against) {
    return 100.0 * (static_cast<double>(row.cycles) / static_cast<double>(against) - 1);
}

std::string escaped(const std::string &text) {
    std::string result;
    for (const char c : text) result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    return result;
}

std::string settings_text(const WhatIf &row) {
    std::string text;
    for (const Setting &setting : row.variant.settings) text += (text.empty() ? "" : ", ") + setting_text(setting);
    return text.empty() ? row.variant.machine.name : text;
}

}  // namespace

std::string whatif_text(const std::vector<WhatIf> &rows) {
    const bool bounded = std::ranges::any_of(rows, [](const WhatIf &row) { return row.bound.has_value(); });
    std::string text = "  ";
    std::vector<size_t> widths;
    for (const Setting &setting : rows.front().variant.settings) {
        widths.push_back(std::max<size_t>(setting.key.size(), 6) + 2);
        text += fmt::format("{:<{}}", setting.key, widths.back());
    }
    text += fmt::format("{:>14}{:>10}{}  {}\n", "cycles", "change",
                        bounded ? fmt::format("{:>14}{:>9}  {:<12}", "lower bound", "share", "decided by") : "", "bound by");
    const int64_t against = first_cycles(rows);
    for (const WhatIf &row : rows) {
        text += "  ";
        for (size_t at = 0; at < widths.size(); at++)
            text += fmt::format("{:<{}}", value_of(row.variant.settings[at]), widths[at]);
        if (row.cycles == 0) {
            text += fmt::format("{:>14}  {}\n", "-", row.problem);
            continue;
        }
        text += fmt::format("{:>14}{:>+8.1f} %", grouped(static_cast<uint64_t>(row.cycles)), change(row, against));
        if (row.bound) {
            text += fmt::format("{:>14}{:>7.1f} %  {:<12}", grouped(static_cast<uint64_t>(row.bound->cycles)),
                                100.0 * static_cast<double>(row.bound->cycles) / static_cast<double>(row.cycles),
                                row.bound->binding);
        }
        text += fmt::format("  {} ({:.0f} % of the cycles)\n", row.limit, 100 * row.limit_share);
    }
    return text;
}

nlohmann::ordered_json whatif_json(const std::vector<WhatIf> &rows) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const WhatIf &row : rows) {
        nlohmann::ordered_json settings = nlohmann::ordered_json::object();
        for (const Setting &setting : row.variant.settings) settings[setting.key] = setting.value;
        nlohmann::ordered_json json{
            {"machine", row.variant.machine.name}, {"fingerprint", row.variant.machine.fingerprint()}, {"settings", settings}};
        if (row.cycles == 0) {
            json["problem"] = row.problem;
        } else {
            json["cycles"] = row.cycles;
            if (row.bound) {
                json["bound_cycles"] = row.bound->cycles;
                json["bound_decided_by"] = row.bound->binding;
            }
            json["bound_by"] = row.limit;
            json["bound_share"] = row.limit_share;
            if (!row.schedule.empty()) json["schedule"] = row.schedule;
        }
        list.push_back(std::move(json));
    }
    return list;
}

std::string whatif_svg(const std::string &title, const std::vector<WhatIf> &rows) {
    constexpr int width = 860, left = 250, bar_width = 360, line = 26, top = 56;
    int64_t most = 1;
    for (const WhatIf &row : rows) most = std::max(most, row.cycles);
    const auto scaled = [&](int64_t cycles) { return bar_width * static_cast<double>(cycles) / static_cast<double>(most); };
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" "
        "font-size=\"12\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        "<text x=\"16\" y=\"24\" font-size=\"15\">{2}</text>\n"
        "<text x=\"16\" y=\"42\" fill=\"#666\">cycles, the lower bound as a line, and what bound the run</text>\n",
        width, top + line * static_cast<int>(rows.size()) + 14, escaped(title));
    for (size_t at = 0; at < rows.size(); at++) {
        const WhatIf &row = rows[at];
        const int y = top + line * static_cast<int>(at);
        svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 8, y + 14,
                           escaped(settings_text(row)));
        if (row.cycles == 0) {
            svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#a33\">{}</text>\n", left, y + 14,
                               escaped(row.problem.substr(0, 96)));
            continue;
        }
        svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"18\" fill=\"#8fbf9f\"/>\n", left, y,
                           scaled(row.cycles));
        if (row.bound) {
            svg += fmt::format(
                "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#222\" stroke-width=\"1.5\"/>\n",
                left + scaled(row.bound->cycles), y - 2, y + 20);
        }
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}  {}</text>\n", left + scaled(row.cycles) + 8, y + 14,
                           grouped(static_cast<uint64_t>(row.cycles)), escaped(row.limit));
    }
    return svg + "</svg>\n";
}

}  // namespace atalla
