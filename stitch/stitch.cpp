#include "stitch/stitch.h"

#include <map>
#include <numeric>

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

namespace {

// The calling convention of routines (codegen): x2 points at the parameter words. The other is free between calls.
constexpr uint8_t parameters = 2, scratch = 3;
constexpr uint32_t word_bytes = 4;
// Code is laid out for lines of the instruction cache, which begin where they did only at multiples of packets and lines alike.
constexpr uint32_t line_bytes = 64, body_alignment = std::lcm(static_cast<uint32_t>(packet_bytes), line_bytes);

Instruction make(Opcode op, uint8_t d, uint8_t a, int32_t imm) {
    Instruction i;
    i.op = op;
    i.d = d;
    i.a = a;
    i.imm = imm;
    return i;
}

class Stitcher {
public:
    explicit Stitcher(const StitchPlan &plan) : plan_(plan) {}

    Stitched run() {
        if (plan_.segments.empty()) throw Error("nothing to stitch: the plan has no segment");
        note_calls();
        place_routines();
        write_dispatch();
        uint32_t at = plan_.parameters;
        for (const Segment &segment : plan_.segments) write_segment(segment, at);
        append({make(Opcode::halt_s, 0, 0, 0)}, entry_source());
        append_routines();
        if (result_.entries.size() > 1) result_.program.data[segment_word] = result_.entries.front();
        return std::move(result_);
    }

private:
    void note_calls() {
        called_.assign(plan_.routines.size(), false);
        for (const Segment &segment : plan_.segments)
            for (const KernelCall &call : segment.calls) {
                if (call.routine >= plan_.routines.size())
                    throw Error(fmt::format("cannot stitch {}: there is no routine {}, only {}", call.node, call.routine,
                                            plan_.routines.size()));
                const Routine &routine = plan_.routines[call.routine];
                if (call.addresses.size() != routine.tensors)
                    throw Error(fmt::format("cannot stitch {}: {} has {} tensors, but the call gives {} addresses", call.node,
                                            routine.name, routine.tensors, call.addresses.size()));
                if (!called_[call.routine]) order_.push_back(call.routine);
                called_[call.routine] = true;
            }
    }

    // Packets before the bodies: two of dispatch, per segment two that set x2 and a jump, and the halt.
    uint32_t entry_packets() const {
        return static_cast<uint32_t>((plan_.segments.size() > 1 ? 2 : 0) + 3 * plan_.segments.size() + 1);
    }
    uint32_t halt_address() const { return (entry_packets() - 1) * static_cast<uint32_t>(packet_bytes); }

    // Where each distinct body that is called begins: in the order of the calls, whatever else the plan has. Bodies are the
    // same if all of their packets are: they have relative jumps only.
    void place_routines() {
        std::map<std::vector<uint64_t>, size_t> known;
        uint32_t at = entry_packets() * packet_bytes;
        body_of_.assign(plan_.routines.size(), 0);
        for (const size_t r : order_) {
            const Routine &routine = plan_.routines[r];
            std::vector<uint64_t> words;
            for (const PlacedPacket &packet : routine.program.packets)
                for (const Instruction &slot : packet.packet) words.push_back(encode(slot));
            const auto [entry, is_new] = known.try_emplace(std::move(words), result_.routines.size());
            body_of_[r] = entry->second;
            if (!is_new) continue;
            first_of_.push_back(r);
            at = (at + body_alignment - 1) / body_alignment * body_alignment;
            const uint32_t end = at + static_cast<uint32_t>(routine.program.packets.size() * packet_bytes);
            result_.routines.push_back({routine.name, at, end, result_.routines.size()});
            at = end;
        }
    }

    void write_dispatch() {
        if (plan_.segments.size() == 1) return;
        append({make(Opcode::lw_s, scratch, 0, segment_word)}, entry_source());
        append({make(Opcode::jalr, 0, scratch, 0)}, entry_source());
    }

    // Parameter words lie in the order of the calls, so that one line of the data cache brings those of several.
    void write_segment(const Segment &segment, uint32_t &at) {
        result_.entries.push_back(here());
        append({make(Opcode::lui_s, parameters, 0, static_cast<int32_t>(at >> 7))}, entry_source());
        append({make(Opcode::addi_s, parameters, parameters, static_cast<int32_t>(at & 127))}, entry_source());
        const auto begin_of = [&](size_t call) {
            return call < segment.calls.size() ? result_.routines[body_of_[segment.calls[call].routine]].begin : halt_address();
        };
        append({make(Opcode::jal, 0, 0, static_cast<int32_t>(begin_of(0)) - static_cast<int32_t>(here()))}, entry_source());
        for (size_t c = 0; c < segment.calls.size(); c++) {
            const KernelCall &call = segment.calls[c];
            const size_t body = body_of_[call.routine];
            result_.calls.push_back({call.node, result_.routines[body].begin, result_.routines[body].end, body});
            std::vector<uint32_t> words = call.addresses;
            words.push_back(begin_of(c + 1));
            words.push_back(at + word_bytes * static_cast<uint32_t>(words.size() + 1));
            for (uint32_t word : words) {
                result_.program.data[at] = word;
                at += word_bytes;
            }
        }
    }

    void append_routines() {
        for (const size_t first : first_of_) {
            const Routine &routine = plan_.routines[first];
            const auto source_base = static_cast<int32_t>(result_.program.sources.size());
            const std::string prefix = fmt::format("{}:", result_.routines[body_of_[first]].name);
            const uint32_t begin = result_.routines[body_of_[first]].begin;
            while (here() < begin) append({}, entry_source());  // nothing runs between bodies
            for (const SourceLocation &source : routine.program.sources) {
                result_.program.sources.push_back(source);
                result_.program.sources.back().node = routine.name;
            }
            for (const auto &[label, address] : routine.program.symbols)
                result_.program.symbols[prefix + label] = begin + address;
            // What belongs to no Func is named after the label before it.
            std::map<uint32_t, std::string> labels;
            for (const auto &[label, address] : routine.program.symbols) labels[address] = label;
            std::map<std::string, int32_t> source_of_label;
            for (const PlacedPacket &packet : routine.program.packets) {
                int32_t source = packet.source + source_base;
                if (packet.source < 0) {
                    const auto behind = labels.upper_bound(packet.address);
                    const std::string label = behind == labels.begin() ? routine.name : std::prev(behind)->second;
                    source =
                        source_of_label.try_emplace(label, static_cast<int32_t>(result_.program.sources.size())).first->second;
                    if (static_cast<size_t>(source) == result_.program.sources.size())
                        result_.program.sources.push_back({label, "", routine.name});
                }
                result_.program.append(packet.packet, source);
            }
        }
    }

    // What calls the kernels belongs to none of them.
    int32_t entry_source() {
        if (entry_source_ < 0) {
            entry_source_ = static_cast<int32_t>(result_.program.sources.size());
            result_.program.sources.push_back({"entry", "", "(entry)"});
        }
        return entry_source_;
    }

    uint32_t here() const { return static_cast<uint32_t>(result_.program.packets.size() * packet_bytes); }
    void append(std::initializer_list<Instruction> slots, int32_t source) {
        Packet packet{};
        std::copy(slots.begin(), slots.end(), packet.begin());
        result_.program.append(packet, source);
    }

    const StitchPlan &plan_;
    Stitched result_;
    int32_t entry_source_ = -1;
    std::vector<bool> called_;      // of a routine of the plan
    std::vector<size_t> order_;     // of the routines that are called, by their first call
    std::vector<size_t> body_of_;   // of a routine of the plan that is called: index into result_.routines
    std::vector<size_t> first_of_;  // of a body: the first routine of the plan that is it
};

}  // namespace

uint32_t parameter_bytes(const StitchPlan &plan) {
    size_t words = 0;
    for (const Segment &segment : plan.segments)
        for (const KernelCall &call : segment.calls) words += call.addresses.size() + next_words;
    return static_cast<uint32_t>(words * word_bytes);
}

Stitched stitch(const StitchPlan &plan) { return Stitcher(plan).run(); }

}  // namespace atalla
