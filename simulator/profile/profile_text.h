// A profile for people and for programs.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "simulator/profile/profile.h"

namespace atalla {

// What bound the run, the roofline, stalls by source, units, and the hottest packets with their assembly.
std::string profile_text(const Profile &profile, const Machine &machine, const Program &program);

// The same under the names of the members.
nlohmann::ordered_json profile_json(const Profile &profile, const Machine &machine, const Program &program);

}  // namespace atalla
