#include "simulator/reference/agreement.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "simulator/machine_state.h"
#include "simulator/reference/reference.h"
#include "simulator/report.h"
#include "simulator/timing/timing.h"

namespace atalla {

namespace {

// "packet 0x00000014 (line 2)": the part of an error that says where.
std::string place_of(const std::string &error) { return error.substr(0, error.find(": ")); }

std::string counters_difference(const Counters &fast, const Counters &reference) {
    const nlohmann::ordered_json one = counters_json(fast).flatten(), other = counters_json(reference).flatten();
    for (const auto &[key, value] : one.items()) {
        if (value != other.at(key)) {
            return fmt::format("counter {} is {} in the fast model and {} in the reference", key, value.dump(),
                               other.at(key).dump());
        }
    }
    return {};
}

std::string packets_difference(const Program &program, const RunResult &fast, const RunResult &reference) {
    for (size_t index = 0; index < program.packets.size(); index++) {
        const uint32_t address = program.packets[index].address;
        if (fast.packet_issues[index] != reference.packet_issues[index]) {
            return fmt::format("packet 0x{:08X} issues {} times in the fast model and {} times in the reference", address,
                               fast.packet_issues[index], reference.packet_issues[index]);
        }
        for (size_t cause = 0; cause < stall_causes; cause++) {
            const uint64_t one = fast.packet_stalls[index][cause], other = reference.packet_stalls[index][cause];
            if (one != other) {
                return fmt::format("packet 0x{:08X} waits {} cycles for {} in the fast model and {} in the reference", address,
                                   one, stall_name(static_cast<Stall>(cause)), other);
            }
        }
    }
    return {};
}

std::string state_difference(const MachineState &fast, const MachineState &reference) {
    const auto name = [](const char *what, size_t number) { return fmt::format("{}{} differs", what, number); };
    for (size_t number = 0; number < std::size(fast.x); number++) {
        if (fast.x[number] != reference.x[number]) return name("x", number);
    }
    for (size_t number = 0; number < std::size(fast.v); number++) {
        if (std::memcmp(fast.v[number], reference.v[number], sizeof fast.v[number]) != 0) return name("v", number);
    }
    for (size_t number = 0; number < std::size(fast.m); number++) {
        if (fast.m[number] != reference.m[number]) return name("m", number);
    }
    const WeightBuffer &one = fast.weights, &other = reference.weights;
    if (std::memcmp(one.depth, other.depth, sizeof one.depth) != 0 || one.first != other.first) return "the weights differ";
    if (fast.pc != reference.pc) return "the program counter differs";
    if (!std::ranges::equal(fast.pad_bytes(), reference.pad_bytes())) return "the pads differ";
    if (fast.bytes.changed_words() != reference.bytes.changed_words()) return "the memory differs";
    return {};
}

std::unique_ptr<MachineState> state_for(const Machine &machine, const Program &program) {
    auto state = std::make_unique<MachineState>(machine);
    for (const auto &[address, word] : program.data) state->bytes.write32(address, word);
    state->bytes.mark();
    return state;
}

Program with_nops(Program program, size_t first, size_t count) {
    for (size_t at = first; at < first + count; at++) program.packets[at].packet = {};
    return program;
}

// The packets behind move up; branches and jumps by offset still reach what they reached, or what is now in its place.
Program without_packets(Program program, size_t first, size_t count) {
    const int64_t gone_from = program.packets[first].address, gone = static_cast<int64_t>(count) * packet_bytes;
    const auto moved = [&](int64_t address) { return address <= gone_from ? address : std::max(gone_from, address - gone); };
    program.packets.erase(program.packets.begin() + static_cast<std::ptrdiff_t>(first),
                          program.packets.begin() + static_cast<std::ptrdiff_t>(first + count));
    for (PlacedPacket &placed : program.packets) {
        const int64_t address = moved(placed.address);
        for (Instruction &slot : placed.packet) {
            if (is_branch(slot.op) || slot.op == Opcode::jal) {
                slot.imm = static_cast<int32_t>(moved(placed.address + slot.imm) - address);
            }
        }
        placed.address = static_cast<uint32_t>(address);
    }
    return program;
}

}  // namespace

std::string disagreement(const Machine &machine, const Program &program, const RunOptions &options, RunResult *fast_result) {
    RunOptions how = options;
    how.per_packet = true;
    const auto fast_state = state_for(machine, program), reference_state = state_for(machine, program);
    const RunResult fast = run_timed(machine, program, *fast_state, how);
    how.observer = nullptr;
    const RunResult reference = run_reference(machine, program, *reference_state, how);
    if (fast_result != nullptr) *fast_result = fast;
    if (fast.rule != reference.rule || place_of(fast.error) != place_of(reference.error)) {
        const auto said = [](const RunResult &result) { return result.ok ? "runs to its end" : result.error; };
        return fmt::format("in the fast model the program {}; in the reference it {}", said(fast), said(reference));
    }
    if (const std::string differs = counters_difference(fast.counters, reference.counters); !differs.empty()) return differs;
    if (const std::string differs = packets_difference(program, fast, reference); !differs.empty()) return differs;
    return state_difference(*fast_state, *reference_state);
}

Program shrink(Program program, const std::function<bool(const Program &)> &fails) {
    const auto keep_if_failing = [&](Program tried) {
        const bool smaller = !tried.packets.empty() && tried.packets != program.packets && fails(tried);
        if (smaller) program = std::move(tried);
        return smaller;
    };
    // Halves, quarters, ... of the packets become nops or go altogether, as the change says.
    const auto try_parts = [&](Program (*change)(Program, size_t, size_t)) {
        bool changed = false;
        for (size_t length = std::max<size_t>(program.packets.size() / 2, 1); length > 0; length /= 2) {
            for (size_t first = 0; first < program.packets.size();) {
                const size_t packets = program.packets.size(), count = std::min(length, packets - first);
                changed |= keep_if_failing(change(program, first, count));
                first += program.packets.size() == packets ? count : 0;
            }
        }
        return changed;
    };
    const auto try_slots = [&] {
        bool changed = false;
        for (size_t at = 0; at < program.packets.size(); at++) {
            for (size_t slot = 0; slot < program.packets[at].packet.size(); slot++) {
                Program tried = program;
                tried.packets[at].packet[slot] = {};
                changed |= keep_if_failing(std::move(tried));
            }
        }
        return changed;
    };
    // What one pass leaves may let another go on.
    for (bool changed = true; changed;) {
        changed = try_parts(with_nops);
        changed |= try_parts(without_packets);
        changed |= try_slots();
    }
    return program;
}

}  // namespace atalla
