// A trial: what came out of lowering, generating and simulating one point of a schedule space.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "schedules/point.h"

namespace atalla {

struct Trial {
    enum Status {
        Ok,        // ran to its end; cycles and counters are exact
        Failed,    // lowering, generation or the host threw; reason says what
        Refused,   // the simulator refused the program; reason is its sentence
        TimedOut,  // stopped at a limit of the evaluation, after the cycles given
    };

    Point point;
    Status status = Failed;
    int64_t cycles = 0;           // if Ok; if TimedOut, of the part that ran: it takes longer than that
    std::string reason;           // if not Ok
    nlohmann::json counters;      // the simulator's, an object; null if there are none
    double seconds_lower = 0;     // host time for lowering and code generation
    double seconds_simulate = 0;  // host time for the simulation
};

// "ok", "failed", "refused", "timed-out": the names in the database and on the command line.
const char *status_name(Trial::Status status);
// The inverse; Error naming the nearest for an unknown word.
Trial::Status parse_status(std::string_view name);

// What identifies the conditions under which trials are comparable. Every member is part of every look-up, so a row of
// another machine or another compiler can never be served.
struct TrialKey {
    std::string op;        // "aten::addmm"
    std::string workload;  // canonical JSON text: shapes, types, fused epilogue
    std::string machine;   // Machine::fingerprint()
    std::string compiler;  // fingerprint of everything that decides which program a point becomes
    bool operator==(const TrialKey &) const = default;
    auto operator<=>(const TrialKey &) const = default;
};

}  // namespace atalla
