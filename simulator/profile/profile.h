// Where the cycles of a run went and what bound it: by cause, by source, by packet, by unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "isa/machine.h"
#include "isa/program.h"
#include "simulator/simulator.h"

namespace atalla {

// Cycles of a part of the program: those that issued a packet and those that waited, by cause.
struct Share {
    uint64_t packets = 0;
    StallCycles stalls{};
    uint64_t cycles() const;
};

struct SourceShare {
    std::string name;  // "P.s0 / k_outer"; "" for packets that nothing is known of
    Share share;
};

struct HotPacket {
    int32_t packet = 0;  // index in Program::packets
    Share share;
};

// A part of the machine that can do only so much: for how many cycles it was needed at the least.
struct ResourceUse {
    std::string name;   // "adder", "pad 2 read"
    std::string words;  // what was counted: "121,856 operations, 3 cycles each"
    uint64_t busy = 0;  // cycles
};

// The roofline: work a cycle over work a byte.
struct Roofline {
    uint64_t flops = 0;        // of the problem; where that is not known, what array rows did, or lanes where there are none
    std::string of = "array";  // "array" or "lanes"
    uint64_t dram_bytes = 0;   // whole beats, instruction fetches included
    double flops_per_cycle = 0, flops_per_byte = 0;
    double peak_flops = 0;   // a cycle, of the array or of the lanes
    double peak_bytes = 0;   // a cycle, of DRAM
    double ceiling() const;  // of this intensity
};

struct Profile {
    Counters counters;
    std::vector<SourceShare> by_func;    // Func and loop, most cycles first
    std::vector<SourceShare> by_node;    // ATen node; empty if no packet has one
    std::vector<HotPacket> hottest;      // most cycles first
    std::vector<ResourceUse> resources;  // busiest first
    Roofline roofline;
    // The busiest resource if it was busy for half of the time or more; else "latency", of the largest cause of stalls.
    std::string bound_by;
    double bound_share = 0;  // of the cycles
};

// `result` must come from a run with RunOptions::per_packet. `hottest`: how many packets to list. `flops`: what the problem
// asks for, which is less than what ran where tiles are padded or a pipeline has idle stages.
Profile make_profile(const Machine &machine, const Program &program, const RunResult &result, size_t hottest = 10,
                     std::optional<uint64_t> flops = {});

}  // namespace atalla
