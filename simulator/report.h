// The counters of a run for people and for programs.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "isa/machine.h"
#include "simulator/simulator.h"

namespace atalla {

// 1234567 as 1,234,567.
std::string grouped(uint64_t number);

// Lines of text: cycles, packets, slot fill, stalls by cause with their share of the cycles, units, array, bytes by pad,
// DRAM and caches. Rows that are zero throughout are left out. A hardware machine's shares are of its peak rates.
std::string counters_text(const Counters &counters, const Machine &machine);

// Every counter under its member name; stalls by stall_name(), unit operations by the unit's name.
nlohmann::ordered_json counters_json(const Counters &counters);

}  // namespace atalla
