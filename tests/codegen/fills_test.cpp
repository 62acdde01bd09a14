// Fills of allocations with blocks: the same rows, with each store in one pad and all pads in turn.
#include <gtest/gtest.h>

#include <set>

#include "codegen/fills.h"
#include "codegen/passes.h"
#include "isa/machine.h"

namespace atalla::codegen {
namespace {

class Fill {
public:
    // A loop that fills these rows of an allocation, a round of the pads an iteration.
    Fill(int64_t first, int64_t step, int64_t iterations) : machine(find_machine("ax01")) {
        kernel.machine = &machine;
        Allocation allocation;
        allocation.name = "raw";
        allocation.rows = 4096;
        kernel.allocations.push_back(allocation);
        kernel.loops.push_back({"fill", iterations, -1, kernel.scalar("fill")});
        kernel.atoms.push_back({Halide::Internal::Variable::make(Halide::Int(32), "fill"), "fill", 0, true});
        Loop loop;
        loop.id = 0;
        loop.extent = iterations;
        loop.name = "fill";
        loop.fill = true;
        for (int64_t i = 0; i < machine.pad.count; i++) {
            Op op;
            op.opcode = Opcode::vreg_st;
            op.access = PadAccess{0, {first + i * step, {{0, step * machine.pad.count}}}, {}};
            loop.body.push_back(op);
        }
        kernel.body.push_back(std::move(loop));
    }

    // The rows that are stored, in order of the stores; each store must keep to a pad where blocks of `block` rows go round all
    // of them.
    std::multiset<int64_t> rows(int64_t block) {
        std::multiset<int64_t> stored;
        visit(kernel.body, {}, block, stored);
        return stored;
    }

    Machine machine;
    Kernel kernel;

private:
    void visit(const Body &body, std::map<int, int64_t> at, int64_t block, std::multiset<int64_t> &stored) {
        for (const Node &node : body) {
            if (node.loop) {
                for (int64_t i = 0; i < node.loop->extent; i++) {
                    at[node.loop->id] = i;
                    visit(node.loop->body, at, block, stored);
                }
                continue;
            }
            const LinearForm &form = node.op->access->row;
            int64_t row = form.constant;
            for (const auto &[atom, step] : form.terms) row += step * at.at(kernel.atoms[static_cast<size_t>(atom)].loop);
            EXPECT_EQ(floor_div(row, block) % machine.pad.count, floor_div(form.constant, block) % machine.pad.count)
                << "row " << row;
            stored.insert(row);
        }
    }
};

TEST(Fills, GoAlongTheBlocksOfAllPads) {
    constexpr int64_t block = 14;
    for (const auto &[first, step, iterations] :
         {std::array<int64_t, 3>{0, 1, 448}, {0, 2, 224}, {3, 1, 100}, {14, 7, 20}, {5, 3, 1}}) {
        SCOPED_TRACE(first);
        Fill fill(first, step, iterations);
        const auto wanted_rows = Fill(first, step, iterations).rows(1 << 20);
        shape_fills(fill.kernel, {{"raw", {0, block}}});
        EXPECT_EQ(fill.rows(block), wanted_rows);
    }
}

TEST(Fills, TakeLittleCode) {
    Fill fill(0, 1, 448);
    shape_fills(fill.kernel, {{"raw", {0, 14}}});
    // A loop over rounds of blocks with one over the rows of a block.
    ASSERT_EQ(fill.kernel.body.size(), 1u);
    ASSERT_TRUE(fill.kernel.body[0].loop);
    EXPECT_EQ(fill.kernel.body[0].loop->extent, 448 / 14);
    ASSERT_EQ(fill.kernel.body[0].loop->body.size(), 1u);
    EXPECT_EQ(fill.kernel.body[0].loop->body[0].loop->extent, 14);
}

// Others go round the pads as they are, or with a round of them in an iteration.
TEST(Fills, OfSingleRowsGoRoundThePads) {
    Fill fill(0, 1, 64);
    shape_fills(fill.kernel, {});
    ASSERT_EQ(fill.kernel.body.size(), 1u);
    EXPECT_EQ(fill.rows(1).size(), 256u);
}

// Rows of two vectors that go round four pads: every other one of them is in the same pad, a row further, and they come as
// tiles.
TEST(Tiles, RowsOfSeveralVectorsComeTogether) {
    const Machine machine = find_machine("ax01");
    Kernel kernel;
    kernel.machine = &machine;
    Allocation allocation;
    allocation.name = "rows";
    allocation.rows = 256;
    kernel.allocations.push_back(allocation);
    Copy copy;
    copy.tensor = copy.allocation = 0;
    copy.boxes = {{0, 0, 32, {{2, 1, 32}, {128, 2, 256}}}};
    kernel.body.push_back(std::move(copy));
    place(kernel, {});
    const std::vector<Tile> &tiles = kernel.body.front().copy->tiles;
    ASSERT_EQ(tiles.size(), 8u);
    for (const Tile &tile : tiles) {
        EXPECT_EQ(tile.rows, 32);
        EXPECT_EQ(tile.pitch, 2 * 256);
        EXPECT_EQ(tile.mem / 32 % 2, tile.pad % 2) << "the vector of a row";
    }
}

}  // namespace
}  // namespace atalla::codegen
