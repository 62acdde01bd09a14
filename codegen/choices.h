// Decisions in which the generator does what suits most kernels, and another way that suits some: a search tries it for the
// best schedules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atalla::codegen {

// Each names the other way.
enum class Choice : uint8_t {
    StartInPlace,    // transfers between loops start where they stand, not as soon as they can
    StartTogether,   // those of straight code that starts several for a pad do not keep even distances
    FirstInLoop,     // the first groups of the first loop of transfers do not start in front of it
    FillsFirst,      // no loads start in front of fills with constants
    PlainTurns,      // tiles keep their order in memory, whatever bank groups and banks they are in
    FullTiles,       // tiles are as large as they can be and not of equal size
    StartAtOnce,     // all but the first kind of transfers of an outer loop start at once, not from inside the innermost one
    SharedRoles,     // registers that are read together share the banks of their role
    LoadOnce,        // rows that are read early and late in an iteration are loaded once
    SidesNear,       // code out of line leaves a loop where its end is in reach
    PacketsApart,    // packets of loops whose iterations overlap are not merged
    RowsUneven,      // rows that are alike keep no common distance
    NeverIdle,       // no stages run idle: loops have code in front of them and behind them
    AlwaysIdle,      // all stages that can run idle
    NeverTurn,       // loops around the array begin where an iteration does, not with its sums
    EndsApart,       // the end of a nest's turn and the start of the next one are blocks of their own
    OverlapInPairs,  // at most two iterations overlap
    OverlapShort,    // no long iterations overlap
    FewPackets,      // straight code takes the fewest packets
    TransfersNear,   // code is placed as if all transfers were short
    WaitEarly,       // a loop waits for its transfers where it begins, not where their rows are needed
    SidesInPairs,    // at most two iterations of loops with code out of line overlap
};
constexpr size_t choice_count = static_cast<size_t>(Choice::SidesInPairs) + 1;

// A set of them.
class Choices {
public:
    Choices() = default;
    Choices(Choice choice) { add(choice); }
    // Bit n stands for the n-th; Error if there is none. This is how a point of a schedule space has them.
    static Choices from_bits(int64_t bits);
    int64_t bits() const { return bits_; }

    void add(Choice choice) { bits_ |= int64_t{1} << static_cast<int>(choice); }
    bool contains(Choice choice) const { return (bits_ >> static_cast<int>(choice) & 1) != 0; }
    bool empty() const { return bits_ == 0; }
    std::vector<Choice> list() const;
    // For people: "rows that are read early and late are loaded once".
    std::string words() const;

private:
    int64_t bits_ = 0;
};

}  // namespace atalla::codegen
