#include "simulator/refusal.h"

#include <algorithm>

#include <fmt/format.h>

namespace atalla {

void refuse(std::string rule, std::string sentence) { throw Refusal{std::move(rule), std::move(sentence)}; }

void refuse_missing_packet(int64_t pc) { refuse("50", fmt::format("there is no packet at address 0x{:08X}", pc)); }

void refuse_step_limit(uint64_t limit) {
    refuse("step limit",
           fmt::format("no halt within {} packets; raise the step limit if the program is meant to run longer", limit));
}

void refuse_cycle_limit(uint64_t limit) { refuse("cycle limit", fmt::format("no halt within {} cycles", limit)); }

std::string refusal_message(const Refusal &refusal, int64_t pc, const std::string &origin) {
    const std::string where = origin.empty() ? "" : fmt::format(" ({})", origin);
    return fmt::format("packet 0x{:08X}{}: {} (rule {})", pc, where, refusal.sentence, refusal.rule);
}

std::string refusal_message(const Refusal &refusal, int64_t pc, const Program &program) {
    std::string origin;
    const auto add = [&origin](const std::string &what, const std::string &value) {
        if (!value.empty()) {
            origin += (origin.empty() ? "" : ", ") + what + " " + value;
        }
    };
    const auto packet =
        std::ranges::lower_bound(program.packets, pc, {}, [](const PlacedPacket &p) { return int64_t{p.address}; });
    if (packet != program.packets.end() && packet->address == pc) {
        if (packet->line > 0) {
            add("line", std::to_string(packet->line));
        }
        if (packet->source >= 0 && static_cast<size_t>(packet->source) < program.sources.size()) {
            const SourceLocation &source = program.sources[packet->source];
            add("Func", source.func);
            add("loop", source.loop);
            add("node", source.node);
        }
    }
    return refusal_message(refusal, pc, origin);
}

}  // namespace atalla
