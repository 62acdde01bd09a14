// Where tests and benchmarks find files of the source tree. Only source_path.cpp is compiled with the tree's place, so
// that the objects of all others are the same in every checkout and the compiler cache serves them.
#pragma once

#include <filesystem>
#include <string>

namespace atalla {

// `name`, relative to the root of the source tree, as an absolute path.
std::filesystem::path source_path(const std::string &name);

}  // namespace atalla
