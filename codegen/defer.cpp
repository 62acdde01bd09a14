// While the array multiplies, the lanes have little to do but sums; while an epilogue of many operations runs, the array stands
// still. So the epilogue of a block runs beside the product of the next one: sums go to rows of the pads when that begins,
// which each visit of the array finds some of, and results leave when it ends.
#include "codegen/defer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "codegen/dependence.h"
#include "codegen/index.h"
#include "codegen/loop_tree.h"
#include "codegen/passes.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla::codegen {

namespace {

using Halide::Expr;
using Halide::Int;
using namespace Halide::Internal;

bool is_deferred(const Node &node) { return node.loop && node.loop->name.ends_with("_deferred"); }

class Deferrer {
public:
    Deferrer(Kernel &kernel, Loop &blocks, size_t epilogue)
        : kernel_(kernel), blocks_(blocks), epilogue_(epilogue), scope_(kernel), count_(blocks.extent) {
        for (size_t l = 0; l < kernel.loops.size(); l++)
            scope_.bind(kernel.loops[l].name, scope_.loop_variable(static_cast<int>(l)));
    }

    void run() {
        find_product();
        find_late();
        shift();
        add_rows();
        arrange();
    }

private:
    [[noreturn]] void refuse(const std::string &reason) const {
        throw Error(fmt::format("cannot generate code: '{}' does not run beside the next block's product: {}",
                                blocks_.body[epilogue_].loop->name, reason));
    }
    LoopInfo &loop_info(const Loop &loop) { return kernel_.loops[static_cast<size_t>(loop.id)]; }
    Loop &rows() { return *blocks_.body[epilogue_].loop; }
    Loop &product() { return *blocks_.body[product_].loop; }
    std::string name_of(int allocation) const { return kernel_.allocations[static_cast<size_t>(allocation)].name; }

    // The last loop in front of the epilogue, and only operations and copies between them.
    void find_product() {
        product_ = epilogue_;
        while (product_ > 0 && !blocks_.body[product_ - 1].loop) product_--;
        if (product_ == 0) refuse("no loop is in front of it");
        product_--;
        if (has_loop(product().body) || has_loop(rows().body)) refuse("it or the loop in front of it has loops inside");
        for (const Loop *loop : {&blocks_, &product(), &rows()})
            if (loop_info(*loop).varies()) refuse("a loop does not always run as often");
        for (size_t at = 0; at < blocks_.body.size(); at++) {
            const Node &node = blocks_.body[at];
            if (node.branch || (at > epilogue_ && !node.copy)) refuse("more than copies follow it, or there are branches");
            if (node.copy && node.copy->first_of >= 0) refuse("a copy runs in the first iteration alone");
        }
        for (const Node &node : rows().body)
            if (!node.op || node.op->side || node.op->fence || node.op->orders >= 0 || node.op->value ||
                info(node.op->opcode).unit == Unit::Array)
                refuse("it does more than compute rows");
    }

    // Operations behind the product, and allocations that only these and the epilogue use.
    bool is_late(size_t at) const { return at > product_ && at <= epilogue_; }
    void find_late() {
        std::set<int> early;
        const auto note = [&](const Op &op, bool late) {
            if (op.access) (late ? late_ : early).insert(op.access->allocation);
        };
        for (size_t at = 0; at < blocks_.body.size(); at++)
            for_each_op(blocks_.body[at], [&](Op &op) { note(op, is_late(at)); });
        for (const Node &node : blocks_.body)
            if (node.copy) copied_.insert(node.copy->allocation);
        for (const int allocation : late_)
            if (early.contains(allocation) && copied_.contains(allocation))
                refuse(fmt::format("rows of '{}' are used by the product, too", name_of(allocation)));
    }
    static void for_each_op(Node &node, const std::function<void(Op &)> &visit) {
        if (node.op) visit(*node.op);
        if (node.loop)
            for (Node &inner : node.loop->body) for_each_op(inner, visit);
    }

    // One iteration more. The product stays with the last block then, and the epilogue begins with the first one, which it
    // makes again.
    void shift() {
        const auto number = [](int64_t value) { return IntImm::make(Int(32), value); };
        const Expr variable = Variable::make(Int(32), loop_info(blocks_).name);
        const Expr early = Min::make(variable, number(count_ - 1)), late = Max::make(variable - number(1), number(0));
        blocks_.extent++;
        loop_info(blocks_).extent++;
        for (size_t at = 0; at < blocks_.body.size(); at++) {
            Node &node = blocks_.body[at];
            const Expr &block = is_late(at) ? late : early;
            if (node.copy) {
                Copy &copy = *node.copy;
                copy.mem = scope_.at(copy.mem, blocks_.id, late_.contains(copy.allocation) ? late : early);
                const int64_t constant = std::exchange(copy.mem.constant, 0);  // boxes have it
                for (Box &box : copy.boxes) box.mem += constant;
                copy.pad_row = slot_of(copy.pad_row);
            }
            for_each_op(node, [&](Op &op) {
                if (!op.access) return;
                LinearForm &row = op.access->row;
                row = copied_.contains(op.access->allocation) ? slot_of(row) : scope_.at(row, blocks_.id, block);
            });
        }
    }
    // A loop of two iterations is the number of a slot, of which there are no more.
    LinearForm slot_of(const LinearForm &form) {
        const bool numbers = std::ranges::any_of(form.terms, [&](const auto &term) {
            const Atom &atom = kernel_.atoms[static_cast<size_t>(term.first)];
            return atom.is_loop && atom.loop == blocks_.id;
        });
        const Expr variable = Variable::make(Int(32), loop_info(blocks_).name);
        return numbers ? scope_.at(form, blocks_.id, variable % IntImm::make(Int(32), count_)) : form;
    }

    // The epilogue's rows as part of the product's iterations, so many in each, and in two halves: what makes a row is as long
    // as an iteration, so the second half of its operations runs an iteration later, in front of the first half of the next
    // row. What that makes in the first iteration, and rows behind the block's end, are in places that nothing else touches.
    void add_rows() {
        const int64_t each = ceil_div(rows().extent, product().extent - 1);
        std::set<Reg> made;
        for (const Node &node : rows().body) {
            for (const Reg r : reads_of(*node.op))
                if (!made.contains(r) && is_made(r)) refuse("a row needs what another one makes");
            made.insert(node.op->dst);
        }
        const std::vector<bool> second = find_second_half(each);
        Body first_half, second_half;
        for (int64_t row = 0; row < each; row++) {
            Renaming names;
            for (size_t i = 0; i < rows().body.size(); i++) {
                Op op = *rows().body[i].op;
                const Reg target = op.dst;
                const bool anew = target.defined() && target.id > all_lanes.id && !reads(op, target);
                rename(op, names);
                if (anew) op.dst = names[target.id] = kernel_.register_like(target);
                if (op.access) op.access->row = row_in_visit(op.access->row, op.access->allocation, each, row);
                (second[i] ? second_half : first_half).emplace_back(std::move(op));
            }
        }
        const bool halves = !second_half.empty();
        for (Body *half : {&first_half, &second_half})
            product().body.insert(product().body.begin(), std::make_move_iterator(half->begin()),
                                  std::make_move_iterator(half->end()));
        if (halves) make_later(each);
    }
    bool is_made(Reg r) {
        return r.id > all_lanes.id && std::ranges::any_of(rows().body, [&](const Node &node) { return node.op->dst == r; });
    }
    // By operation of a row: does its longest way from the start end in the second half of the row's? None does where the row
    // leaves time for others to wait in. Loads are in the first half.
    std::vector<bool> find_second_half(int64_t each) {
        std::map<Reg, int64_t> ready;
        std::vector<int64_t> ends;
        for (const Node &node : rows().body) {
            int64_t end = 0;
            for (const Reg r : reads_of(*node.op))
                if (const auto found = ready.find(r); found != ready.end()) end = std::max(end, found->second);
            end += result_latency(*kernel_.machine, node.op->opcode);
            ends.push_back(end);
            if (node.op->dst.defined()) ready[node.op->dst] = std::max(ready[node.op->dst], end);
        }
        const int64_t last = *std::ranges::max_element(ends);
        constexpr double most_of_iteration = 0.75;
        const bool halves = static_cast<double>(last) > most_of_iteration * static_cast<double>(lane_cycles(each));
        std::vector<bool> second;
        for (size_t i = 0; i < ends.size(); i++)
            second.push_back(halves && rows().body[i].op->opcode != Opcode::vreg_ld && 2 * ends[i] > last);
        return second;
    }
    // Of the busiest lane unit in an iteration.
    int64_t lane_cycles(int64_t each) {
        std::map<Unit, int64_t> work;
        for (const auto &[loop, times] : {std::pair(&product(), int64_t{1}), std::pair(&rows(), each)})
            for (const Node &node : loop->body)
                if (node.op && is_lane_operation(node.op->opcode))
                    work[info(node.op->opcode).unit] += times * kernel_.machine->vec.ii;
        int64_t most = 0;
        for (const auto &[unit, cycles] : work) most = std::max(most, cycles);
        return most;
    }
    // Results of a visit are those of the visit before.
    void make_later(int64_t each) {
        std::set<int> stored;
        for (const Node &node : rows().body)
            if (node.op->opcode == Opcode::vreg_st) stored.insert(node.op->access->allocation);
        for (Node &node : blocks_.body)
            if (node.copy && stored.contains(node.copy->allocation))
                for (Box &box : node.copy->boxes) box.row += each;
    }
    LinearForm row_in_visit(const LinearForm &form, int allocation, int64_t each, int64_t row) {
        LinearForm result{form.constant, {}};
        for (const auto &[atom, coefficient] : form.terms) {
            const Atom &of = kernel_.atoms[static_cast<size_t>(atom)];
            if (of.loop != rows().id) {
                result += LinearForm{0, {{atom, coefficient}}};
                continue;
            }
            if (!of.is_loop) refuse(fmt::format("rows of '{}' are not at one distance", name_of(allocation)));
            result += scope_.loop_variable(product().id).scaled(coefficient * each);
            result.constant += coefficient * row;
            reserve(allocation, form.constant + coefficient * (each * product().extent - 1) + 1);
        }
        return result;
    }
    // Rows of one block.
    void reserve(int allocation, int64_t rows) {
        Allocation &of = kernel_.allocations[static_cast<size_t>(allocation)];
        if (!copied_.contains(allocation) && !moved_outside(allocation)) of.rows = std::max(of.rows, rows);
        if (of.rows < rows) refuse(fmt::format("slots of '{}' have too few rows", of.name));
    }
    bool moved_outside(int allocation) {
        return std::ranges::any_of(kernel_.body, [&](const Node &node) { return moves(node, allocation); });
    }

    // Sums of the block before are stored first of all, where they are still those of the last iteration.
    void arrange() {
        Body front, sums, rest, behind;
        for (size_t at = 0; at < blocks_.body.size(); at++) {
            Node &node = blocks_.body[at];
            if (at == epilogue_) continue;
            Body &part = node.copy && late_.contains(node.copy->allocation) ? (node.copy->load ? front : behind)
                         : is_late(at) && !node.copy                        ? sums
                                                                            : rest;
            part.push_back(std::move(node));
        }
        blocks_.body = std::move(front);
        for (Body *part : {&sums, &rest, &behind})
            blocks_.body.insert(blocks_.body.end(), std::make_move_iterator(part->begin()),
                                std::make_move_iterator(part->end()));
    }

    Kernel &kernel_;
    Loop &blocks_;
    const size_t epilogue_;  // where in the body
    size_t product_ = 0;
    IndexScope scope_;
    const int64_t count_;          // blocks
    std::set<int> late_, copied_;  // allocations: of the epilogue and what is in front of it; that copies in the loop touch
};

void visit(Kernel &kernel, Body &body) {
    for (Node &node : body) {
        if (!node.loop) continue;
        Loop &loop = *node.loop;
        const auto epilogue = std::ranges::find_if(loop.body, is_deferred);
        if (epilogue == loop.body.end())
            visit(kernel, loop.body);
        else
            Deferrer(kernel, loop, static_cast<size_t>(epilogue - loop.body.begin())).run();
    }
}

}  // namespace

void defer(Kernel &kernel) { visit(kernel, kernel.body); }

}  // namespace atalla::codegen
