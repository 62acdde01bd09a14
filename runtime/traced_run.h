// One run of a model with a trace of what the accelerator did when.
#pragma once

#include <filesystem>

#include "runtime/context.h"

namespace atalla {

// Context::run(), and a Perfetto trace of all segments, one after the other, in the file; the trace of a long run ends after
// four million slices. Error as from run(), if the file cannot be written, and if the machine has no timing or nothing runs on
// it.
void run_traced(Context &context, const std::filesystem::path &file);

}  // namespace atalla
