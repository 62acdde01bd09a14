#include "simulator/a48.h"

#include <algorithm>
#include <fstream>
#include <functional>

#include <fmt/format.h>

#include "isa/error.h"
#include "isa/in_grammar.h"
#include "isa/read_file.h"
#include "simulator/a48_semantics.h"
#include "simulator/expect_file.h"

namespace atalla::a48 {

bool is_a48_file(const std::filesystem::path &file) {
    std::ifstream input = open_to_read(file);
    constexpr size_t a40_digits = 40;
    bool wide = false;
    std::vector<uint32_t> addresses;
    read_in_lines(input, file.string(),
                  {.packet =
                       [&](const InLine &line) {
                           wide |= line.digits.size() > a40_digits;
                           if (addresses.size() < 2) {
                               addresses.push_back(line.address);
                           }
                       },
                   .data = [](const InLine &) {}});
    return wide || (addresses.size() == 2 && addresses[1] - addresses[0] == packet_bytes);
}

struct Simulator::Impl {
    State state;
    std::vector<PlacedPacket> packets;

    const PlacedPacket *find(int64_t pc) const {
        const auto found = std::ranges::lower_bound(packets, pc, {}, [](const PlacedPacket &p) { return int64_t{p.address}; });
        return found != packets.end() && found->address == pc ? &*found : nullptr;
    }
};

Simulator::Simulator(const Program &program) : impl_(std::make_unique<Impl>()) {
    impl_->packets = program.packets;
    const auto twin = std::ranges::adjacent_find(impl_->packets, std::greater_equal<uint32_t>(), &PlacedPacket::address);
    if (twin != impl_->packets.end()) {
        throw Error(fmt::format("the packet after the one at address 0x{:08X} has a lower or equal address", twin->address));
    }
    for (const auto &[address, word] : program.data) {
        impl_->state.words.write(address, word);
    }
}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator &&) noexcept = default;
Simulator &Simulator::operator=(Simulator &&) noexcept = default;

RunResult Simulator::run(const RunOptions &options) {
    RunResult result;
    Counters &counters = result.counters;
    State &state = impl_->state;
    state.reset();
    state.words.mark();
    int64_t pc = 0;
    const PlacedPacket *packet = nullptr;
    try {
        for (PacketOutcome out; !out.halted; pc = out.next_pc) {
            packet = impl_->find(pc);
            if (packet == nullptr) {
                refuse_missing_packet(pc);
            }
            if (counters.packets == options.step_limit) {
                refuse_step_limit(options.step_limit);
            }
            out = {pc + packet_bytes, false, false};
            for (const Instruction &slot : packet->packet) {
                if (slot.is_nop()) {
                    continue;
                }
                execute(state, slot, pc, out);
                counters.operations++;
            }
            counters.packets++;
        }
        result.ok = true;
    } catch (const Refusal &refusal) {
        result.rule = refusal.rule;
        result.error =
            refusal_message(refusal, pc, packet != nullptr && packet->line > 0 ? fmt::format("line {}", packet->line) : "");
    }
    counters.cycles = counters.packets;
    counters.dma_load_bytes = state.traffic.dma_load_bytes;
    counters.dma_store_bytes = state.traffic.dma_store_bytes;
    return result;
}

std::string Simulator::dump_state(const RunResult &result) const {
    return expect_of(impl_->state, impl_->state.words.changed_words(), result.counters.packets).text();
}

}  // namespace atalla::a48
