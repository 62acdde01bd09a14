// Symbolic addresses to registers. A pad access is base register + row offset register: the base holds everything that
// varies and advances with its loop, the offset is a constant.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "codegen/passes.h"
#include "codegen/pointer_keys.h"
#include "codegen/pointer_steps.h"
#include "codegen/scalar_code.h"

namespace atalla::codegen {

namespace {

// The registers that a loop changes.
std::set<Reg> changed_in(const Kernel &kernel, const Loop &loop);
void add_changed(const Op &op, std::set<Reg> &changed) {
    changed.insert(op.dst);
    if (op.side)
        for (const Op &inner : *op.side) add_changed(inner, changed);
}
void add_changed(const Kernel &kernel, const Body &body, std::set<Reg> &changed) {
    for (const Node &node : body) {
        if (node.op) add_changed(*node.op, changed);
        if (node.loop) changed.merge(changed_in(kernel, *node.loop));
        if (node.branch) add_changed(kernel, node.branch->body, changed);
    }
}
std::set<Reg> changed_in(const Kernel &kernel, const Loop &loop) {
    std::set<Reg> changed = {kernel.loops[loop.id].index};
    add_changed(kernel, loop.body, changed);
    changed.erase(Reg{});
    return changed;
}

// Registers of a loop whose pointers have steps of a period: a step is the same register for all pointers that share it, made
// from a mask that is -1 behind each `period`-th iteration.
struct UnevenSteps {
    Kernel &kernel;
    const ScalarCode &code;
    std::map<int64_t, Reg> masks;  // by period
    std::map<std::array<int64_t, 3>, Reg> made;
    Body head;  // of an iteration

    Reg step(const PointerSteps &steps, Body &before) {
        Reg &mask = masks[steps.period], &step = made[{steps.period, steps.usual, steps.jump}];
        if (!mask.defined()) {
            mask = kernel.scalar("jumps");
            const Reg left = kernel.scalar("until_jump"), again = kernel.scalar("again");
            before.push_back(code.add(left, zero_scalar, steps.period - 1));
            head.push_back(code.add(left, left, -1));
            head.push_back(ScalarCode::make(Opcode::srai_s, mask, left, {}, 31));
            head.push_back(ScalarCode::make(Opcode::and_s, again, mask, kernel.constant(static_cast<int32_t>(steps.period))));
            head.push_back(ScalarCode::make(Opcode::add_s, left, left, again));
        }
        if (!step.defined()) {
            step = kernel.scalar("step");
            head.push_back(
                ScalarCode::make(Opcode::and_s, step, mask, kernel.constant(static_cast<int32_t>(steps.jump - steps.usual))));
            head.push_back(code.add(step, step, steps.usual));
        }
        return step;
    }
};

class AddressLowering {
public:
    AddressLowering(Kernel &kernel, bool optimize)
        : kernel_(kernel),
          optimize_(optimize),
          spread_(optimize && kernel.machine->timed() && kernel.machine->regs.scalar_conflict),
          code_(kernel, optimize),
          keys_(kernel, spread_) {}

    void run() {
        std::map<PointerKey, Reg> pointers;
        lower(kernel_.body, pointers);
    }

private:
    // Rows of a buffer that stays where it is have a base for every so many of them: their offsets are few constants, which
    // buffers share.
    static constexpr int64_t rows_of_window = 16;

    Reg place_pointer(Reg r, int copy) {
        if (spread_ && r.id > all_lanes.id && kernel_.registers[r.id].bank < 0)
            kernel_.registers[r.id].bank = static_cast<int8_t>(copy);
        return r;
    }

    // The register for what of a key does not vary in the loops inside `body`'s level.
    Reg outermost(const PointerKey &key, Body &out) {
        const int64_t base = kernel_.allocations[key.allocation].base_row * kernel_.machine->pad.row_bytes;
        if (!key.slot.defined()) return place_pointer(kernel_.constant(static_cast<int32_t>(base), key.copy), key.copy);
        if (key.copy == 0) return place_pointer(key.slot, 0);
        const Reg twin = place_pointer(kernel_.scalar("slot_twin"), key.copy);
        out.push_back(ScalarCode::make(Opcode::addi_s, twin, key.slot));
        return twin;
    }

    Reg pointer(const PointerKey &key, std::map<PointerKey, Reg> &pointers, Body &out) {
        if (const auto it = pointers.find(key); it != pointers.end()) return it->second;
        Reg r;
        if (key.window != 0) {
            // What no loop advances: one pointer for all ranges.
            PointerKey whole = key;
            whole.window = 0;
            r = pointer(whole, pointers, out);
        } else if (key.wraps) {
            PointerKey whole = key;
            whole.wraps = false;
            const Reg p = pointer(whole, pointers, out);
            r = code_.emit(Opcode::and_s, p, kernel_.constant(static_cast<int32_t>(kernel_.machine->pad.bytes - 1)), 0, out);
            if (first_row(p) != 0) first_row_of_[r] = first_row(p);
        } else if (key.terms.empty()) {
            r = outermost(key, out);
        } else {
            // Terms of enclosing loops that no loop prepared (non-linear ones): computed here.
            PointerKey base = key;
            const auto last = std::prev(base.terms.end());
            const auto [atom, bytes] = *last;
            base.terms.erase(last);
            base.stores = false;
            const Reg rest = pointer(base, pointers, out);
            r = place_pointer(kernel_.scalar("p"), key.copy);
            const ScalarCode::Once once(code_, code_.has_counter(kernel_.atoms[atom].loop));
            const Reg behind = code_.multiply(code_.value(kernel_.atoms[atom].expr, {}, out), bytes, out);
            out.push_back(ScalarCode::make(Opcode::add_s, r, rest, behind));
            if (first_row(rest) != 0) first_row_of_[r] = first_row(rest);
        }
        pointers[key] = r;
        return r;
    }

    void lower(Body &body, std::map<PointerKey, Reg> &pointers) {
        Body out;
        for (Node &node : body) {
            if (node.op) {
                lower_op(*node.op, pointers, out);
            } else if (node.branch) {
                std::map<PointerKey, Reg> inner = pointers;
                code_.forget_all();
                lower(node.branch->body, inner);
                code_.forget_all();
                out.push_back(std::move(node));
            } else if (node.loop) {
                code_.forget_all();
                lower_loop(*node.loop, pointers, out);
                code_.forget_all();
                out.push_back(std::move(node));
            }
        }
        body = std::move(out);
    }

    void lower_op(Op &op, std::map<PointerKey, Reg> &pointers, Body &out) {
        if (op.side) {
            Op branch = op;
            branch.side = std::make_shared<std::vector<Op>>(code_.lower_side(*op.side));
            out.push_back(std::move(branch));
        } else if (op.value) {
            const Op described = op;
            code_.lower_value(described, out);
        } else {
            if (op.access) {
                const PointerKey key = keys_.of(op);
                op.src[0] = pointer(key, pointers, out);
                int64_t offset = keys_.constant_row(op) - first_row(op.src[0]);
                if (spread_ && key.terms.empty() && !key.slot.defined() && offset >= rows_of_window) {
                    const int64_t first =
                        kernel_.allocations[key.allocation].base_row + offset / rows_of_window * rows_of_window;
                    op.src[0] = place_pointer(
                        kernel_.constant(static_cast<int32_t>(first * kernel_.machine->pad.row_bytes), key.copy), key.copy);
                    offset %= rows_of_window;
                }
                op.src[1] = kernel_.constant(static_cast<int32_t>(offset), key.copy);
                if (spread_ && op.src[1] != zero_scalar && kernel_.registers[op.src[1].id].bank < 0)
                    kernel_.registers[op.src[1].id].bank = static_cast<int8_t>(2 + key.copy);
            }
            out.push_back(op);
        }
        // A pointer made from a register that changes is stale.
        const Reg changed = out.back().op->dst;
        if (!changed.defined()) return;
        code_.forget(changed);
        std::erase_if(pointers, [&](const auto &entry) { return entry.first.slot == changed; });
    }

    void lower_loop(Loop &loop, std::map<PointerKey, Reg> &pointers, Body &out) {
        std::map<PointerKey, int64_t> keys;
        keys_.collect(loop.body, keys);
        std::set<Reg> changed = changed_in(kernel_, loop);
        std::map<PointerKey, Reg> inner;
        Body latch;
        UnevenSteps uneven{kernel_, code_, {}, {}, {}};
        std::vector<CountedPointer> counted_pointers;
        const bool counted = counts(loop);
        // Where some addresses are computed from the count in any case, all are: pointers would read its next value besides.
        const bool by_count = counted && std::ranges::all_of(keys, [&](const auto &entry) {
                                  return steps_of(entry.first, loop) || first_of_quotients(kernel_, entry.first.terms, loop);
                              });
        // Where the code of a turn begins with stores, of the turn before, it has room in front.
        Body head;
        const bool in_front = stores_in_front(loop);
        for (const auto &[key, step] : continuing_steps(loop, changed)) {
            const PointerKey rest = keys_.without(key, loop.id);
            const int64_t first = step.first - (in_front ? step.behind : 0);
            const Reg p = begin(key, rest, keys.at(key), first, pointers, out);
            (in_front ? head : latch).push_back(code_.add(p, p, step.behind));
            continued_[key] = p;
            keys.erase(key);
        }
        for (const auto &[full, lowest_row] : keys) {
            // What the pointer is as far as this loop and those around it decide.
            PointerKey key = full;
            if (std::erase_if(key.terms, [&](const auto &term) { return keys_.inside(term.first, loop.id); }) > 0)
                key.stores = key.wraps = false, key.window = 0;
            const PointerKey rest = keys_.without(full, loop.id);
            const std::optional<PointerSteps> steps = steps_of(key, loop);
            if (inner.count(key) || (!steps && !by_count)) continue;
            if (changed.contains(full.slot)) continue;  // made anew after every change
            if (steps && steps->usual == 0 && steps->period == 0) {
                inner[key] = pointer(rest, pointers, out);
                continue;
            }
            const auto goes_on = continued_.find(full);
            // A pointer of its own starts at the lowest row, so that offsets are small and shared.
            const int64_t first = full == key ? lowest_row : 0;
            if (!steps) {
                const Reg base = pointer(rest, pointers, out), p = place_pointer(kernel_.scalar("p"), key.copy);
                if (first != 0) first_row_of_[p] = first;
                const Reg front = code_.add_constant(base, (first - first_row(base)) * kernel_.machine->pad.row_bytes, out);
                const int64_t first_bytes = first_of_quotients(kernel_, key.terms, loop).value();
                out.push_back(ScalarCode::make(Opcode::add_s, p, front, kernel_.constant(static_cast<int32_t>(first_bytes))));
                counted_pointers.push_back({key, p, front});
                inner[key] = p;
                continue;
            }
            const Reg p = goes_on != continued_.end() ? goes_on->second : begin(key, rest, first, steps->first, pointers, out);
            const Reg step = steps->period > 0 ? uneven.step(*steps, out) : Reg{};
            latch.push_back(step.defined() ? ScalarCode::make(Opcode::add_s, p, p, step) : code_.add(p, p, steps->usual));
            inner[key] = p;
        }
        // What an address has that a loop does not change is computed in front of it where packets are all that counts. Where
        // units set the pace, a loop has room for it, which the code in front of it has not.
        const bool hoists = optimize_ && !kernel_.machine->timed();
        if (hoists) code_.enter_loop(std::move(changed), out);
        if (counted) {
            const Reg counter = kernel_.scalar("turn");
            code_.set_counter(loop.id, counter);
            out.push_back(ScalarCode::make(Opcode::addi_s, counter, zero_scalar));
            latch.push_back(ScalarCode::make(Opcode::addi_s, counter, counter, {}, 1));
        }
        lower(loop.body, inner);
        advance_by_count(counted_pointers, loop, latch);
        code_.remove_counter(loop.id);
        if (hoists) code_.leave_loop();
        for (Node &node : latch) loop.body.push_back(std::move(node));
        for (Node &node : uneven.head) head.push_back(std::move(node));
        loop.body.insert(loop.body.begin(), std::make_move_iterator(head.begin()), std::make_move_iterator(head.end()));
    }

    // A pointer that starts so many rows, and bytes, behind the one of `rest`.
    Reg begin(const PointerKey &key, const PointerKey &rest, int64_t row, int64_t bytes, std::map<PointerKey, Reg> &pointers,
              Body &out) {
        const Reg base = pointer(rest, pointers, out), p = place_pointer(kernel_.scalar("p"), key.copy);
        if (row != 0) first_row_of_[p] = row;
        out.push_back(code_.add(p, base, (row - first_row(base)) * kernel_.machine->pad.row_bytes + bytes));
        return p;
    }

    // Does a loop store more in front of the first one inside than behind it?
    static bool stores_in_front(const Loop &loop) {
        const auto inner = std::ranges::find_if(loop.body, [](const Node &node) { return node.loop != nullptr; });
        return count_of(Opcode::vreg_st, loop.body.begin(), inner) > count_of(Opcode::vreg_st, inner, loop.body.end());
    }
    static int64_t count_of(Opcode opcode, Body::const_iterator from, Body::const_iterator to) {
        return std::count_if(from, to, [&](const Node &node) { return node.op && node.op->opcode == opcode; });
    }

    // Of pointers of a loop inside that go on in each turn from where the last one has left them: bytes in front, and from the
    // end of a turn to the start of the next.
    struct Continuing {
        int64_t first = 0, behind = 0;
    };
    // Code around visits of the array that stores their sums, and nothing else, has room for the steps of their pointers; right
    // in front of them each would take a packet.
    std::map<PointerKey, Continuing> continuing_steps(const Loop &loop, const std::set<Reg> &changed) {
        std::map<PointerKey, Continuing> all;
        const auto is_loop = [](const Node &node) { return node.loop != nullptr; };
        const auto visits = std::ranges::find_if(loop.body, is_loop);
        if (visits == loop.body.end() || std::count_if(visits, loop.body.end(), is_loop) > 1 || !may_jump(*visits->loop) ||
            count_of(Opcode::gemm_vv, loop.body.begin(), loop.body.end()) > 0)
            return all;
        std::map<PointerKey, int64_t> keys, others;
        keys_.collect(visits->loop->body, keys);
        for (const Node &node : loop.body) {
            if (node.op && node.op->access) others.try_emplace(keys_.of(*node.op), 0);
            if (node.branch) keys_.collect(node.branch->body, others);
        }
        for (const auto &[key, row] : keys) {
            PointerKey outside = key;
            std::erase_if(outside.terms, [&](const auto &term) { return keys_.depends_on(term.first, visits->loop->id); });
            const std::optional<PointerSteps> steps = steps_of(key, *visits->loop), turn = steps_of(outside, loop);
            if (!steps || !turn || turn->period > 0 || (steps->usual == 0 && steps->period == 0) || others.contains(key) ||
                changed.contains(key.slot))
                continue;
            const int64_t extent = visits->loop->extent, jumps = steps->period > 0 ? extent / steps->period : 0;
            all[key] = {steps->first, turn->usual - (extent - jumps) * steps->usual - jumps * steps->jump};
        }
        constexpr int64_t stores_for_a_step = 4;
        if (count_of(Opcode::vreg_st, loop.body.begin(), loop.body.end()) <
            stores_for_a_step * static_cast<int64_t>(all.size()))
            all.clear();
        return all;
    }

    std::optional<PointerSteps> steps_of(const PointerKey &key, const Loop &loop) const {
        return pointer_steps(kernel_, key.terms, loop, may_jump(loop));
    }
    bool may_jump(const Loop &loop) const { return optimize_ && sums_visit(kernel_, loop); }

    // A pointer whose steps have no period: the sum of what its loop does not change and what the loop's count makes.
    struct CountedPointer {
        PointerKey key;
        Reg pointer, base;
    };
    // Each iteration makes those of the next one beside its accesses, of which the last waits for nothing but the sum.
    void advance_by_count(const std::vector<CountedPointer> &pointers, const Loop &loop, Body &latch) {
        code_.forget_all();  // of the count before
        const ScalarCode::Once once(code_);
        for (const CountedPointer &of : pointers) {
            Reg steps;
            for (const auto &[atom, bytes] : of.key.terms) {
                if (!keys_.depends_on(atom, loop.id)) continue;
                const Reg part = code_.multiply(code_.value(kernel_.atoms[atom].expr, {}, latch), bytes, latch);
                steps = steps.defined() ? code_.emit(Opcode::add_s, steps, part, 0, latch) : part;
            }
            latch.push_back(ScalarCode::make(Opcode::add_s, of.pointer, of.base, steps));
        }
        code_.forget_all();
    }

    // Has an innermost loop addresses that go on at different steps? They are computed from a count of its own, since the
    // loop's variable is that of the iteration that ends, not of those that are under way.
    bool counts(const Loop &loop) {
        const auto straight = [](const Node &node) { return node.op.has_value(); };
        const auto curved = [&](const Node &node) { return node.op->access && !steps_of(keys_.of(*node.op), loop); };
        return optimize_ && kernel_.machine->timed() && std::ranges::all_of(loop.body, straight) &&
               std::ranges::any_of(loop.body, curved);
    }

    Kernel &kernel_;
    const bool optimize_, spread_;
    ScalarCode code_;
    PointerKeys keys_;
    std::map<PointerKey, Reg> continued_;  // pointers of the loop inside that go on from turn to turn
    std::map<Reg, int64_t> first_row_of_;  // rows that a pointer is already ahead by
    int64_t first_row(Reg pointer) const {
        const auto it = first_row_of_.find(pointer);
        return it == first_row_of_.end() ? 0 : it->second;
    }
};

}  // namespace

void lower_addresses(Kernel &kernel, bool optimize) { AddressLowering(kernel, optimize).run(); }

}  // namespace atalla::codegen
