// Fuzz target of the `.expect` reader: an accepted state is written and read back unchanged.
#include "simulator/expect_file.h"

#include <sstream>

#include "isa/error.h"
#include "tests/fuzz/fuzz.h"

using namespace atalla;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    std::istringstream input(std::string(reinterpret_cast<const char *>(bytes), size));
    try {
        const ExpectFile state = read_expect(input, "input");
        std::istringstream written(state.text());
        require(read_expect(written, "written") == state, "the state is the same after writing and reading");
    } catch (const Error &) {
    }
    return 0;
}
