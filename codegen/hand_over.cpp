#include "codegen/hand_over.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>
#include <set>
#include <vector>

#include "codegen/transfer_code.h"

namespace atalla::codegen {

namespace {

bool is_transfer(const Op &op) { return info(op.opcode).unit == Unit::Sdma; }
bool is_wait(const Op &op) { return op.opcode == Opcode::or_s && op.dst == zero_scalar && op.orders >= 0; }
// What stands between transfers at the end of a kernel: it aims them.
bool is_aim(const Op &op) { return op.value.has_value() || op.fence; }

template <typename Found>
bool any_op(const Node &node, Found &&found) {
    if (node.op) return found(*node.op) || (node.op->side && std::any_of(node.op->side->begin(), node.op->side->end(), found));
    const Body &body = node.loop ? node.loop->body : node.branch->body;
    return std::any_of(body.begin(), body.end(), [&](const Node &inner) { return any_op(inner, found); });
}

std::vector<Reg> busy_registers(Kernel &kernel) {
    std::vector<Reg> busy;
    for (int number = first_busy_register; number < first_busy_register + kernel.machine->pad.count; number++) {
        busy.push_back(kernel.scalar("busy"));
        RegInfo &reg = kernel.registers[static_cast<size_t>(busy.back().id)];
        reg.physical = static_cast<int16_t>(number);
        reg.bank = static_cast<int8_t>(number % kernel.machine->regs.scalar_banks);
    }
    return busy;
}

// Goes back from the end, as far as there is nothing but transfers and what aims them. Between transfers a wait stays, and ends
// it.
void leave_transfers(Kernel &kernel, const std::vector<Reg> &busy_of_pad) {
    Body &body = kernel.body;
    while (!body.empty() && body.back().op && is_wait(*body.back().op)) body.pop_back();
    std::set<int> left;  // pads
    for (size_t at = body.size(); at-- > 0;) {
        std::vector<Op *> ops;
        if (body[at].op)
            ops.push_back(&*body[at].op);
        else if (body[at].loop)
            for (Node &inner : body[at].loop->body) ops.push_back(inner.op ? &*inner.op : nullptr);
        if (ops.empty() ||
            !std::ranges::all_of(ops, [](const Op *op) { return op != nullptr && (is_transfer(*op) || is_aim(*op)); }))
            return;
        Body aims;
        Renaming names;  // of what a loop steps
        for (size_t i = ops.size(); i-- > 0;) {
            if (!is_transfer(*ops[i]) || !left.insert(ops[i]->pad).second) continue;
            const Reg own = ops[i]->dst, busy = busy_of_pad[static_cast<size_t>(ops[i]->pad)];
            const std::optional<int32_t> constant = kernel.registers[static_cast<size_t>(own.id)].constant;
            aims.push_back(constant ? value_op(busy, {*constant, {}}) : value_op(busy, {0, {}}, {own}));
            names.emplace(own.id, busy);
        }
        for (Op *op : ops) rename(*op, names);
        body.insert(body.begin() + static_cast<std::ptrdiff_t>(at), std::make_move_iterator(aims.begin()),
                    std::make_move_iterator(aims.end()));
    }
}

void await_transfers(Kernel &kernel, const std::vector<Reg> &busy) {
    Body &body = kernel.body, waits;
    const auto meets = [](const Op &op) { return op.access.has_value() || is_transfer(op); };
    const auto place = std::find_if(body.begin(), body.end(), [&](const Node &node) { return any_op(node, meets); });
    for (size_t pad = 0; pad < busy.size(); pad += 2)
        waits.push_back(binary(Opcode::or_s, zero_scalar, busy[pad], pad + 1 < busy.size() ? busy[pad + 1] : zero_scalar));
    body.insert(place, std::make_move_iterator(waits.begin()), std::make_move_iterator(waits.end()));
}

}  // namespace

void hand_over_transfers(Kernel &kernel, bool leave) {
    const std::vector<Reg> busy = busy_registers(kernel);
    await_transfers(kernel, busy);
    if (leave) leave_transfers(kernel, busy);
}

}  // namespace atalla::codegen
