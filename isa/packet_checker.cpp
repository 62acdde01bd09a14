#include "isa/packet_checker.h"

#include <fmt/format.h>

#include "isa/fields.h"

namespace atalla {

namespace {

using Violation = std::optional<std::string>;

constexpr int slot_count = std::tuple_size_v<Packet>;

// A packet that is known to hold defined opcodes only, with what the rules ask about each slot at hand.
class Checker {
public:
    Checker(const Packet &packet, const Machine &machine, const PacketPads &pads)
        : packet_(packet), machine_(machine), pads_(pads) {
        for (int slot = 0; slot < slot_count; slot++) {
            infos_[slot] = &info(packet[slot].op);
            operands_[slot] = operands(packet[slot], machine.sa.psum_in);
        }
    }

    Violation first_violation() const {
        for (auto rule : {&Checker::slots, &Checker::scalar_units, &Checker::lanes, &Checker::array, &Checker::moves_to_scalar,
                          &Checker::pads, &Checker::read_ports, &Checker::dependences}) {
            if (Violation violation = (this->*rule)()) {
                return violation;
            }
        }
        return {};
    }

private:
    std::string name(int slot) const { return fmt::format("slot {} ({})", slot, infos_[slot]->mnemonic); }

    template <typename Predicate>
    int count(Predicate &&predicate) const {
        int found = 0;
        for (int slot = 0; slot < slot_count; slot++) {
            found += predicate(slot);
        }
        return found;
    }

    // "slot 0 (add.vv), slot 1 (mul.vv) and slot 3 (sub.vv)"
    template <typename Predicate>
    std::string list(Predicate &&predicate) const {
        std::string text;
        int left = count(predicate);
        for (int slot = 0; slot < slot_count; slot++) {
            if (predicate(slot)) {
                left--;
                text += name(slot);
                text += left > 1 ? ", " : left == 1 ? " and " : "";
            }
        }
        return text;
    }

    template <typename Predicate>
    Violation at_most(int64_t limit, std::string_view what, Predicate &&predicate) const {
        const int found = count(predicate);
        if (found <= limit) {
            return {};
        }
        return fmt::format("{} {} {}, but a packet issues at most {}", list(predicate), found == 1 ? "is" : "are", what, limit);
    }

    Violation one_of_unit(Unit unit) const {
        const auto uses = [&](int slot) { return infos_[slot]->unit == unit; };
        if (count(uses) <= 1) {
            return {};
        }
        return fmt::format("{} {} need {}, but a packet issues one operation on it", list(uses),
                           count(uses) == 2 ? "both" : "all", unit_name(unit));
    }

    Violation slots() const {
        return at_most(machine_.issue.slots, "operations", [&](int slot) { return !packet_[slot].is_nop(); });
    }

    Violation scalar_units() const {
        for (Unit unit : {Unit::Ex1, Unit::Ex2, Unit::Ex3, Unit::Ex4, Unit::Ex5}) {
            if (Violation violation = one_of_unit(unit)) {
                return violation;
            }
        }
        return {};
    }

    Violation lanes() const {
        for (Unit unit : {Unit::Alu, Unit::Mul, Unit::Exp, Unit::Reduce}) {
            if (Violation violation = one_of_unit(unit)) {
                return violation;
            }
        }
        return at_most(machine_.issue.lane_ops, "lane operations",
                       [&](int slot) { return is_lane_operation(packet_[slot].op); });
    }

    Violation array() const {
        return at_most(machine_.issue.array_ops, "array operations",
                       [&](int slot) { return infos_[slot]->unit == Unit::Array; });
    }

    Violation moves_to_scalar() const {
        return at_most(machine_.issue.mts_ops, "moves to scalar registers",
                       [&](int slot) { return infos_[slot]->unit == Unit::MoveToScalar; });
    }

    Violation pads() const {
        for (int pad = 0; pad < 4; pad++) {
            const auto accesses = [&](int slot) { return infos_[slot]->unit == Unit::Vlsu && packet_[slot].aux == pad; };
            if (pad >= machine_.pad.count && machine_.timed() && count(accesses) > 0) {
                return fmt::format("{} names pad {}, but the machine has pads 0..{}", list(accesses), pad,
                                   machine_.pad.count - 1);
            }
            if (count(accesses) > machine_.issue.vlsu_per_pad) {
                return at_most(machine_.issue.vlsu_per_pad, fmt::format("vector loads or stores of pad {}", pad), accesses);
            }
            const auto transfers = [&](int slot) { return infos_[slot]->unit == Unit::Sdma && pads_[slot] == pad; };
            if (count(transfers) > machine_.issue.sdma_per_pad) {
                return at_most(machine_.issue.sdma_per_pad, fmt::format("transfers of pad {}", pad), transfers);
            }
        }
        return {};
    }

    Violation read_ports() const {
        const auto &issue = machine_.issue;
        for (const auto &[cls, word, limit] : {std::tuple{RegisterClass::Scalar, "scalar", issue.scalar_reads},
                                               std::tuple{RegisterClass::Vector, "vector", issue.vector_reads},
                                               std::tuple{RegisterClass::Mask, "mask", issue.mask_reads}}) {
            const auto reads = [&, cls = cls](int slot) {
                int found = 0;
                for (Register source : operands_[slot].reads()) {
                    found += source.cls == cls;
                }
                return found;
            };
            const int total = count(reads);
            if (total > limit) {
                return fmt::format("{} read {} {} registers together, but a packet has {} {} read ports",
                                   list([&](int slot) { return reads(slot) > 0; }), total, word, limit, word);
            }
        }
        return {};
    }

    Violation dependences() const {
        for (int late = 1; late < slot_count; late++) {
            for (int early = 0; early < late; early++) {
                for (Register written : operands_[early].writes()) {
                    if (is_constant(written)) {
                        continue;
                    }
                    for (Register read : operands_[late].reads()) {
                        if (read == written) {
                            return fmt::format("{} reads {}, which {} of the same packet writes", name(late),
                                               register_name(written), name(early));
                        }
                    }
                    for (Register other : operands_[late].writes()) {
                        if (other == written) {
                            return fmt::format("{} and {} of one packet both write {}", name(early), name(late),
                                               register_name(written));
                        }
                    }
                }
            }
        }
        return {};
    }

    const Packet &packet_;
    const Machine &machine_;
    const PacketPads &pads_;
    std::array<const InstructionInfo *, slot_count> infos_{};
    std::array<Operands, slot_count> operands_{};
};

}  // namespace

std::optional<std::string> check_packet(const Packet &packet, const Machine &machine, const PacketPads &pads) {
    for (int slot = 0; slot < slot_count; slot++) {
        const InstructionInfo *row = find_instruction(packet[slot].op);
        if (!row) {
            return fmt::format("slot {} holds the undefined opcode 0x{:02X}", slot, static_cast<int>(packet[slot].op));
        }
        if (row->unit == Unit::Undefined) {
            return fmt::format("slot {} holds {}, which no unit of the machine executes", slot, row->mnemonic);
        }
    }
    return Checker(packet, machine, pads).first_violation();
}

}  // namespace atalla
