// Runs assembly text on a machine with some parameters changed.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "isa/assembler.h"
#include "isa/machine.h"
#include "simulator/timing/timing.h"
#include "tests/isa/test_paths.h"

namespace atalla {

using Overrides = std::map<std::string, int64_t>;  // key -> value

inline Machine machine_with(const Overrides &overrides, const std::string &name = "ax01") {
    Machine machine = load_machine(source_path("machines/" + name + ".json"));
    for (const auto &[key, value] : overrides) {
        set_parameter(machine, key, value);
    }
    check_machine(machine);
    return machine;
}

inline RunResult run_program(const Program &program, const Machine &machine, const RunOptions &options = {},
                             Advance advance = Advance::Skip) {
    const auto state = std::make_unique<MachineState>(machine);
    for (const auto &[address, word] : program.data) {
        state->bytes.write32(address, word);
    }
    return run_timed(machine, program, *state, options, advance);
}

// A single fetch brings 4096 bytes of code, and the first packet issues in cycle 34: what follows is free of instruction
// misses.
inline Overrides one_fetch(Overrides overrides = {}) {
    overrides.insert({{"icache.line", 4096}, {"icache.sector", 4096}});
    return overrides;
}

inline RunResult run_text(const std::string &text, const Overrides &overrides = {}, const std::string &machine = "ax01",
                          Advance advance = Advance::Skip) {
    return run_program(assemble(text), machine_with(overrides, machine), {.step_limit = 100000, .per_packet = true}, advance);
}

// The cycles of a run that must succeed.
inline int64_t cycles_of(const std::string &text, const Overrides &overrides = {}, const std::string &machine = "ax01") {
    const RunResult result = run_text(text, overrides, machine);
    EXPECT_TRUE(result.ok) << result.error << "\n" << text;
    return static_cast<int64_t>(result.counters.cycles);
}

inline uint64_t stall(const RunResult &result, Stall cause) { return result.counters.stalls[static_cast<size_t>(cause)]; }

inline std::string repeat(const std::string &text, int times) {
    std::string result;
    for (int time = 0; time < times; time++) {
        result += text;
    }
    return result;
}

}  // namespace atalla
