#include "db/default_path.h"

#include <cstdlib>

#include "isa/error.h"

namespace atalla {

namespace {

std::string environment(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

}  // namespace

std::filesystem::path default_database_path() {
    if (const std::string file = environment("ATALLA_DB"); !file.empty()) {
        return file;
    }
    const std::filesystem::path below = std::filesystem::path("atalla-tune") / "atalla.db";
    // The XDG base directory specification: a relative path there is to be ignored.
    if (const std::filesystem::path data = environment("XDG_DATA_HOME"); data.is_absolute()) {
        return data / below;
    }
    if (const std::filesystem::path home = environment("HOME"); home.is_absolute()) {
        return home / ".local" / "share" / below;
    }
    throw Error(
        "no place for the tuning database: neither ATALLA_DB nor XDG_DATA_HOME nor HOME is set; name a file "
        "with --db");
}

}  // namespace atalla
