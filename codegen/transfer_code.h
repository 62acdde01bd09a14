// The code of transfers: their registers, the operations that aim, step and start them, and the waits.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "codegen/rings.h"

namespace atalla::codegen {

// Tiles of a copy as groups whose places grow by constant steps from group to group.
struct Run {
    std::vector<Tile> group;
    int64_t count = 1, row_step = 0, mem_step = 0;
    int64_t other_mem_step = 0;  // of every other step; 0: all are alike
    // Where the places are those of several loops: what more a step is, in memory and in the pads, that comes behind so many
    // others, of which so many are left at first.
    struct Jump {
        int64_t mem = 0, every = 0, left = 0, rows = 0;
        uint32_t tiles = ~0u;  // a bit for each tile of the group that jumps; the others go on
    };
    std::vector<Jump> jumps = {};
};
std::vector<Run> split_runs(const std::vector<Tile> &tiles);
// The same with lone tiles of different pads as one group.
std::vector<Run> split_rounds(const std::vector<Tile> &tiles);
// The same with runs that follow each other as one where tiles go on but for those of some pads, which jump: that began with
// later tiles and take their first ones last.
std::vector<Run> join_runs(std::vector<Run> runs);
// The same, but not where all pads jump at once.
std::vector<Run> join_runs_of_some_pads(const std::vector<Run> &runs);
// Runs with one tile a pad, so that no transfer of a group waits for another.
std::vector<Run> one_tile_a_pad(const std::vector<Run> &runs);

// Beats of the bus that the rows of tiles take.
int64_t beats_of(const std::vector<Tile> &tiles, const Machine &machine);

// The half, 0 or 1, of each tile of a group: each half has tiles in both bank groups of the DRAM where the whole has several in
// each, every other one of a bank group, and the second half as many as the first, or one fewer.
std::vector<size_t> halves_of(const std::vector<Tile> &tiles, const Machine &machine);

// The registers of one run's transfers.
struct Channel {
    const Copy *copy = nullptr;
    Run run;
    std::vector<Reg> pad, mem, control;  // one of each for every tile of the group
    Reg mem_step = {};                   // bytes of the next step, where steps are not alike
    std::vector<Reg> left = {};          // steps until each jump
    Reg row_jump = {};                   // bytes of a pad that the next step is more, where jumps have rows
};

// Nodes, behind those that are there.
void append(Body from, Body &to);
// dst = value + what `plus` names.
Op value_op(Reg dst, LinearForm value, std::array<Reg, 3> plus = {});
Op binary(Opcode opcode, Reg dst, Reg a, Reg b);
// Operations that run out of line while `condition` is not zero.
Op side(Reg condition, const Body &ops);

class TransferCode {
public:
    TransferCode(Kernel &kernel, Rings &rings) : kernel_(kernel), rings_(rings) {}

    Channel channel(const Copy &copy, const Run &run);
    std::vector<Channel> channels(const Copy &copy, const std::vector<Run> &runs);
    // Points a channel at its first group; with `pads_before`, the base registers one step before it, as issue_step() wants
    // them.
    void aim(const Channel &c, bool pads_before, Reg slot_register, Reg memory, const std::map<int, Reg> &loop_values,
             Body &out) const;
    // To the next group, in the pads and in memory; starts the group it is at.
    void step_pads(const Channel &c, Body &out) const;
    void step_memory(const Channel &c, Body &out) const;
    void start_group(const Channel &c, bool ahead, Body &out) const;
    // Reads the base registers: what follows runs after the transfers. Late: after everything that need not follow. Nothing on
    // a machine without timing, where a transfer has ended when the next packet begins.
    void wait(const std::vector<Channel> &channels, Body &out, bool late = false) const;
    // Waits that the transfers and accesses of another allocation stay behind.
    void hold(int allocation, const std::vector<Channel> &channels, Body &out) const;
    // Behind it every store before it has landed.
    Op fence(int allocation) const;
    // All groups of a run, one after the other (each waits for its own engine). Of several, the channel points one step before
    // the first.
    void start_all(const Channel &c, bool ahead, Body &out);
    // Starts a whole copy; what is still to be waited for.
    std::vector<Channel> in_place(const Copy &copy, Body &out);
    // A whole copy without a wait: its data pass through the pads, whose engines keep the order.
    std::vector<Channel> pass_through(const Copy &copy, Body &out);
    // Steps the base registers, starts a group and steps the addresses in memory, which a transfer does not keep busy: once, or
    // so many times.
    void issue_step(const Channel &c, Body &out) const;
    void issue_steps(const Channel &c, int64_t count, Body &out);

private:
    void wait(const std::vector<Channel> &channels, std::optional<int> allocation, bool late, Body &out) const;
    // Copies of constants from this number on, one for each pad, are base registers of transfers and nothing else.
    static constexpr int base_registers = 8;
    // Bytes in a pad (relative to the ring slot of a ring, which is in a register) and bytes in memory.
    LinearForm pad_bytes(const Copy &copy, const Tile &tile) const;
    LinearForm mem_bytes(const Copy &copy, int64_t offset) const;
    int32_t control_word(const Tile &tile) const;
    std::vector<Channel> start(const Copy &copy, bool ahead, Body &out);
    Op transfer(const Channel &c, size_t i, bool ahead) const;
    bool comes_in_halves(const Run &run) const;
    void start_halves(const Channel &c, Body &out);
    Loop loop_over_groups(const Channel &c, int64_t count);

    Kernel &kernel_;
    Rings &rings_;
};

}  // namespace atalla::codegen
