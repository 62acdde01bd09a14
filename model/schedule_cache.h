// Schedules that the draft model and a few simulations chose, and what programs of kernels take, kept in a file so that the
// next compile need not simulate again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "schedules/point.h"

namespace atalla {

struct KeptSchedule {
    std::string from;  // as ChosenKernel::from; empty: no schedule compiles
    Point point;
    int64_t cycles = 0;     // of a run alone; 0: not simulated
    std::string failure;    // why none compiles
    bool verified = false;  // its results were compared
};

// One file for a machine and a compiler; several processes may use it at once. What cannot be read or written is as if it were
// not there: the cache is a matter of time alone.
class ScheduleCache {
public:
    explicit ScheduleCache(std::filesystem::path file);

    // Null if it is not kept.
    const KeptSchedule *find(const std::string &key) const;
    void keep(const std::string &key, const KeptSchedule &schedule);

    // What a program takes, in cycles; `program` says all of it.
    std::optional<int64_t> cycles(const std::string &program) const;
    void keep_cycles(const std::string &program, int64_t cycles);

private:
    void append(const std::string &line) const;

    std::filesystem::path file_;
    std::map<std::string, KeptSchedule> known_;
    std::map<std::string, int64_t> programs_;  // by their checksum
};

// In the user's cache folder ($XDG_CACHE_HOME, or ~/.cache), for this program as it was built; empty if there is none.
// `machine` is a fingerprint.
std::filesystem::path default_schedule_cache(const std::string &machine);

}  // namespace atalla
