// The part of `atalla run` that runs a compiled model on .npy files.
#pragma once

namespace atalla {

// Does this command line mean a model: is its first argument a .atl file?
bool means_model(int argc, char **argv);
// Parses it and runs. Returns the exit status.
int run_model(int argc, char **argv);

}  // namespace atalla
