#include "simulator/simulator.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "isa/error.h"
#include "simulator/expect_file.h"
#include "simulator/functional.h"
#include "simulator/reference/reference.h"
#include "simulator/refusal.h"
#include "simulator/timing/timing.h"

namespace atalla {

const char *stall_name(Stall cause) {
    constexpr const char *names[stall_causes] = {"fetch", "branch", "data", "dma",  "bank",
                                                 "unit",  "array",  "vlsu", "sdma", "drain"};
    return names[static_cast<size_t>(cause)];
}

struct Simulator::Impl {
    explicit Impl(const Machine &described) : machine(described), state(described) {}

    bool is_hardware() const { return machine.model == MachineModel::Hardware; }
    ChangedWords changed() const { return is_hardware() ? state.bytes.changed_words() : state.words.changed_words(); }

    void check_range(uint64_t address, uint64_t bytes) const {
        const uint64_t size = is_hardware() ? state.bytes.size() : uint64_t{1} << 32;
        if (bytes > size || address > size - bytes) {
            throw Error(fmt::format("{} bytes at address 0x{:X} do not fit the data memory of machine '{}', which has {} bytes",
                                    bytes, address, machine.name, size));
        }
    }

    // Writes the words of the functional machine before a run.
    template <class Write>
    void place(Write &&write) {
        try {
            write();
        } catch (const Refusal &refusal) {
            throw Error(fmt::format("machine '{}': {}", machine.name, refusal.sentence));
        }
    }

    void decode() {
        if (is_hardware() && !timed) {
            timed.emplace(machine, program);
        } else if (!is_hardware() && !functional) {
            functional.emplace(program);
        }
    }

    Machine machine;
    MachineState state;
    Program program;
    // The program pre-decoded: the one or the other.
    std::optional<FunctionalProgram> functional;
    std::optional<timing::TimedProgram> timed;
    uint32_t highest_key = 0;  // of the words placed before a run
};

Simulator::Simulator(const Machine &machine) {
    check_machine(machine);
    impl_ = std::make_unique<Impl>(machine);
}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator &&) noexcept = default;
Simulator &Simulator::operator=(Simulator &&) noexcept = default;

namespace {

void check_addresses(const Program &program) {
    for (size_t index = 1; index < program.packets.size(); index++) {
        if (program.packets[index].address <= program.packets[index - 1].address) {
            throw Error(fmt::format("the packet at address 0x{:08X} follows the one at 0x{:08X}: packets must ascend",
                                    program.packets[index].address, program.packets[index - 1].address));
        }
    }
}

}  // namespace

void Simulator::load(const Program &program) {
    check_addresses(program);
    Impl &impl = *impl_;
    if (impl.is_hardware()) {
        for (const auto &[address, word] : program.data) {
            impl.check_range(address, 4);
        }
        // Data words may overlap (isa reference section 6); where they disagree, the aligned one holds.
        for (const bool aligned : {false, true}) {
            for (const auto &[address, word] : program.data) {
                if ((address % 4 == 0) == aligned) {
                    impl.state.bytes.write32(address, word);
                }
            }
        }
    } else {
        impl.place([&] {
            for (const auto &[address, word] : program.data) {
                impl.state.words.write(address, word);
            }
        });
        if (!program.data.empty()) {
            impl.highest_key = std::max(impl.highest_key, program.data.rbegin()->first);
        }
    }
    impl.program = program;
    impl.functional.reset();
    impl.timed.reset();
    impl.decode();
}

void Simulator::clear_memory() {
    impl_->state.bytes.clear();
    impl_->state.words.clear();
    impl_->highest_key = 0;
}

void Simulator::write_memory(uint64_t address, std::span<const uint8_t> bytes) {
    impl_->check_range(address, bytes.size());
    if (bytes.empty()) {
        return;
    }
    if (impl_->is_hardware()) {
        impl_->state.bytes.write(address, bytes);
    } else {
        impl_->place([&] { impl_->state.words.write_bytes(static_cast<uint32_t>(address), bytes); });
        impl_->highest_key = std::max(impl_->highest_key, static_cast<uint32_t>(address + bytes.size() - 1) & ~3u);
    }
}

void Simulator::read_memory(uint64_t address, std::span<uint8_t> bytes) const {
    impl_->check_range(address, bytes.size());
    if (impl_->is_hardware()) {
        impl_->state.bytes.read(address, bytes);
    } else {
        impl_->state.words.read_bytes(static_cast<uint32_t>(address), bytes);
    }
}

bool may_skip_lanes(const Program &program) {
    return std::ranges::none_of(program.packets, [](const PlacedPacket &placed) {
        return std::ranges::any_of(
            placed.packet, [](const Instruction &slot) { return info(slot.op).unit == Unit::MoveToScalar && slot.a != 0; });
    });
}

RunResult Simulator::run(const RunOptions &options) {
    Impl &impl = *impl_;
    if (options.lanes == LaneValues::Skipped && (!impl.is_hardware() || options.model != TimingModel::Fast)) {
        throw Error(
            fmt::format("lanes can be skipped by the fast model of a hardware machine alone, not on '{}'", impl.machine.name));
    }
    impl.state.reset();
    if (options.left_behind != 0) impl.state.leave(options.left_behind);
    impl.decode();
    if (impl.is_hardware()) {
        impl.state.bytes.mark();
        const bool fast = options.model == TimingModel::Fast;
        return fast ? run_timed(impl.machine, impl.program, *impl.timed, impl.state, options)
                    : run_reference(impl.machine, impl.program, impl.state, options);
    }
    preset_registers(impl.state, impl.highest_key);
    impl.state.words.mark();
    return impl.functional->run(impl.state, options);
}

std::string Simulator::dump_state(const RunResult &result) const {
    return expect_of(impl_->state, impl_->changed(), result.counters.packets).text();
}

const MachineState &Simulator::state() const { return impl_->state; }

}  // namespace atalla
