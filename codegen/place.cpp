#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "codegen/fills.h"
#include "codegen/idle_stages.h"
#include "codegen/index.h"
#include "codegen/loop_tree.h"
#include "codegen/modulo.h"
#include "codegen/passes.h"
#include "codegen/rings.h"
#include "codegen/stream.h"
#include "codegen/transfer_code.h"
#include "codegen/turns.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla::codegen {

namespace {

void for_each_node(Body &body, const std::function<void(Node &)> &visit) {
    for (Node &node : body) {
        visit(node);
        if (node.loop) for_each_node(node.loop->body, visit);
        if (node.branch) for_each_node(node.branch->body, visit);
    }
}

struct Layout {
    int interleave = 1;
    int64_t block = 1;
};

// The pad of every access must be known when the program is generated: what varies either moves by whole rounds of the pads
// or stays inside one block.
bool fits(Kernel &kernel, const LinearForm &row, bool copy, const Layout &layout) {
    const int64_t round = layout.block * layout.interleave;
    int64_t lowest = row.constant, highest = row.constant;
    for (auto [atom, rows] : row.terms) {
        if (rows % round == 0) continue;
        const std::optional<Limits> limits = copy ? std::nullopt : IndexScope(kernel).range(LinearForm{0, {{atom, rows}}});
        if (!limits) return false;
        lowest += limits->low;
        highest += limits->high;
    }
    return floor_div(lowest, layout.block) == floor_div(highest, layout.block) || layout.interleave == 1;
}

// The layout that spreads an allocation over the most pads, up to `pads`; small blocks first, or the wanted one alone.
Layout widest_layout(Kernel &kernel, int allocation, int pads, int64_t wanted_block) {
    std::vector<std::pair<const LinearForm *, bool>> rows;  // and whether a copy's
    std::set<int64_t> blocks = {1};
    for_each_node(kernel.body, [&](Node &node) {
        const LinearForm *row = nullptr;
        if (node.op && node.op->access && node.op->access->allocation == allocation) row = &node.op->access->row;
        if (node.copy && node.copy->allocation == allocation) {
            row = &node.copy->pad_row;
            for (const Box &box : node.copy->boxes)
                for (const Box::Dim &dim : box.dims) blocks.insert(dim.row_stride);
        }
        if (row != nullptr) rows.push_back({row, node.copy != nullptr});
    });
    if (wanted_block > 0) blocks = {wanted_block};
    for (int interleave = pads; interleave > 1; interleave /= 2)
        for (int64_t block : blocks) {
            const Layout layout{interleave, block};
            if (block > 0 && std::all_of(rows.begin(), rows.end(),
                                         [&](const auto &row) { return fits(kernel, *row.first, row.second, layout); }))
                return layout;
        }
    return {};
}

// Dimensions that continue each other on both sides are one: its tiles are larger.
void join_dimensions(Box &box) {
    for (size_t d = 0; d < box.dims.size(); d++)
        for (size_t next = 0; next < box.dims.size(); next++) {
            Box::Dim &inner = box.dims[d];
            const Box::Dim outer = box.dims[next];
            if (next == d || outer.extent == 1 || outer.row_stride != inner.row_stride * inner.extent ||
                outer.mem_stride != inner.mem_stride * inner.extent)
                continue;
            inner.extent *= outer.extent;
            box.dims.erase(box.dims.begin() + static_cast<std::ptrdiff_t>(next));
            return join_dimensions(box);
        }
}

// Rows of a tile where so many go round `residues` pads. Tiles of equal size where a few more of them make that possible: their
// transfers follow one another at equal steps.
int64_t tile_rows(const Kernel &kernel, int64_t extent, int64_t residues) {
    const int64_t limit = kernel.machine->sdma.max_rows, fewest = ceil_div(ceil_div(extent, residues), limit);
    for (int64_t tiles = fewest; tiles <= fewest + fewest / 2; tiles++)
        if (extent % (residues * tiles) == 0) {
            const int64_t rows = extent / (residues * tiles);
            return tiles == 1 || rows == limit || !kernel.takes(Choice::FullTiles) ? rows : limit;
        }
    return limit;
}

// The tiles of a box: one dimension becomes the rows of the tiles, the others are enumerated, so that neighbouring transfers
// use different engines.
void append_tiles(const Kernel &kernel, Box box, const Allocation &allocation, std::vector<Tile> &tiles) {
    const bool blocks = allocation.interleave > 1 && allocation.block > 1;
    join_dimensions(box);
    // What fills several blocks is a dimension of blocks and one inside a block.
    for (size_t d = 0; blocks && d < box.dims.size(); d++) {
        Box::Dim &dim = box.dims[d];
        if (dim.row_stride <= 0 || dim.row_stride >= allocation.block || allocation.block % dim.row_stride != 0) continue;
        const int64_t steps = allocation.block / dim.row_stride;
        if (dim.extent <= steps) continue;
        if (const int64_t rest = dim.extent % steps; rest != 0) {
            if (box.row % allocation.block != 0) continue;
            // The last block is filled in part: a box of its own.
            const int64_t whole = dim.extent - rest;
            Box last = box;
            last.dims[d].extent = rest;
            last.row += whole * dim.row_stride;
            last.mem += whole * dim.mem_stride;
            dim.extent = whole;
            append_tiles(kernel, box, allocation, tiles);
            append_tiles(kernel, last, allocation, tiles);
            return;
        }
        const Box::Dim outer = {dim.extent / steps, allocation.block, dim.mem_stride * steps};
        dim.extent = steps;
        box.dims.push_back(outer);
    }
    int64_t reach = floor_mod(box.row, allocation.block);  // the furthest row from the start of its block
    for (const Box::Dim &dim : box.dims)
        reach += dim.row_stride % allocation.block == 0 ? 0 : dim.row_stride * (dim.extent - 1);
    // Steps of a dimension that stay in one pad, one row further: 1 of them, or as many as go round the pads.
    const auto steps_to_next_row = [&](const Box::Dim &dim) -> int64_t {
        if (dim.row_stride == 1 && (allocation.interleave == 1 || (blocks && reach < allocation.block))) return 1;
        if (allocation.block == 1 && dim.row_stride > 0 && allocation.interleave % dim.row_stride == 0)
            return allocation.interleave / dim.row_stride;
        return 0;
    };
    int row_dim = -1;
    for (size_t d = 0; d < box.dims.size(); d++) {
        const Box::Dim &dim = box.dims[d];
        const int64_t steps = steps_to_next_row(dim);
        const bool pitch_fits = steps > 0 && dim.mem_stride * steps >= box.cols && dim.mem_stride * steps <= (1 << 20);
        if (pitch_fits && (row_dim < 0 || dim.extent > box.dims[row_dim].extent)) row_dim = static_cast<int>(d);
    }
    const Box::Dim rows = row_dim < 0 ? Box::Dim{1, 1, 0} : box.dims[row_dim];
    const int64_t residues = row_dim < 0 ? 1 : std::min(steps_to_next_row(rows), rows.extent);
    const int64_t most = tile_rows(kernel, rows.extent, residues);
    std::function<void(size_t, int64_t, int64_t, int64_t)> enumerate = [&](size_t d, int64_t chunk, int64_t row, int64_t mem) {
        if (static_cast<int>(d) == row_dim) return enumerate(d + 1, chunk, row, mem);
        if (d < box.dims.size()) {
            const Box::Dim &dim = box.dims[d];
            for (int64_t i = 0; i < dim.extent; i++)
                enumerate(d + 1, chunk, row + i * dim.row_stride, mem + i * dim.mem_stride);
            return;
        }
        for (int64_t r = 0; r < residues; r++) {
            const int64_t first = chunk * most * residues + r;
            if (first >= rows.extent) continue;
            const int64_t count = std::min(most, (rows.extent - first + residues - 1) / residues),
                          at = row + first * rows.row_stride;
            Tile tile;
            tile.pad = allocation.pad_of(at);
            tile.row = allocation.row_in_pad(at);
            tile.mem = mem + first * rows.mem_stride;
            tile.rows = static_cast<int>(count);
            tile.cols = box.cols;
            tile.pitch = count == 1 ? box.cols : rows.mem_stride * residues;
            tiles.push_back(tile);
        }
    };
    for (int64_t chunk = 0; chunk * most * residues < rows.extent; chunk++) enumerate(0, chunk, box.row, box.mem);
}

// Does a copy or an access touch rows of one slot alone, whose number one of the terms gives?
bool stays_in_slot(const Kernel &kernel, LinearForm rows, const std::vector<Box> &boxes, int64_t slot_rows) {
    std::erase_if(rows.terms, [&](const auto &term) { return term.second == slot_rows; });
    int64_t lowest = rows.constant, highest = rows.constant;
    for (const auto &[atom, step] : rows.terms) {
        if (!kernel.atoms[static_cast<size_t>(atom)].is_loop) return false;
        (step < 0 ? lowest : highest) +=
            step * (kernel.loops[static_cast<size_t>(kernel.atoms[static_cast<size_t>(atom)].loop)].extent - 1);
    }
    int64_t most = 0;  // of the boxes
    for (const Box &box : boxes) {
        int64_t last = box.row;
        for (const Box::Dim &dim : box.dims) last += std::max<int64_t>(0, dim.row_stride * (dim.extent - 1));
        most = std::max(most, last);
    }
    return lowest >= 0 && highest + most < slot_rows;
}

// How a ring is accessed: the rows of a slot, where each access stays in one, else 0, but for constants that are stored to all
// slots before everything else as if nothing were between them.
struct Slots {
    int64_t rows = 0;
    bool filled = false;
};

Slots slots_of(Kernel &kernel, int index, const Allocation &allocation) {
    const Rings rings(kernel, true);
    const Ring *ring = rings.of(index);
    if (ring == nullptr || ring->rows <= 0 || ring->rows % (allocation.block * allocation.interleave) != 0 ||
        allocation.rows % ring->rows != 0)
        return {};
    bool stay = true;
    const auto look = [&](Node &node) {
        if (node.op && node.op->access && node.op->access->allocation == index)
            stay = stay && stays_in_slot(kernel, node.op->access->row, {}, ring->rows);
        if (node.copy && node.copy->allocation == index)
            stay = stay && stays_in_slot(kernel, node.copy->pad_row, node.copy->boxes, ring->rows);
    };
    Slots slots{ring->rows, false};
    for (Node &node : kernel.body) {
        stay = true;
        look(node);
        if (node.loop) for_each_node(node.loop->body, look);
        if (node.branch) for_each_node(node.branch->body, look);
        if (stay) continue;
        if (!node.op && !(node.loop && node.loop->fill)) return {};
        slots.filled = true;
    }
    return slots;
}

// Notes the rows that a copy touches, of a slot where the ring has known ones.
void note_moved(const Copy &copy, Allocation &allocation) {
    const int64_t rows = allocation.slot_rows > 0 ? allocation.slot_rows : allocation.rows;
    allocation.moved.resize(static_cast<size_t>(rows), false);
    LinearForm at = copy.pad_row;
    std::erase_if(at.terms, [&](const auto &term) { return term.second == allocation.slot_rows; });
    if (!at.is_constant()) {
        allocation.moved.assign(static_cast<size_t>(rows), true);
        return;
    }
    for (const Box &box : copy.boxes) {
        const std::function<void(size_t, int64_t)> along = [&](size_t d, int64_t row) {
            if (d == box.dims.size()) {
                allocation.moved[static_cast<size_t>(row)] = true;
                return;
            }
            for (int64_t i = 0; i < box.dims[d].extent; i++) along(d + 1, row + i * box.dims[d].row_stride);
        };
        along(0, at.constant + box.row);
    }
}

// Rows of each pad that the stages of a pipelined loop may touch in front of an allocation and behind it (idle_stages.h), and
// between the slots of a ring, which transfers use at the same time. Of others, loads come in the first stages: they need none
// in front.
void add_guard_rows(Kernel &kernel, int index) {
    Allocation &allocation = kernel.allocations[static_cast<size_t>(index)];
    if (!kernel.machine->timed()) return;
    const Slots slots = slots_of(kernel, index, allocation);
    const bool comes = std::any_of(kernel.body.begin(), kernel.body.end(),
                                   [&](const Node &node) { return node.copy && node.copy->allocation == index; });
    for_each_node(kernel.body, [&](Node &node) {
        if (!node.loop || !may_idle(kernel, *node.loop)) return;
        for (const Node &inner : node.loop->body) {
            if (!inner.op->access || inner.op->access->allocation != index) continue;
            for (const auto &[atom, step] : inner.op->access->row.terms) {
                if (kernel.atoms[atom].loop != node.loop->id || !kernel.atoms[atom].is_loop) continue;
                const int64_t rows = allocation.step_in_pad(step).value_or(0) * (most_stages(*node.loop) - 1);
                allocation.guard_behind = std::max(allocation.guard_behind, rows);
                if (inner.op->opcode == Opcode::vreg_st || slots.rows > 0 || (comes && may_stream(kernel, *node.loop)))
                    allocation.guard_front = std::max(allocation.guard_front, rows);
            }
        }
    });
    allocation.slot_rows = slots.rows;
    if (slots.rows > 0 && !slots.filled) allocation.slot_gap = std::max(allocation.guard_front, allocation.guard_behind);
}

// Gives allocations, one after the other, the pads and rows on top of those before. Nothing where an allocation does not fit.
class Stacks {
public:
    Stacks(Kernel &kernel, const std::map<std::string, PadLayout> &wanted, bool guards, bool round = true)
        : kernel_(kernel),
          wanted_(wanted),
          guards_(guards),
          round_(round),
          pads_(static_cast<int>(kernel.machine->pad.count)),
          top_(static_cast<size_t>(pads_), 0) {}

    // As many pads as every access allows; fewer where that many have no room left at the same height.
    bool add(size_t i) {
        Allocation &allocation = kernel_.allocations[i];
        allocation.pads.clear();
        int limit = most_pads(allocation);
        for (;; limit /= 2) {
            const Layout layout = widest_layout(kernel_, static_cast<int>(i), limit, block(allocation));
            allocation.interleave = layout.interleave;
            allocation.block = layout.block;
            // The window of neighbouring pads that is least full.
            int best = 0;
            for (int first = 0; first + allocation.interleave <= pads_; first += allocation.interleave)
                if (height(first, allocation.interleave) < height(best, allocation.interleave)) best = first;
            allocation.guard_front = allocation.guard_behind = allocation.slot_rows = allocation.slot_gap = 0;
            if (guards_) add_guard_rows(kernel_, static_cast<int>(i));
            allocation.base_row = height(best, allocation.interleave) + allocation.guard_front;
            const int64_t end = allocation.base_row + allocation.rows_per_pad() + allocation.guard_behind;
            if (end > kernel_.machine->pad_rows() && limit > 1) continue;
            if (end > kernel_.machine->pad_rows()) return false;
            for (int p = best; p < best + allocation.interleave; p++) {
                allocation.pads.push_back(p);
                top_[static_cast<size_t>(p)] = end;
            }
            return true;
        }
    }

    // Those that go round most pads first, since they need the same rows in all; then the largest.
    std::vector<size_t> by_width() const {
        std::vector<std::pair<int, int64_t>> keys;
        for (size_t i = 0; i < kernel_.allocations.size(); i++) {
            const Allocation &allocation = kernel_.allocations[i];
            keys.emplace_back(-widest_layout(kernel_, static_cast<int>(i), most_pads(allocation), block(allocation)).interleave,
                              -allocation.rows);
        }
        std::vector<size_t> order(keys.size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return keys[x] < keys[y]; });
        return order;
    }

private:
    int64_t height(int first, int count) const { return *std::max_element(top_.begin() + first, top_.begin() + first + count); }
    int most_pads(const Allocation &allocation) const {
        if (!round_) return 1;
        const auto it = wanted_.find(allocation.name);
        return it != wanted_.end() && it->second.pads > 0 ? std::min(it->second.pads, pads_) : pads_;
    }
    int64_t block(const Allocation &allocation) const {
        const auto it = wanted_.find(allocation.name);
        return it != wanted_.end() ? it->second.block : 0;
    }

    Kernel &kernel_;
    const std::map<std::string, PadLayout> &wanted_;
    bool guards_;  // leave guard rows
    bool round_;   // allocations may go round several pads
    int pads_;
    std::vector<int64_t> top_;  // by pad: the first free row
};

void stack_allocations(Kernel &kernel, const std::map<std::string, PadLayout> &wanted) {
    for (const bool guards : {true, false}) {
        Stacks in_program_order(kernel, wanted, guards);
        bool fits = true;
        for (size_t i = 0; i < kernel.allocations.size() && fits; i++) fits = in_program_order.add(i);
        if (fits) return;
    }
    // Where a share of one in every pad leaves no pad with room for another whole, each has one pad.
    const Allocation *without_room = nullptr;
    for (const bool round : {true, false}) {
        Stacks stacks(kernel, wanted, false, round);
        const std::vector<size_t> order = stacks.by_width();
        const auto found = std::find_if_not(order.begin(), order.end(), [&](size_t i) { return stacks.add(i); });
        if (found == order.end()) return;
        without_room = &kernel.allocations[*found];
    }
    throw Error(
        fmt::format("cannot generate code: '{}' needs {} rows of a pad, but at most {} of {} are left; use a smaller tile",
                    without_room->name, without_room->rows_per_pad(), kernel.machine->pad_rows() - without_room->base_row,
                    kernel.machine->pad_rows()));
}

// The cycles of the array in a body: its rows and weights, and what is between the last row and the next weights. For each copy
// in it, or in loops of it, those of the loop that the copy stands in.
int64_t array_beside(const Body &body, const Machine &machine, std::map<const Copy *, int64_t> &beside) {
    int64_t rows = 0, weights = 0, inside = 0;
    for (const Node &node : body) {
        rows += node.op && node.op->opcode == Opcode::gemm_vv;
        weights += node.op && node.op->opcode == Opcode::lw_vi;
        if (node.loop) inside += node.loop->extent * array_beside(node.loop->body, machine, beside);
    }
    const int64_t cycles = inside + rows + weights + weights / lanes * static_cast<int64_t>(machine.sa.switch_spacing);
    for (const Node &node : body)
        if (node.copy) beside[node.copy.get()] = cycles;
    return cycles;
}

}  // namespace

void place(Kernel &kernel, const std::map<std::string, PadLayout> &wanted) {
    const Machine &machine = *kernel.machine;
    shape_fills(kernel, wanted);
    stack_allocations(kernel, wanted);
    // Loads that stand alone in front of all loops; those that follow each other start together.
    std::set<const Copy *> at_once;
    const auto loads = [&](size_t at) { return at < kernel.body.size() && kernel.body[at].copy && kernel.body[at].copy->load; };
    for (size_t at = 0; at < kernel.body.size(); at++)
        if (loads(at) && !loads(at - 1) && !loads(at + 1)) at_once.insert(kernel.body[at].copy.get());
    std::map<const Copy *, int64_t> array;
    array_beside(kernel.body, machine, array);
    for_each_node(kernel.body, [&](Node &node) {
        if (node.op && node.op->access) {
            node.op->pad = kernel.allocations[node.op->access->allocation].pad_of(node.op->access->row.constant);
        }
        if (node.copy) {
            Allocation &allocation = kernel.allocations[node.copy->allocation];
            note_moved(*node.copy, allocation);
            for (const Box &box : node.copy->boxes) append_tiles(kernel, box, allocation, node.copy->tiles);
            const auto layout = wanted.find(allocation.name);
            node.copy->tiles = in_turns(kernel, node.copy->tiles, layout != wanted.end() ? layout->second : PadLayout{},
                                        at_once.contains(node.copy.get()), node.copy->any_order, array[node.copy.get()]);
        }
    });
}

}  // namespace atalla::codegen
