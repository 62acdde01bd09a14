// Fuzz target of the machine-file reader: what it accepts has passed check_machine and can be fingerprinted.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "isa/error.h"
#include "isa/machine.h"
#include "tests/fuzz/fuzz.h"

using namespace atalla;

namespace {

// A file in memory that has a path, since a machine is loaded from a path.
class MemoryFile {
public:
    MemoryFile(const uint8_t *bytes, size_t size) : descriptor_(memfd_create("machine", 0)) {
        require(descriptor_ >= 0, "a file in memory can be made");
        require(write(descriptor_, bytes, size) == static_cast<ssize_t>(size), "a file in memory can be written");
    }
    ~MemoryFile() { close(descriptor_); }
    MemoryFile(const MemoryFile &) = delete;
    MemoryFile &operator=(const MemoryFile &) = delete;

    std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
    int descriptor_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const MemoryFile file(bytes, size);
    try {
        const Machine machine = load_machine(file.path());
        check_machine(machine);
        require(machine.fingerprint().size() == 16, "a fingerprint has 16 digits");
        require(!machine_parameters(file.path()).empty(), "an accepted file has parameters");
    } catch (const Error &) {
    }
    return 0;
}
