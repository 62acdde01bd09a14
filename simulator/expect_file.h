// The state after a run as text: the `.expect` files of the conformance vectors, read, written and compared.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include "simulator/machine_state.h"

namespace atalla {

// Rows of the file, in this order: `x N VVVVVVVV`, `m N VVVVVVVV` and `v N` with 32 words, for registers that are not all
// zero bits; `d AAAAAAAA VVVVVVVV` for memory that the run created or changed; `packets N`.
struct ExpectFile {
    std::map<int, uint32_t> x, m;
    std::map<int, std::array<uint32_t, lanes>> v;  // float32 patterns
    ChangedWords d;
    uint64_t packets = 0;

    bool operator==(const ExpectFile &) const = default;
    std::string text() const;
};

// Throws Error "name:line: what is wrong".
ExpectFile read_expect(std::istream &input, const std::string &name);
ExpectFile read_expect(const std::filesystem::path &file);

// The state after a run of `packets` packets.
ExpectFile expect_of(const Registers &state, const ChangedWords &changed, uint64_t packets);

// A sentence for each row that differs, at most `limit` of them; empty if the files are equal.
std::vector<std::string> differences(const ExpectFile &expected, const ExpectFile &actual, size_t limit = 10);

}  // namespace atalla
