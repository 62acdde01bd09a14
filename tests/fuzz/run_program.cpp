// Fuzz target of the simulator: any bytes are a program for a small machine. Both timing models do the same with it, it ends
// within its limits, and what it leaves behind survives being written and read.
#include <memory>
#include <sstream>

#include "isa/error.h"
#include "isa/in_file.h"
#include "simulator/expect_file.h"
#include "simulator/reference/agreement.h"
#include "tests/fuzz/fuzz.h"

using namespace atalla;

namespace {

constexpr RunOptions options{.step_limit = 300};

Machine small_machine(const char *name) {
    Machine machine = find_machine(name);
    machine.memory.bytes = 1 << 20;
    if (machine.timed()) machine.pad.bytes = 1 << 12;
    return machine;
}

void run_on(const Machine &machine, const Program &program) {
    Simulator simulator(machine);
    simulator.load(program);
    const RunResult result = simulator.run(options);
    require(result.ok == result.error.empty(), "a run that is not ok says why");
    require(result.counters.packets <= options.step_limit, "the step limit holds");
    const std::string state = simulator.dump_state(result);
    std::istringstream written(state);
    require(read_expect(written, "state").text() == state, "a state is the same after writing and reading");
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const Machine hardware = small_machine("ax01-psum"), functional = small_machine("fsim");
    Program program;
    for (size_t at = 0; at + packet_bytes <= size && program.packets.size() < 200; at += packet_bytes) {
        Packet packet{};
        for (size_t slot = 0; slot < packet.size(); slot++) {
            uint64_t word = 0;
            for (size_t byte = 0; byte < 5; byte++) word |= uint64_t{bytes[at + 5 * slot + byte]} << (8 * byte);
            try {
                packet[slot] = decode(word);
            } catch (const Error &) {
                packet[slot] = {};  // an undefined opcode becomes a nop, so that more of the input runs
            }
        }
        program.append(packet);
    }
    if (program.packets.empty()) return 0;
    require(disagreement(hardware, program, options).empty(), "the two timing models agree");
    run_on(hardware, program);
    run_on(functional, program);
    return 0;
}
