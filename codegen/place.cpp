#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "codegen/passes.h"
#include "isa/error.h"

namespace atalla::codegen {

namespace {

void for_each_node(Body &body, const std::function<void(Node &)> &visit) {
    for (Node &node : body) {
        visit(node);
        if (node.loop) for_each_node(node.loop->body, visit);
        if (node.branch) for_each_node(node.branch->body, visit);
    }
}

// Rows can go round `pads` pads if the pad of every access is known when the program is generated.
int widest_interleave(Kernel &kernel, int allocation, int pads) {
    auto fits = [&](const LinearForm &row, int p) {
        return std::all_of(row.terms.begin(), row.terms.end(), [&](const auto &term) { return term.second % p == 0; });
    };
    int widest = pads;
    for_each_node(kernel.body, [&](Node &node) {
        const LinearForm *row = nullptr;
        if (node.op && node.op->access && node.op->access->allocation == allocation) row = &node.op->access->row;
        if (node.copy && node.copy->allocation == allocation) row = &node.copy->pad_row;
        while (row != nullptr && !fits(*row, widest)) widest /= 2;
    });
    return std::max(widest, 1);
}

// The tiles of a box: one dimension becomes the rows of the tiles, the others are enumerated, pads innermost so that
// neighbouring transfers use different engines.
void append_tiles(const Box &box, int interleave, const Machine &machine, const std::vector<int> &pads, std::vector<Tile> &tiles) {
    int row_dim = -1;
    for (size_t d = 0; d < box.dims.size(); d++) {
        const Box::Dim &dim = box.dims[d];
        const bool consecutive = dim.row_stride == 1 || dim.row_stride == interleave;
        const bool pitch_fits = dim.mem_stride >= box.cols && dim.mem_stride * interleave <= (1 << 20);
        if (consecutive && pitch_fits && (row_dim < 0 || dim.extent > box.dims[row_dim].extent)) row_dim = static_cast<int>(d);
    }
    std::function<void(size_t, int64_t, int64_t)> enumerate = [&](size_t d, int64_t row, int64_t mem) {
        if (static_cast<int>(d) == row_dim) return enumerate(d + 1, row, mem);
        if (d < box.dims.size()) {
            const Box::Dim &dim = box.dims[d];
            for (int64_t i = 0; i < dim.extent; i++) enumerate(d + 1, row + i * dim.row_stride, mem + i * dim.mem_stride);
            return;
        }
        const Box::Dim rows = row_dim < 0 ? Box::Dim{1, interleave, 0} : box.dims[row_dim];
        const int64_t residues = rows.row_stride == interleave ? 1 : std::min<int64_t>(interleave, rows.extent);
        const int64_t most = machine.sdma.max_rows;
        for (int64_t chunk = 0; chunk * most * residues < rows.extent; chunk++)
            for (int64_t r = 0; r < residues; r++) {
                const int64_t first = chunk * most * residues + r;
                if (first >= rows.extent) continue;
                const int64_t count = std::min(most, (rows.extent - first + residues - 1) / residues);
                const int64_t at = row + first * rows.row_stride;
                Tile tile;
                tile.pad = pads[at % interleave];
                tile.row = at / interleave;
                tile.mem = mem + first * rows.mem_stride;
                tile.rows = static_cast<int>(count);
                tile.cols = box.cols;
                tile.pitch = count == 1 ? box.cols : rows.mem_stride * residues;
                tiles.push_back(tile);
            }
    };
    enumerate(0, box.row, box.mem);
}

}  // namespace

void place(Kernel &kernel, const std::map<std::string, int> &wanted) {
    const Machine &machine = *kernel.machine;
    const int pads = static_cast<int>(machine.pad.count);
    std::vector<int64_t> top(pads, 0);
    for (size_t i = 0; i < kernel.allocations.size(); i++) {
        Allocation &allocation = kernel.allocations[i];
        int limit = pads;
        if (const auto it = wanted.find(allocation.name); it != wanted.end()) limit = std::clamp(it->second, 1, pads);
        allocation.interleave = widest_interleave(kernel, static_cast<int>(i), limit);
        // The window of neighbouring pads that is least full.
        int best = 0;
        auto height = [&](int first) { return *std::max_element(top.begin() + first, top.begin() + first + allocation.interleave); };
        for (int first = 0; first + allocation.interleave <= pads; first += allocation.interleave)
            if (height(first) < height(best)) best = first;
        allocation.base_row = height(best);
        const int64_t rows = (allocation.rows + allocation.interleave - 1) / allocation.interleave;
        if (allocation.base_row + rows > machine.pad_rows())
            throw Error(fmt::format("cannot generate code: '{}' needs {} rows of {} pads, but only {} of {} rows are left; use a smaller tile",
                                    allocation.name, rows, allocation.interleave, machine.pad_rows() - allocation.base_row, machine.pad_rows()));
        for (int p = 0; p < allocation.interleave; p++) {
            allocation.pads.push_back(best + p);
            top[best + p] = allocation.base_row + rows;
        }
    }
    for_each_node(kernel.body, [&](Node &node) {
        if (node.op && node.op->access) {
            const Allocation &allocation = kernel.allocations[node.op->access->allocation];
            const int64_t row = node.op->access->row.constant;
            node.op->pad = allocation.pads[((row % allocation.interleave) + allocation.interleave) % allocation.interleave];
        }
        if (node.copy) {
            const Allocation &allocation = kernel.allocations[node.copy->allocation];
            for (const Box &box : node.copy->boxes) append_tiles(box, allocation.interleave, machine, allocation.pads, node.copy->tiles);
        }
    });
}

}  // namespace atalla::codegen
