#include "isa/write_file.h"

#include <fmt/format.h>

#include <fstream>

#include "isa/error.h"

namespace atalla {

void write_file(const std::filesystem::path &file, const std::function<void(std::ostream &)> &write) {
    const std::filesystem::path unfinished = file.string() + ".part";
    std::ofstream out(unfinished, std::ios::binary);
    if (!out) throw Error(fmt::format("cannot write '{}': check that its folder exists and can be written", file.string()));
    try {
        write(out);
        out.close();
        if (!out) throw Error(fmt::format("writing '{}' failed: is the disk full?", file.string()));
        std::error_code failure;
        std::filesystem::rename(unfinished, file, failure);
        if (failure) throw Error(fmt::format("cannot write '{}': {}", file.string(), failure.message()));
    } catch (...) {
        std::error_code ignored;
        std::filesystem::remove(unfinished, ignored);
        throw;
    }
}

}  // namespace atalla
