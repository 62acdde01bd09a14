// Main program of a fuzz target without libFuzzer: runs it on every file of the folders given, and on every prefix and
// every one-byte change of the small ones.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

using Bytes = std::vector<uint8_t>;

void run(const Bytes &bytes) { LLVMFuzzerTestOneInput(bytes.data(), bytes.size()); }

// Returns the number of inputs tried.
size_t run_with_variants(const Bytes &bytes) {
    constexpr size_t small = 4096;
    constexpr uint8_t replacements[] = {0x00, 0xFF, '\n', '-', '9', '"', ':', '#'};
    run(bytes);
    if (bytes.size() > small) return 1;
    size_t tried = 1;
    for (size_t length = 0; length < bytes.size(); length++, tried++) run({bytes.begin(), bytes.begin() + length});
    for (size_t position = 0; position < bytes.size(); position++) {
        for (const uint8_t replacement : replacements) {
            Bytes changed = bytes;
            changed[position] = replacement;
            run(changed);
            tried++;
        }
    }
    return tried;
}

}  // namespace

int main(int count, char **arguments) {
    size_t files = 0, tried = 0;
    for (int argument = 1; argument < count; argument++) {
        for (const auto &entry : std::filesystem::directory_iterator(arguments[argument])) {
            std::ifstream stream(entry.path(), std::ios::binary);
            const Bytes bytes{std::istreambuf_iterator<char>(stream), {}};
            tried += run_with_variants(bytes);
            files++;
        }
    }
    std::cout << files << " files, " << tried << " inputs\n";
    return files > 0 ? 0 : 1;
}
