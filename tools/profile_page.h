// A profile as one self-contained page: timeline, roofline and stalls.
#pragma once

#include <filesystem>

#include "simulator/profile/profile.h"
#include "simulator/profile/trace.h"
#include "tools/subject.h"

namespace atalla {

// Writes the page; it loads nothing from anywhere. Error if the file cannot be written.
void write_profile_page(const Subject &subject, const Profile &profile, const Recording &recording,
                        const std::filesystem::path &file);

}  // namespace atalla
