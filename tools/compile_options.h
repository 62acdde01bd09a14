// What ModelOptions say to the compiler.
#pragma once

#include <filesystem>
#include <optional>

#include "db/default_path.h"
#include "model/compile_model.h"
#include "tools/model_options.h"

namespace atalla {

inline CompileModelOptions compile_options(const ModelOptions &given) {
    CompileModelOptions options;
    options.sizes = given.sizes;
    options.fuse = !given.no_fuse;
    options.placement = {given.on_host, given.registered, given.high_precision};
    return options;
}

// The database that was named, which has to be there if it is not to be written, or the user's if there is one.
inline std::optional<Database> open_database(const ModelOptions &given, bool write) {
    const std::filesystem::path file = given.database.empty() ? default_database_path() : given.database;
    if (!write && given.database.empty() && !std::filesystem::exists(file)) return std::nullopt;
    return std::optional<Database>(std::in_place, file, write ? Database::Access::ReadWrite : Database::Access::ReadOnly);
}

}  // namespace atalla
