// Machines on which other things get in each other's way than on the shipped ones.
#pragma once

#include <random>

#include "tests/timing/rig.h"

namespace atalla {

inline Machine random_machine(std::mt19937 &random) {
    const auto pick = [&random](int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    Machine machine = machine_with({}, pick(0, 1) == 0 ? "ax01" : "ax01-psum");
    if (pick(0, 2) == 0) {
        return machine;
    }
    const std::map<std::string, std::pair<int64_t, int64_t>> ranges = {
        {"pad.queue", {1, 8}},
        {"vlsu.load_queue", {1, 8}},
        {"vlsu.store_queue", {1, 8}},
        {"sdma.outstanding", {1, 20}},
        {"sdma.store_rows_ahead", {1, 8}},
        {"sa.credits", {1, 50}},
        {"sa.dst_queue", {1, 20}},
        {"sa.switch_spacing", {0, 1}},
        {"wb.writes_per_bank", {1, 2}},
        {"wb.offer_to_use", {1, 4}},
        {"ex1.ii", {1, 3}},
        {"vec.ii", {1, 5}},
        {"pad.read_ii", {1, 6}},
        {"pad.write_ii", {1, 6}},
        {"pad.accept_per_cycle", {1, 2}},
        {"dram.row_hit_cap", {1, 20}},
        {"dram.refresh_interval", {400, 900}},
        {"bus.launches", {1, 3}},
        {"branch.penalty", {0, 6}},
        {"vlsu.present", {1, 5}},
        {"sdma.setup", {1, 12}},
        {"sdma.row_ii", {1, 5}},
        {"dram.cas_same_group", {1, 5}},
        {"vec.mul_L", {0, 20}},
        {"vec.add_L", {0, 9}},
        {"vec.exp_L", {0, 14}},
        {"vec.reduce_ii", {1, 30}},
        {"ex2.ii_after_L", {1, 4}},
        {"ex3.ii", {1, 4}},
        {"ex5.load_hit", {0, 8}},
        {"sa.L", {0, 150}},
        {"sa.credit_return", {0, 2}},
        {"sa.weight_buffers", {1, 2}},
        {"pad.read_L", {0, 12}},
        {"pad.write_land", {0, 4}},
        {"vlsu.load_extra", {0, 6}},
        {"regs.scalar_banks", {1, 4}},
        {"regs.vector_banks", {1, 4}},
        {"regs.vector_conflict", {0, 1}},
        {"issue.lane_ops", {1, 3}},
        {"dram.complete", {1, 40}},
        {"dram.open_conflict", {0, 30}},
        {"dram.write_turnaround", {0, 20}},
        {"dram.refresh", {0, 300}},
    };
    for (const auto &[key, range] : ranges) {
        if (pick(0, 2) == 0) {
            set_parameter(machine, key, pick(range.first, range.second));
        }
    }
    machine.icache.bytes = int64_t{256} << pick(0, 5);
    machine.dcache.bytes = int64_t{256} << pick(0, 4);
    check_machine(machine);
    return machine;
}

}  // namespace atalla
