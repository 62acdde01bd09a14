// Writes a file whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

namespace atalla {

// Calls `write` with a stream into a file beside `file`, which takes its place when all of it is written. What was at the
// path before stays if anything fails. Error naming the file if it cannot be written; what `write` throws passes through.
void write_file(const std::filesystem::path &file, const std::function<void(std::ostream &)> &write);

// Where to write what is to become `file`: beside it, so that it takes the place when it is whole, but to a device or pipe
// itself, which has to stay what it is.
std::filesystem::path unfinished_of(const std::filesystem::path &file);
// Removes what was begun there; a device or pipe stays.
void discard_unfinished(const std::filesystem::path &file);

// The error of write_file() before the work whose result is to be written, where it can be known: the folder is not there or
// cannot be written, or the path is a folder. An empty path is none.
void require_writable(const std::filesystem::path &file);

}  // namespace atalla
