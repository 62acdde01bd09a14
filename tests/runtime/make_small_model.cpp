// Writes the hand-made loadable to a file, for tests of other programs.
#include <fstream>

#include "tests/runtime/small_model.h"

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const std::vector<uint8_t> bytes = atalla::bytes_of(atalla::small_model());
    std::ofstream stream(argv[1], std::ios::binary);
    stream.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return stream.good() ? 0 : 1;
}
