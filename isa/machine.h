// The machine description: every size and timing that the simulator, the generator and the bounds know about a machine.
// Read from machines/*.json; member names are the keys of the file ("vec.ii" is Machine::vec.ii).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace atalla {

// What a cycle is and which of the two documented semantics the values follow.
//   Hardware: the RTL-faithful rules (microarchitecture reference section 17; A40.sep semantics of the isa reference).
//   Functional: upstream's functional simulator bit for bit, a packet is a cycle.
enum class MachineModel { Hardware, Functional };

// Units: cycles unless said otherwise. The source and confidence class of each default are in the machine file.
struct Machine {
    std::string name;
    MachineModel model = MachineModel::Hardware;

    struct Core {
        int64_t clock;
    } core{};  // MHz
    struct Memory {
        int64_t bytes;
    } memory{};  // byte-addressed data memory
    struct Issue {
        int64_t slots, packet_bytes, scalar_reads, vector_reads, mask_reads;  // per packet
        int64_t array_ops, mts_ops, lane_ops, vlsu_per_pad, sdma_per_pad;     // per packet
    } issue{};
    struct Regs {
        int64_t scalar, vector, mask, scalar_banks, vector_banks, mask_banks;
        bool scalar_conflict, vector_conflict, mask_conflict;
    } regs{};  // do k >= 2 reads on a bank cost k cycles
    struct Wb {
        int64_t writes_per_bank, offer_to_use;
    } wb{};
    struct Ex1 {
        int64_t L, ii;
    } ex1{};
    struct Ex2 {
        int64_t rcp_sqrt_L, divmod_L, conv_L, ii_after_L;
    } ex2{};  // initiation interval = L + ii_after_L
    struct Ex3 {
        int64_t L, ii;
    } ex3{};
    struct Ex4 {
        int64_t L, ii;
    } ex4{};
    struct Ex5 {
        int64_t load_hit, store_hit, ii_after_L;
    } ex5{};
    struct Dcache {
        int64_t bytes, ways, line, beat, mshr, miss_clean, miss_dirty;
    } dcache{};
    struct Icache {
        int64_t bytes, line, sector, ways;
    } icache{};
    struct Branch {
        int64_t penalty, btb;
    } branch{};
    struct Vec {
        int64_t vl, ii, add_L, mul_L, cmp_L, exp_L, reduce_L, reduce_ii, mov_to_scalar_L, mov_to_scalar_ii;
    } vec{};
    struct Pad {
        int64_t count, bytes, row_bytes, accept_per_cycle, read_L, read_ii, write_land, write_ii, queue;
    } pad{};
    struct Vlsu {
        int64_t present, load_extra, load_queue, store_queue;
    } vlsu{};
    struct Sdma {
        int64_t max_rows, max_cols, setup, beat, outstanding, row_ii, load_extra, store_rows_ahead;
    } sdma{};
    struct Bus {
        int64_t launches;
    } bus{};  // beats per cycle, all masters together
    struct Dram {
        int64_t cas, cas_same_group, complete, open_closed, open_conflict, row_bytes, banks, groups, row_hit_cap,
            refresh_interval, refresh, write_turnaround;
    } dram{};
    struct Sa {
        int64_t rows, cols, L, credits, credit_return, weight_buffers, switch_spacing, dst_queue;
        bool psum_in;
    } sa{};

    int64_t pad_rows() const { return pad.bytes / pad.row_bytes; }
    bool timed() const { return model == MachineModel::Hardware; }

    // 16 hex digits over every value (not over the name, comments or sources): equal machines have equal fingerprints.
    std::string fingerprint() const;
};

// A parameter as the machine file holds it.
struct MachineParameter {
    std::string key;         // "vec.ii"
    std::string unit;        // "cycles"
    std::string source;      // where the value comes from
    std::string confidence;  // M, R, D, T or X
    std::string meaning;
    int64_t value = 0;  // booleans are 0 and 1
    // Other values that a source gives or a design might choose: what a sensitivity run tries. Empty for what is settled.
    std::vector<int64_t> plausible;
};

// Loads and checks a machine file: every key present, none unknown (the nearest is named), values possible.
Machine load_machine(const std::filesystem::path &file);
// A shipped machine by name ("ax01"), or a path to a file. Error names the nearest shipped machine.
Machine find_machine(const std::string &name_or_path);
std::vector<std::string> shipped_machines();
// All parameters of a file with their provenance, for documentation and sweeps.
std::vector<MachineParameter> machine_parameters(const std::filesystem::path &file);
// Sets one value by key; throws Error naming the nearest key, or the possible range.
void set_parameter(Machine &machine, std::string_view key, int64_t value);
// Throws Error if values contradict each other or leave what the simulator supports.
void check_machine(const Machine &machine);
// What each parameter of a machine file means, with value, unit, possible range, confidence and source: docs/machine.md.
std::string describe_machine_markdown(const std::filesystem::path &file);

}  // namespace atalla
