// A recording as a Perfetto trace (protobuf), which ui.perfetto.dev and the trace processor open.
#pragma once

#include <filesystem>

#include "isa/program.h"
#include "simulator/profile/trace.h"

namespace atalla {

// A process for the machine with a track for each of Recording::tracks. A cycle is a microsecond of the trace. Slices are
// named by instruction, waits by cause; debug annotations give the packet's address, where it came from, and the row or
// address. Error if the file cannot be written; what was at the path before is then still there.
void write_perfetto(const Recording &recording, const Program &program, const std::string &process,
                    const std::filesystem::path &file);

}  // namespace atalla
