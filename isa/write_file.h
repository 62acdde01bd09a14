// Writes a file whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

namespace atalla {

// Calls `write` with a stream into a file beside `file`, which takes its place when all of it is written. What was at the
// path before stays if anything fails. Error naming the file if it cannot be written; what `write` throws passes through.
void write_file(const std::filesystem::path &file, const std::function<void(std::ostream &)> &write);

// The error of write_file() before the work whose result is to be written, where it can be known: the folder is not there or cannot
// be written, or the path is a folder. An empty path is none.
void require_writable(const std::filesystem::path &file);

}  // namespace atalla
