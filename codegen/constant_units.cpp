#include "codegen/constant_units.h"

#include <algorithm>
#include <map>

#include "codegen/dependence.h"

namespace atalla::codegen {

namespace {

constexpr int64_t smallest_factor = -2048, largest_factor = 2047;

// What an operation that reads no register makes.
std::optional<int32_t> made_constant(const Op &op) {
    if (op.value || op.side || op.orders >= 0) return std::nullopt;
    if (op.opcode == Opcode::lui_s) return static_cast<int32_t>(static_cast<uint32_t>(op.imm) << 7);
    const bool alone = op.opcode == Opcode::addi_s && op.src[0] == zero_scalar && !op.src[1].defined();
    return alone ? std::optional(op.imm) : std::nullopt;
}

std::map<Reg, int> count_writes(const std::vector<Op> &ops) {
    std::map<Reg, int> writes;
    for (const Op &op : ops) {
        if (op.dst.defined()) writes[op.dst]++;
        if (!op.side) continue;
        for (const Op &inner : *op.side)
            if (inner.dst.defined()) writes[inner.dst]++;
    }
    return writes;
}

}  // namespace

std::optional<std::vector<Op>> constants_on_other_units(const std::vector<Op> &block) {
    if (std::ranges::none_of(block, [](const Op &op) { return made_constant(op).has_value(); })) return std::nullopt;
    std::vector<Op> ops = block;
    const std::map<Reg, int> writes = count_writes(ops);
    const auto stays = [&](const Op &op) { return writes.at(op.dst) == 1; };
    // Every small constant is a multiple of one, if that is there first.
    const auto one = std::find_if(ops.begin(), ops.end(), [&](const Op &op) { return made_constant(op) == 1 && stays(op); });
    bool changed = false;
    if (one != ops.end() && one != ops.begin() &&
        std::none_of(ops.begin(), one, [&](const Op &op) { return reads(op, one->dst); })) {
        std::rotate(ops.begin(), one, one + 1);
        changed = true;
    }
    const auto operations_of = [&](Unit unit) {
        return std::count_if(ops.begin(), ops.end(), [&](const Op &op) { return info(op.opcode).unit == unit; });
    };
    auto integers = operations_of(Unit::Ex1), products = operations_of(Unit::Ex4);
    std::vector<std::pair<Reg, int64_t>> bases;  // constants that keep their registers
    for (Op &op : ops) {
        const std::optional<int32_t> value = made_constant(op);
        if (!value) continue;
        if (*value == 0) {
            changed = true;
            op.opcode = Opcode::vmov_vts;
            op.src = {zero_vector};
            op.imm = 0;
            integers--;
            continue;
        }
        const auto divides = [&](const auto &base) {
            return *value % base.second == 0 && *value / base.second >= smallest_factor &&
                   *value / base.second <= largest_factor;
        };
        const auto base = std::find_if(bases.begin(), bases.end(), divides);
        if (base == bases.end() || products >= integers) {
            if (stays(op)) bases.emplace_back(op.dst, *value);
            continue;
        }
        changed = true;
        op.opcode = Opcode::muli_s;
        op.src = {base->first};
        op.imm = static_cast<int32_t>(*value / base->second);
        integers--;
        products++;
    }
    return changed ? std::optional(std::move(ops)) : std::nullopt;
}

}  // namespace atalla::codegen
