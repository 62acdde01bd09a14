// Fuzz target of the readers of points and of database exports: what is accepted is written and read back unchanged.
#include "db/export.h"

#include <string>
#include <string_view>

#include "isa/error.h"
#include "tests/fuzz/fuzz.h"

using namespace atalla;

namespace {

std::string rewritten(std::string_view line) {
    return std::visit([](const auto &row) { return export_line(row); }, parse_line(line));
}

void try_line(std::string_view line) {
    try {
        const std::string once = rewritten(line);
        require(rewritten(once) == once, "a line of an export is the same after reading and writing");
    } catch (const Error &) {
    }
    try {
        const Point point = Point::parse(line);
        require(Point::parse(point.text()) == point, "a point is the same after writing and reading");
    } catch (const Error &) {
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(bytes), size);
    for (size_t start = 0; start < size;) {
        const size_t end = std::min(text.find('\n', start), size);
        try_line(text.substr(start, end - start));
        start = end + 1;
    }
    return 0;
}
