#include "tools/user_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

void load_user_library(const std::filesystem::path &file) {
    // A bare name would be looked up in the system's folders.
    void *library = dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw Error(fmt::format("{}: cannot be loaded: {}", file.string(), dlerror()));
    auto *function = reinterpret_cast<void (*)()>(dlsym(library, "atalla_register"));
    if (!function)
        throw Error(
            fmt::format("{}: has no function atalla_register; define extern \"C\" void atalla_register()", file.string()));
    function();
}

}  // namespace atalla
