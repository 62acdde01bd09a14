// Symbolic addresses to registers. A pad access is base register + row offset register: the base holds everything that
// varies and advances with its loop, the offset is a constant.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "codegen/index.h"
#include "codegen/passes.h"
#include "codegen/pointer_steps.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla::codegen {

using namespace Halide::Internal;

namespace {

// Which pointer an access needs: what varies, in bytes, which of two copies (for the register banks), and for what.
struct PointerKey {
    int allocation = -1;
    std::map<int, int64_t> terms;  // atom -> bytes
    Reg slot;
    int copy = 0;
    bool stores = false;  // reads and writes that move with a loop: where iterations overlap, they are at different rows
    bool wraps = false;   // may be below zero: wrapped inside the pad
    int64_t window = 0;   // which of several ranges of constant rows, where one pointer for all would take many offsets
    auto operator<=>(const PointerKey &) const = default;
};

class AddressLowering {
public:
    AddressLowering(Kernel &kernel, bool optimize)
        : kernel_(kernel),
          optimize_(optimize),
          spread_(optimize && kernel.machine->timed() && kernel.machine->regs.scalar_conflict) {}

    void run() {
        choose_copies(kernel_.body);
        choose_windows();
        std::map<PointerKey, Reg> pointers;
        lower(kernel_.body, pointers);
    }

private:
    static constexpr int32_t smallest_immediate = -2048, largest_immediate = 2047;
    // Rows of a buffer that stays where it is have a base for every so many of them: their offsets are few constants, which
    // buffers share.
    static constexpr int64_t rows_of_window = 16;

    // ---- scalar expressions

    Op make(Opcode opcode, Reg dst, Reg a, Reg b = {}, int32_t imm = 0) {
        Op op;
        op.opcode = opcode;
        op.dst = dst;
        op.src = {a, b};
        op.imm = imm;
        return op;
    }
    Reg emit(Opcode opcode, Reg a, Reg b, int32_t imm, Body &out) {
        const Made key{opcode, a, b, imm};
        size_t level = loops_.size();
        while (numbering_ && level > 0 && !loops_[level - 1].varying.contains(a) && !loops_[level - 1].varying.contains(b))
            level--;
        const bool hoisted = level < loops_.size();
        std::map<Made, Reg> &made = hoisted ? loops_[level].made : made_;
        if (const auto it = made.find(key); numbering_ && it != made.end()) return it->second;
        const Reg dst = kernel_.scalar("s");
        (hoisted ? *loops_[level].before : out).push_back(make(opcode, dst, a, b, imm));
        for (size_t l = 0; l < level; l++) loops_[l].varying.insert(dst);
        if (numbering_) made[key] = dst;
        return dst;
    }
    bool varies(Reg r) const { return !loops_.empty() && loops_.back().varying.contains(r); }
    void forget(Reg changed) {
        std::erase_if(made_, [&](const auto &entry) { return entry.first.a == changed || entry.first.b == changed; });
    }
    Reg add_constant(Reg a, int64_t value, Body &out) {
        if (value == 0) return a;
        if (a == zero_scalar) return kernel_.constant(static_cast<int32_t>(value));
        if (value >= smallest_immediate && value <= largest_immediate)
            return emit(Opcode::addi_s, a, {}, static_cast<int32_t>(value), out);
        return emit(Opcode::add_s, a, kernel_.constant(static_cast<int32_t>(value)), 0, out);
    }
    Reg multiply(Reg a, int64_t factor, Body &out) {
        if (factor == 0) return zero_scalar;
        if (factor == 1) return a;
        if (factor < 0) return emit(Opcode::sub_s, zero_scalar, multiply(a, -factor, out), 0, out);
        if ((factor & (factor - 1)) == 0) return emit(Opcode::slli_s, a, {}, __builtin_ctzll(factor), out);
        return emit(Opcode::mul_s, a, kernel_.constant(static_cast<int32_t>(factor)), 0, out);
    }

    // a / n, rounded down, or what is left, as a product and a shift, which take a fraction of a division's time: with
    // 2^k = n m - e, 0 <= e < n, the product a m is (a 2^k + a e) / n, and while a e < 2^k that is less than the next quotient
    // would need. Nothing where the range of a is not known, or too large.
    std::optional<Reg> divide_by_product(Reg a, int64_t n, const std::optional<Limits> &limits, bool rest, Body &out) {
        if (!optimize_ || !kernel_.machine->timed() || !limits) return std::nullopt;
        const int64_t below = limits->low < 0 ? ceil_div(-limits->low, n) : 0, most = limits->high + below * n;
        for (int shift = 1; shift < 31; shift++) {
            const int64_t power = int64_t{1} << shift, factor = ceil_div(power, n);
            if (most * factor > INT32_MAX) break;
            if (most * (factor * n - power) >= power) continue;
            const Reg raised = add_constant(a, below * n, out),
                      quotient = emit(Opcode::srai_s, multiply(raised, factor, out), {}, shift, out);
            return rest ? emit(Opcode::sub_s, raised, multiply(quotient, n, out), 0, out) : add_constant(quotient, -below, out);
        }
        return std::nullopt;
    }

    Reg loop_value(const std::string &name, const std::map<int, Reg> &values) {
        for (size_t i = kernel_.loops.size(); i-- > 0;) {
            if (kernel_.loops[i].name != name) continue;
            const int loop = static_cast<int>(i);
            if (const auto it = values.find(loop); it != values.end()) return it->second;
            const auto counter = counters_.find(loop);
            return counter != counters_.end() ? counter->second : kernel_.loops[i].index;
        }
        throw Error("cannot generate code: an address uses '" + name + "', which is not a loop");
    }

    Reg scalar(const Halide::Expr &e, const std::map<int, Reg> &values, Body &out) {
        if (const auto *imm = e.as<IntImm>()) return kernel_.constant(static_cast<int32_t>(imm->value));
        if (const auto *v = e.as<Variable>()) return loop_value(v->name, values);
        if (const auto *op = e.as<Add>()) {
            if (const auto *imm = op->b.as<IntImm>()) return add_constant(scalar(op->a, values, out), imm->value, out);
            return emit(Opcode::add_s, scalar(op->a, values, out), scalar(op->b, values, out), 0, out);
        }
        if (const auto *op = e.as<Mul>())
            if (const auto *imm = op->b.as<IntImm>()) return multiply(scalar(op->a, values, out), imm->value, out);
        const auto *mod = e.as<Mod>();
        const auto *div = e.as<Div>();
        if (mod != nullptr || div != nullptr) {
            const auto *imm = (mod ? mod->b : div->b).as<IntImm>();
            const Reg a = scalar(mod ? mod->a : div->a, values, out);
            const int64_t n = imm != nullptr ? imm->value : 0;
            if (n > 0 && (n & (n - 1)) == 0)
                return mod ? emit(Opcode::and_s, a, kernel_.constant(static_cast<int32_t>(n - 1)), 0, out)
                           : emit(Opcode::srai_s, a, {}, __builtin_ctzll(n), out);
            if (n > 0)
                if (const auto made =
                        divide_by_product(a, n, IndexScope(kernel_).range(mod ? mod->a : div->a), mod != nullptr, out))
                    return *made;
            if (n > 0) return emit(mod ? Opcode::mod_s : Opcode::div_s, a, kernel_.constant(static_cast<int32_t>(n)), 0, out);
        }
        const auto *min = e.as<Min>();
        const auto *max = e.as<Max>();
        if (min != nullptr || max != nullptr) {
            // min(a, b) = b + ((a - b) & ((a - b) >> 31)); max takes the other side of the mask.
            const Reg a = scalar(min ? min->a : max->a, values, out), b = scalar(min ? min->b : max->b, values, out);
            const Reg difference = emit(Opcode::sub_s, a, b, 0, out), sign = emit(Opcode::srai_s, difference, {}, 31, out);
            const Reg chosen = emit(Opcode::and_s, difference, sign, 0, out);
            return min ? emit(Opcode::add_s, b, chosen, 0, out) : emit(Opcode::sub_s, a, chosen, 0, out);
        }
        throw Error("cannot generate code: no scalar operation for an address expression");
    }

    // Of transfers in straight code, addresses have most of their terms in common: made once.
    void lower_value(const Op &op, Body &out) {
        numbering_ = optimize_;
        std::vector<Reg> addends;
        for (Reg r : op.src)
            if (r.defined() && r != zero_scalar) addends.push_back(r);
        for (auto [atom, coefficient] : op.value->terms)
            addends.push_back(multiply(scalar(kernel_.atoms[atom].expr, op.loop_values, out), coefficient, out));
        int64_t constant = op.value->constant;
        // What the loop does not change is summed apart.
        const auto varying = std::stable_partition(addends.begin(), addends.end(), [&](Reg r) { return varies(r); });
        if (!loops_.empty() && varying != addends.begin() && varying != addends.end()) {
            Reg fixed = *varying;
            for (auto it = varying + 1; it != addends.end(); ++it) fixed = emit(Opcode::add_s, fixed, *it, 0, out);
            fixed = add_constant(fixed, std::exchange(constant, 0), out);
            addends.erase(varying, addends.end());
            addends.push_back(fixed);
        }
        while (addends.size() > 2 || (addends.size() == 2 && constant != 0)) {
            const Reg sum = emit(Opcode::add_s, addends[addends.size() - 2], addends.back(), 0, out);
            addends.resize(addends.size() - 2);
            addends.push_back(sum);
        }
        numbering_ = false;
        Op last = make(Opcode::addi_s, op.dst, addends.empty() ? zero_scalar : addends[0]);
        if (addends.size() == 2) {
            last.opcode = Opcode::add_s;
            last.src[1] = addends[1];
        } else if (constant >= smallest_immediate && constant <= largest_immediate) {
            last.imm = static_cast<int32_t>(constant);
        } else {
            last.opcode = Opcode::add_s;
            last.src[1] = kernel_.constant(static_cast<int32_t>(constant));
        }
        last.source = op.source;
        out.push_back(last);
    }

    // ---- pad accesses

    // Neighbouring accesses read different copies of base and offset, so that two of them fit a packet without a bank conflict.
    void choose_copies(Body &body, int loop = -1) {
        for (Node &node : body) {
            if (node.op && node.op->access && spread_) {
                copy_of_[&*node.op] = static_cast<int>(next_copy_++ % 2);
                const auto &terms = node.op->access->row.terms;
                const bool moves =
                    std::any_of(terms.begin(), terms.end(), [&](const auto &term) { return depends_on(term.first, loop); });
                if (moves && node.op->opcode == Opcode::vreg_st) moving_stores_.insert(&*node.op);
            }
            if (node.loop) choose_copies(node.loop->body, node.loop->id);
            if (node.branch) choose_copies(node.branch->body, loop);
        }
    }

    // A pointer that moves serves accesses at constant distances, each of which is a constant in a register. Where these are
    // many, as those of places in several rows of an image, so many that they leave no register for others, a pointer for each
    // range of them needs the same few distances in all.
    void choose_windows() {
        constexpr size_t many = 32, fewest_saved = 2;
        if (!spread_) return;
        std::map<PointerKey, std::set<int64_t>> rows;
        collect_rows(kernel_.body, rows);
        for (const auto &[key, used] : rows) {
            if (used.size() <= many) continue;
            std::vector<int64_t> best;
            size_t fewest = used.size() / fewest_saved;
            for (int64_t reach = 1; reach < *used.rbegin() - *used.begin(); reach *= 2) {
                std::vector<int64_t> starts;
                std::set<int64_t> distances;
                for (int64_t row : used) {
                    if (starts.empty() || row - starts.back() > reach) starts.push_back(row);
                    distances.insert(row - starts.back());
                }
                if (starts.size() + distances.size() > fewest) continue;
                fewest = starts.size() + distances.size();
                best = starts;
            }
            if (!best.empty()) windows_[key] = best;
        }
    }
    void collect_rows(const Body &body, std::map<PointerKey, std::set<int64_t>> &rows) {
        for (const Node &node : body) {
            if (node.op && node.op->access && !node.op->access->row.terms.empty()) {
                PointerKey key = key_of(*node.op);
                key.copy = 0;
                rows[key].insert(constant_row(*node.op));
            }
            if (node.loop) collect_rows(node.loop->body, rows);
            if (node.branch) collect_rows(node.branch->body, rows);
        }
    }
    int64_t window_of(PointerKey key, int64_t row) const {
        key.copy = 0;
        const auto it = windows_.find(key);
        return it == windows_.end() ? 0 : std::upper_bound(it->second.begin(), it->second.end(), row) - it->second.begin();
    }

    PointerKey key_of(const Op &op) {
        const PadAccess &access = *op.access;
        const Allocation &allocation = kernel_.allocations[access.allocation];
        const auto copy = copy_of_.find(&op);
        PointerKey key{
            access.allocation, {}, access.slot, copy == copy_of_.end() ? 0 : copy->second, moving_stores_.count(&op) > 0};
        for (auto [atom, rows] : access.row.terms) {
            const std::optional<int64_t> step = allocation.step_in_pad(rows);
            if (!step)
                throw Error("cannot generate code: an access to '" + allocation.name +
                            "' changes pads from iteration to iteration");
            key.terms[atom] = *step * kernel_.machine->pad.row_bytes;
        }
        key.terms = joined(kernel_, {0, std::move(key.terms)}).terms;
        key.wraps = may_be_below_zero(key);
        key.window = window_of(key, constant_row(op));
        return key;
    }

    // Rows of a pad wrap, so the sum with a constant row may come back into it. The functional machine looks at the pointer
    // alone, and takes one outside of a pad for an address of memory.
    bool may_be_below_zero(const PointerKey &key) const {
        if (kernel_.machine->timed()) return false;
        const int64_t base =
            key.slot.defined() ? 0 : kernel_.allocations[key.allocation].base_row * kernel_.machine->pad.row_bytes;
        const std::optional<Limits> limits = IndexScope(kernel_).range({base, key.terms});
        return !limits || limits->low < 0;
    }

    int64_t constant_row(const Op &op) const {
        return kernel_.allocations[op.access->allocation].row_in_pad(op.access->row.constant);
    }

    bool depends_on(int atom, int loop) const { return kernel_.atoms[atom].loop == loop; }

    // The pointers that accesses inside need, and the lowest constant row that is used with each.
    void collect(const Body &body, std::map<PointerKey, int64_t> &keys) {
        for (const Node &node : body) {
            if (node.op && node.op->access) {
                const int64_t row = constant_row(*node.op);
                const auto [it, inserted] = keys.try_emplace(key_of(*node.op), row);
                if (!inserted) it->second = std::min(it->second, row);
            }
            if (node.loop) collect(node.loop->body, keys);
            if (node.branch) collect(node.branch->body, keys);
        }
    }

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
        out.push_back(make(Opcode::addi_s, twin, key.slot));
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
            r = emit(Opcode::and_s, p, kernel_.constant(static_cast<int32_t>(kernel_.machine->pad.bytes - 1)), 0, out);
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
            numbering_ = counters_.contains(kernel_.atoms[atom].loop);
            const Reg behind = multiply(scalar(kernel_.atoms[atom].expr, {}, out), bytes, out);
            numbering_ = false;
            out.push_back(make(Opcode::add_s, r, rest, behind));
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
                made_.clear();
                lower(node.branch->body, inner);
                made_.clear();
                out.push_back(std::move(node));
            } else if (node.loop) {
                made_.clear();
                lower_loop(*node.loop, pointers, out);
                made_.clear();
                out.push_back(std::move(node));
            }
        }
        body = std::move(out);
    }

    void lower_op(Op &op, std::map<PointerKey, Reg> &pointers, Body &out) {
        if (op.side) {
            Body lowered;
            const auto outside = std::exchange(made_, {});
            for (Op &inner : *op.side) {
                if (inner.value)
                    lower_value(Op(inner), lowered);
                else
                    lowered.push_back(inner);
                if (lowered.back().op->dst.defined()) forget(lowered.back().op->dst);
            }
            made_ = outside;
            Op branch = op;
            branch.side = std::make_shared<std::vector<Op>>();
            for (const Node &node : lowered) branch.side->push_back(*node.op);
            out.push_back(std::move(branch));
        } else if (op.value) {
            const Op described = op;
            lower_value(described, out);
        } else {
            if (op.access) {
                const PointerKey key = key_of(op);
                op.src[0] = pointer(key, pointers, out);
                int64_t offset = constant_row(op) - first_row(op.src[0]);
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
        forget(changed);
        std::erase_if(pointers, [&](const auto &entry) { return entry.first.slot == changed; });
    }

    void lower_loop(Loop &loop, std::map<PointerKey, Reg> &pointers, Body &out) {
        std::map<PointerKey, int64_t> keys;
        collect(loop.body, keys);
        std::set<Reg> changed = changed_in(loop);
        std::map<PointerKey, Reg> inner;
        Body latch;
        UnevenSteps uneven{*this, {}, {}, {}};
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
            const PointerKey rest = without(key, loop.id);
            const int64_t first = step.first - (in_front ? step.behind : 0);
            const Reg p = begin(key, rest, keys.at(key), first, pointers, out);
            (in_front ? head : latch).push_back(add(p, p, step.behind));
            continued_[key] = p;
            keys.erase(key);
        }
        for (const auto &[full, lowest_row] : keys) {
            // What the pointer is as far as this loop and those around it decide.
            PointerKey key = full;
            if (std::erase_if(key.terms, [&](const auto &term) { return inside(term.first, loop.id); }) > 0)
                key.stores = key.wraps = false, key.window = 0;
            const PointerKey rest = without(full, loop.id);
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
                const Reg front = add_constant(base, (first - first_row(base)) * kernel_.machine->pad.row_bytes, out);
                const int64_t first_bytes = first_of_quotients(kernel_, key.terms, loop).value();
                out.push_back(make(Opcode::add_s, p, front, kernel_.constant(static_cast<int32_t>(first_bytes))));
                counted_pointers.push_back({key, p, front});
                inner[key] = p;
                continue;
            }
            const Reg p = goes_on != continued_.end() ? goes_on->second : begin(key, rest, first, steps->first, pointers, out);
            const Reg step = steps->period > 0 ? uneven.step(*steps, out) : Reg{};
            latch.push_back(step.defined() ? make(Opcode::add_s, p, p, step) : add(p, p, steps->usual));
            inner[key] = p;
        }
        // What an address has that a loop does not change is computed in front of it where packets are all that counts. Where
        // units set the pace, a loop has room for it, which the code in front of it has not.
        const bool hoists = optimize_ && !kernel_.machine->timed();
        if (hoists) loops_.push_back({std::move(changed), &out, {}});
        if (counted) {
            const Reg counter = counters_[loop.id] = kernel_.scalar("turn");
            out.push_back(make(Opcode::addi_s, counter, zero_scalar));
            latch.push_back(make(Opcode::addi_s, counter, counter, {}, 1));
        }
        lower(loop.body, inner);
        advance_by_count(counted_pointers, loop, latch);
        counters_.erase(loop.id);
        if (hoists) loops_.pop_back();
        for (Node &node : latch) loop.body.push_back(std::move(node));
        for (Node &node : uneven.head) head.push_back(std::move(node));
        loop.body.insert(loop.body.begin(), std::make_move_iterator(head.begin()), std::make_move_iterator(head.end()));
    }

    // What is left of a key outside of a loop.
    PointerKey without(PointerKey key, int loop) const {
        key.stores = false;
        key.window = 0;
        if (std::erase_if(key.terms,
                          [&](const auto &term) { return inside(term.first, loop) || depends_on(term.first, loop); }) > 0)
            key.wraps = false;
        return key;
    }
    // A pointer that starts so many rows, and bytes, behind the one of `rest`.
    Reg begin(const PointerKey &key, const PointerKey &rest, int64_t row, int64_t bytes, std::map<PointerKey, Reg> &pointers,
              Body &out) {
        const Reg base = pointer(rest, pointers, out), p = place_pointer(kernel_.scalar("p"), key.copy);
        if (row != 0) first_row_of_[p] = row;
        out.push_back(add(p, base, (row - first_row(base)) * kernel_.machine->pad.row_bytes + bytes));
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
        collect(visits->loop->body, keys);
        for (const Node &node : loop.body) {
            if (node.op && node.op->access) others.try_emplace(key_of(*node.op), 0);
            if (node.branch) collect(node.branch->body, others);
        }
        for (const auto &[key, row] : keys) {
            PointerKey outside = key;
            std::erase_if(outside.terms, [&](const auto &term) { return depends_on(term.first, visits->loop->id); });
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

    // dst = a + value
    Op add(Reg dst, Reg a, int64_t value) {
        if (value >= smallest_immediate && value <= largest_immediate)
            return make(Opcode::addi_s, dst, a, {}, static_cast<int32_t>(value));
        return make(Opcode::add_s, dst, a, kernel_.constant(static_cast<int32_t>(value)));
    }

    // Registers of a loop whose pointers have such steps: a step is the same register for all pointers that share it, made
    // from a mask that is -1 behind each `period`-th iteration.
    struct UnevenSteps {
        AddressLowering &lowering;
        std::map<int64_t, Reg> masks;  // by period
        std::map<std::array<int64_t, 3>, Reg> made;
        Body head;  // of an iteration

        Reg step(const PointerSteps &steps, Body &before) {
            Kernel &kernel = lowering.kernel_;
            Reg &mask = masks[steps.period], &step = made[{steps.period, steps.usual, steps.jump}];
            if (!mask.defined()) {
                mask = kernel.scalar("jumps");
                const Reg left = kernel.scalar("until_jump"), again = kernel.scalar("again");
                before.push_back(lowering.add(left, zero_scalar, steps.period - 1));
                head.push_back(lowering.add(left, left, -1));
                head.push_back(lowering.make(Opcode::srai_s, mask, left, {}, 31));
                head.push_back(lowering.make(Opcode::and_s, again, mask, kernel.constant(static_cast<int32_t>(steps.period))));
                head.push_back(lowering.make(Opcode::add_s, left, left, again));
            }
            if (!step.defined()) {
                step = kernel.scalar("step");
                head.push_back(
                    lowering.make(Opcode::and_s, step, mask, kernel.constant(static_cast<int32_t>(steps.jump - steps.usual))));
                head.push_back(lowering.add(step, step, steps.usual));
            }
            return step;
        }
    };

    // A pointer whose steps have no period: the sum of what its loop does not change and what the loop's count makes.
    struct CountedPointer {
        PointerKey key;
        Reg pointer, base;
    };
    // Each iteration makes those of the next one beside its accesses, of which the last waits for nothing but the sum.
    void advance_by_count(const std::vector<CountedPointer> &pointers, const Loop &loop, Body &latch) {
        made_.clear();  // of the count before
        numbering_ = true;
        for (const CountedPointer &of : pointers) {
            Reg steps;
            for (const auto &[atom, bytes] : of.key.terms) {
                if (!depends_on(atom, loop.id)) continue;
                const Reg part = multiply(scalar(kernel_.atoms[atom].expr, {}, latch), bytes, latch);
                steps = steps.defined() ? emit(Opcode::add_s, steps, part, 0, latch) : part;
            }
            latch.push_back(make(Opcode::add_s, of.pointer, of.base, steps));
        }
        numbering_ = false;
        made_.clear();
    }

    // Has an innermost loop addresses that go on at different steps? They are computed from a count of its own, since the
    // loop's variable is that of the iteration that ends, not of those that are under way.
    bool counts(const Loop &loop) {
        const auto straight = [](const Node &node) { return node.op.has_value(); };
        const auto curved = [&](const Node &node) { return node.op->access && !steps_of(key_of(*node.op), loop); };
        return optimize_ && kernel_.machine->timed() && std::ranges::all_of(loop.body, straight) &&
               std::ranges::any_of(loop.body, curved);
    }

    // Does an atom belong to a loop inside `loop`?
    bool inside(int atom, int loop) const {
        for (int l = kernel_.loops[kernel_.atoms[atom].loop].parent; l >= 0; l = kernel_.loops[l].parent)
            if (l == loop) return true;
        return false;
    }

    // The registers that a loop changes.
    static void add_changed(const Op &op, std::set<Reg> &changed) {
        changed.insert(op.dst);
        if (op.side)
            for (const Op &inner : *op.side) add_changed(inner, changed);
    }
    void add_changed(const Body &body, std::set<Reg> &changed) const {
        for (const Node &node : body) {
            if (node.op) add_changed(*node.op, changed);
            if (node.loop) changed.merge(changed_in(*node.loop));
            if (node.branch) add_changed(node.branch->body, changed);
        }
    }
    std::set<Reg> changed_in(const Loop &loop) const {
        std::set<Reg> changed = {kernel_.loops[loop.id].index};
        add_changed(loop.body, changed);
        changed.erase(Reg{});
        return changed;
    }

    // An operation of an address in straight code.
    struct Made {
        Opcode opcode;
        Reg a, b;
        int32_t imm;
        auto operator<=>(const Made &) const = default;
    };

    // A loop around what is lowered: the registers that it changes, the code in front of it, and what was moved there.
    struct Around {
        std::set<Reg> varying;
        Body *before;
        std::map<Made, Reg> made;
    };

    Kernel &kernel_;
    bool optimize_, spread_;
    bool numbering_ = false;
    std::vector<Around> loops_;
    std::map<Made, Reg> made_;  // and still true
    size_t next_copy_ = 0;
    std::map<int, Reg> counters_;          // of the loops that count for themselves
    std::map<PointerKey, Reg> continued_;  // pointers of the loop inside that go on from turn to turn
    std::map<const Op *, int> copy_of_;
    std::set<const Op *> moving_stores_;
    std::map<PointerKey, std::vector<int64_t>> windows_;  // of pointers without regard to copies: the first row of each
    std::map<Reg, int64_t> first_row_of_;                 // rows that a pointer is already ahead by
    int64_t first_row(Reg pointer) const {
        const auto it = first_row_of_.find(pointer);
        return it == first_row_of_.end() ? 0 : it->second;
    }
};

}  // namespace

void lower_addresses(Kernel &kernel, bool optimize) { AddressLowering(kernel, optimize).run(); }

}  // namespace atalla::codegen
