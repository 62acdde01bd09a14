// Runs programs of the older A48 dialect as upstream's functional simulator of that time did (isa reference, columns A48).
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "isa/a48.h"
#include "simulator/simulator.h"

namespace atalla::a48 {

// Whether the packets of a `.in` file are of this dialect: more digits than an A40 packet has, or packets 24 bytes apart.
// Throws Error if the file cannot be read or is not of the grammar.
bool is_a48_file(const std::filesystem::path &file);

class Simulator {
public:
    // Data words are written to memory. Throws Error if two packets share an address.
    explicit Simulator(const Program &program);
    ~Simulator();
    Simulator(Simulator &&) noexcept;
    Simulator &operator=(Simulator &&) noexcept;

    // Runs from address 0 until halt. Of the counters, cycles (= packets), packets, operations and DMA bytes are kept.
    RunResult run(const RunOptions &options = {});

    // The state after a run in the `.expect` format of the conformance vectors.
    std::string dump_state(const RunResult &result) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace atalla::a48
