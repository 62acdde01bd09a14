// Schedules that the draft model and a few simulations chose, kept in a file so that the next compile need not choose again.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "schedules/point.h"

namespace atalla {

struct KeptSchedule {
    std::string from;      // as ChosenKernel::from; empty: no schedule compiles
    Point point;
    int64_t cycles = 0;    // of a run alone; 0: not simulated
    std::string failure;   // why none compiles
    bool verified = false; // its results were compared
};

// One file for a machine and a compiler; several processes may use it at once. What cannot be read or written is as if it were not
// there: the cache is a matter of time alone.
class ScheduleCache {
public:
    explicit ScheduleCache(std::filesystem::path file);

    // Null if it is not kept.
    const KeptSchedule *find(const std::string &key) const;
    void keep(const std::string &key, const KeptSchedule &schedule);

private:
    std::filesystem::path file_;
    std::map<std::string, KeptSchedule> known_;
};

// In the user's cache folder ($XDG_CACHE_HOME, or ~/.cache), for this program as it was built; empty if there is none. `machine` is a fingerprint.
std::filesystem::path default_schedule_cache(const std::string &machine);

}  // namespace atalla
