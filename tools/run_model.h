// The part of `atalla run` that runs a compiled model on .npy files.
#pragma once

namespace atalla {

// Does this command line mean a model: is an argument a .atl file, or a .pt2 file that has to be compiled first?
bool means_model(int argc, char **argv);
// Parses it and runs. Returns the exit status.
int run_model(int argc, char **argv);

}  // namespace atalla
