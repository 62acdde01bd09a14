// Rows of an unrolled loop: groups of operations that only pointers, branches and transfers connect.
#pragma once

#include <optional>
#include <vector>

#include "codegen/blocks.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

struct Chains {
    // Each in the order of placing, highest first; what connects the others comes last.
    std::vector<std::vector<int>> in_turn;
    // In program order, those besides that one if all have the same operations: the n-th ones of all do the same to a row each.
    // Empty otherwise.
    std::vector<std::vector<int>> alike;
};

// `apart`: chains are told apart; otherwise all operations are one.
Chains find_chains(const Kernel &kernel, const ScheduleGraph &graph, bool apart);

// Rows of the pads that all rows of a loop read, such as weights: loaded once for all of them, or by each of them, which takes
// more of the pads' time but leaves nothing that ties the rows together. A single row has its own anyway; its loads then find
// their places behind its stores.
enum class RowLoads { Shared, Own };

// A loop whose rows are alike, made ready for rows at one distance from each other: what the rows make at one position is to
// lie in one bank (vectors: assign_row_banks), and a pointer that a row uses early and late is two, since one that steps once
// an iteration serves accesses that are less than an iteration apart. Nothing if rows are not alike.
struct AlikeRows {
    std::vector<Op> loop, in_front;  // operations of the loop, and more for the end of the block in front of it
};
std::optional<AlikeRows> alike_rows(Kernel &kernel, const std::vector<Op> &ops, int loop, RowLoads loads);

// Banks for the vectors of rows that are alike and have their cycles, each row `distance` behind the one before: what is read
// in one packet lies in several.
void assign_row_banks(Kernel &kernel, const ScheduleGraph &graph, const Chains &chains, int distance);

}  // namespace atalla::codegen
