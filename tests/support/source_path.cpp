#include "tests/support/source_path.h"

namespace atalla {

std::filesystem::path source_path(const std::string &name) { return std::filesystem::path(ATALLA_SOURCE_DIR) / name; }

}  // namespace atalla
