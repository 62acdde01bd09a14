#include "codegen/rings.h"

#include "codegen/transfer_code.h"

namespace atalla::codegen {

Rings::Rings(Kernel &kernel, bool ahead) : kernel_(kernel) {
    if (ahead) find(kernel_.body, 0);
}

void Rings::note(int allocation, const LinearForm &row) {
    Ring found;
    for (auto [atom, coefficient] : row.terms) {
        // A loop that runs twice is its own slot number.
        const Atom &slot_atom = kernel_.atoms[atom];
        const int64_t rows = kernel_.allocations[allocation].rows;
        if (slot_atom.is_loop && kernel_.loops[slot_atom.loop].extent == 2 && coefficient * 2 == rows)
            found = {atom, slot_atom.loop, coefficient, true, false, {}};
        const auto *mod = kernel_.atoms[atom].expr.as<Halide::Internal::Mod>();
        if (mod == nullptr) continue;
        const auto *count = mod->b.as<Halide::Internal::IntImm>();
        if (count != nullptr && count->value == 2) found = {atom, kernel_.atoms[atom].loop, coefficient, true, false, {}};
    }
    auto [it, inserted] = rings_.try_emplace(allocation, found);
    if (!inserted && (it->second.atom != found.atom || it->second.rows != found.rows)) it->second.usable = false;
    if (found.atom < 0) it->second.usable = false;
}

void Rings::find(const Body &body, int depth) {
    for (const Node &node : body) {
        if (node.op && node.op->access && depth > 0) {
            note(node.op->access->allocation, node.op->access->row);
            rings_[node.op->access->allocation].computed = true;
        }
        if (node.copy) {
            note(node.copy->allocation, node.copy->pad_row);
            rings_[node.copy->allocation].copied = true;
        }
        if (node.copy && node.copy->first_of >= 0) rings_[node.copy->allocation].usable = false;  // it stays
        if (node.loop && !node.loop->fill) find(node.loop->body, depth + 1);
    }
}

const Ring *Rings::of(int allocation) const {
    const auto it = rings_.find(allocation);
    return it != rings_.end() && it->second.usable && it->second.computed && it->second.copied ? &it->second : nullptr;
}

Reg Rings::slot(int allocation) {
    Ring &ring = rings_.at(allocation);
    if (!ring.current.defined()) ring.current = kernel_.scalar(kernel_.allocations[allocation].name + "_slot");
    return ring.current;
}

int64_t Rings::slot_bytes(int allocation) const {
    const Ring &ring = rings_.at(allocation);
    return kernel_.allocations[allocation].step_in_pad(ring.rows).value() * kernel_.machine->pad.row_bytes;
}

void Rings::use_slots(Body &body) {
    for (Node &node : body) {
        if (node.op && node.op->access)
            if (const Ring *ring = of(node.op->access->allocation)) {
                node.op->access->row.terms.erase(ring->atom);
                node.op->access->slot = slot(node.op->access->allocation);
            }
        if (node.loop) use_slots(node.loop->body);
    }
}

int64_t Rings::first_byte(int allocation) const {
    return kernel_.allocations[allocation].base_row * kernel_.machine->pad.row_bytes;
}

Op Rings::other_slot(int allocation, Reg dst, Reg from) {
    return binary(Opcode::sub_s, dst,
                  kernel_.constant(static_cast<int32_t>(2 * first_byte(allocation) + slot_bytes(allocation))), from);
}

}  // namespace atalla::codegen
