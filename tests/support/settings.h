// What a test program is told by its environment, so that one program serves several entries of ctest:
// ATALLA_TEST_MACHINE=fsim ATALLA_TEST_ROUNDS=40 ATALLA_TEST_SEED=2 build/release/bin/test_rows.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace atalla {

inline std::string test_machine() {
    const char *machine = std::getenv("ATALLA_TEST_MACHINE");
    return machine != nullptr ? machine : "ax01";
}

// How often a test repeats what it draws at random.
inline int test_rounds(int otherwise) {
    const char *rounds = std::getenv("ATALLA_TEST_ROUNDS");
    return rounds != nullptr ? std::stoi(rounds) : otherwise;
}

// Another number draws other shapes, schedules and values.
inline uint64_t test_seed() {
    const char *seed = std::getenv("ATALLA_TEST_SEED");
    return seed != nullptr ? std::stoull(seed) : 0;
}

}  // namespace atalla
