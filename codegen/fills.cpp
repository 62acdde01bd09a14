#include "codegen/fills.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

namespace {

bool only_stores(const Loop &loop) {
    return !loop.body.empty() && std::all_of(loop.body.begin(), loop.body.end(),
                                             [](const Node &n) { return n.op && n.op->opcode == Opcode::vreg_st; });
}

// A round of the pads becomes straight-line code.
void widen(Kernel &kernel, Loop &loop) {
    const int64_t pads = kernel.machine->pad.count;
    if (loop.extent % pads != 0 || loop.extent == pads || kernel.loops[static_cast<size_t>(loop.id)].varies()) return;
    Body body;
    for (int64_t i = 0; i < pads; i++)
        for (const Node &n : loop.body) {
            Op op = *n.op;
            for (auto &[atom, rows] : op.access->row.terms) {
                if (kernel.atoms[static_cast<size_t>(atom)].loop != loop.id) continue;
                if (!kernel.atoms[static_cast<size_t>(atom)].is_loop) return;
                op.access->row.constant += i * rows;
                rows *= pads;
            }
            body.push_back(std::move(op));
        }
    loop.body = std::move(body);
    loop.extent /= pads;
    kernel.loops[static_cast<size_t>(loop.id)].extent = loop.extent;
}

// The rows of one allocation that a loop stores one constant to, in order; nothing where it does something else or depends on
// other loops.
std::optional<std::set<int64_t>> filled_rows(const Kernel &kernel, const Loop &loop) {
    if (kernel.loops[static_cast<size_t>(loop.id)].varies()) return std::nullopt;
    std::set<int64_t> rows;
    const Op &first = *loop.body.front().op;
    for (const Node &n : loop.body) {
        if (n.op->access->allocation != first.access->allocation || n.op->src != first.src || n.op->imm != first.imm)
            return std::nullopt;
        const LinearForm &row = n.op->access->row;
        if (row.terms.size() > 1) return std::nullopt;
        int64_t step = 0;
        for (const auto &[atom, rows_of] : row.terms) {
            if (kernel.atoms[static_cast<size_t>(atom)].loop != loop.id || !kernel.atoms[static_cast<size_t>(atom)].is_loop)
                return std::nullopt;
            step = rows_of;
        }
        for (int64_t i = 0; i < loop.extent; i++) rows.insert(row.constant + (loop.begin + i) * step);
    }
    return rows;
}

// Rows at one distance.
struct Run {
    int64_t first = 0, step = 1, count = 1;
};
std::vector<Run> runs_of(const std::vector<int64_t> &rows) {
    std::vector<Run> runs;
    for (size_t at = 0; at < rows.size();) {
        Run run{rows[at]};
        if (at + 1 < rows.size()) run.step = rows[at + 1] - rows[at];
        while (at + static_cast<size_t>(run.count) < rows.size() &&
               rows[at + static_cast<size_t>(run.count)] == run.first + run.count * run.step)
            run.count++;
        at += static_cast<size_t>(run.count);
        runs.push_back(run);
    }
    return runs;
}

class BlockFill {
public:
    BlockFill(Kernel &kernel, const Loop &loop, int64_t block)
        : kernel_(kernel), pads_(kernel.machine->pad.count), block_(block), store_(*loop.body.front().op), name_(loop.name) {}

    // Stores to the same rows of so many blocks that follow each other, the blocks of all pads side by side.
    Body fill(int64_t first_block, int64_t blocks, const std::vector<int64_t> &offsets) {
        Body body;
        const int64_t rounds = blocks / pads_;
        if (rounds > 1) {
            Loop outer = loop_of(rounds);
            outer.body = along_blocks(first_block, pads_, offsets, {{variable(outer.id), pads_ * block_}});
            body.push_back(std::move(outer));
        } else if (rounds == 1) {
            body = along_blocks(first_block, pads_, offsets, {});
        }
        if (blocks % pads_ != 0)
            for (Node &node : along_blocks(first_block + rounds * pads_, blocks % pads_, offsets, {}))
                body.push_back(std::move(node));
        return body;
    }

private:
    Body along_blocks(int64_t first_block, int64_t blocks, const std::vector<int64_t> &offsets,
                      const std::map<int, int64_t> &around) {
        constexpr int64_t shortest_loop = 3;
        Body body;
        for (const Run &run : runs_of(offsets)) {
            const auto stores = [&](int64_t offset, const std::map<int, int64_t> &terms, Body &to) {
                for (int64_t b = 0; b < blocks; b++) {
                    Op op = store_;
                    op.access->row = {(first_block + b) * block_ + offset, terms};
                    to.push_back(std::move(op));
                }
            };
            if (run.count < shortest_loop) {
                for (int64_t i = 0; i < run.count; i++) stores(run.first + i * run.step, around, body);
                continue;
            }
            Loop inner = loop_of(run.count);
            std::map<int, int64_t> terms = around;
            terms[variable(inner.id)] = run.step;
            stores(run.first, terms, inner.body);
            body.push_back(std::move(inner));
        }
        return body;
    }

    Loop loop_of(int64_t extent) {
        Loop loop;
        loop.id = static_cast<int>(kernel_.loops.size());
        loop.extent = extent;
        loop.name = name_;
        loop.fill = true;
        kernel_.loops.push_back({fmt::format("{}#{}", name_, loop.id), extent, -1, kernel_.scalar("fill")});
        return loop;
    }
    int variable(int loop) {
        const std::string &name = kernel_.loops[static_cast<size_t>(loop)].name;
        kernel_.atoms.push_back({Variable::make(Int(32), name), name, loop, true});
        return static_cast<int>(kernel_.atoms.size()) - 1;
    }

    Kernel &kernel_;
    const int64_t pads_, block_;
    const Op store_;
    const std::string name_;
};

// The same stores as a loop's, block by block; nothing where its rows are not known.
std::optional<Body> by_blocks(Kernel &kernel, const Loop &loop, int64_t block) {
    const auto rows = filled_rows(kernel, loop);
    if (!rows) return std::nullopt;
    std::map<int64_t, std::vector<int64_t>> offsets;
    for (int64_t row : *rows) offsets[floor_div(row, block)].push_back(floor_mod(row, block));
    Body body;
    BlockFill fill(kernel, loop, block);
    for (auto first = offsets.begin(); first != offsets.end();) {
        auto end = first;
        int64_t blocks = 0;
        for (; end != offsets.end() && end->first == first->first + blocks && end->second == first->second; ++end) blocks++;
        for (Node &node : fill.fill(first->first, blocks, first->second)) body.push_back(std::move(node));
        first = end;
    }
    return body;
}

void shape(Kernel &kernel, const std::map<std::string, PadLayout> &wanted, Body &body) {
    Body shaped;
    for (Node &node : body) {
        if (node.branch) shape(kernel, wanted, node.branch->body);
        if (node.loop && !only_stores(*node.loop)) shape(kernel, wanted, node.loop->body);
        if (node.loop && only_stores(*node.loop)) {
            const auto layout =
                wanted.find(kernel.allocations[static_cast<size_t>(node.loop->body.front().op->access->allocation)].name);
            if (layout != wanted.end() && layout->second.block > 1) {
                if (std::optional<Body> blocks = by_blocks(kernel, *node.loop, layout->second.block)) {
                    for (Node &inner : *blocks) shaped.push_back(std::move(inner));
                    continue;
                }
            }
            widen(kernel, *node.loop);
        }
        shaped.push_back(std::move(node));
    }
    body = std::move(shaped);
}

}  // namespace

void shape_fills(Kernel &kernel, const std::map<std::string, PadLayout> &wanted) { shape(kernel, wanted, kernel.body); }

}  // namespace atalla::codegen
