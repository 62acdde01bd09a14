// However many lanes an instruction of the host takes, every bit is the same: each width that this host has against the
// narrowest.
#include <cstring>
#include <random>

#include "simulator/lanes.h"
#include "tests/simulator/rig.h"

namespace atalla {
namespace {

// Patterns with the special ones among them: zeros, denormals, infinities, quiet and signalling NaN.
uint32_t pattern(std::mt19937 &random) {
    constexpr uint32_t special[] = {0,          0x80000000, 0x00010000, 0x807F0000, 0x7F800000,
                                    0xFF800000, 0x7FC00000, 0xFFA10000, 0x7F7F0000, 0x3F800000};
    return random() % 8 == 0 ? special[random() % std::size(special)] : random() & 0xFFFF0000;
}

std::vector<Opcode> vector_opcodes() {
    std::vector<Opcode> opcodes;
    for (const InstructionInfo &row : instruction_table()) {
        const bool on_lanes =
            row.unit == Unit::Alu || row.unit == Unit::Mul || row.unit == Unit::Exp || row.unit == Unit::Reduce;
        if (on_lanes || row.unit == Unit::Array || row.unit == Unit::Vlsu) {
            opcodes.push_back(row.op);
        }
    }
    return opcodes;
}

// Mostly few exponents, so that sums and products do not all overflow.
void fill(MachineState &state, std::mt19937 &random) {
    for (auto &lanes_of : state.v) {
        for (float &lane : lanes_of) {
            const bool moderate = random() % 4 != 0;
            lane = bits_float(moderate ? 0x3C000000 + (random() & 0x83FF0000) : pattern(random));
        }
    }
    std::memset(state.v[0], 0, sizeof state.v[0]);
    for (int index = 1; index < 16; index++) {
        state.m[index] = static_cast<uint32_t>(random());
    }
    for (int index = 1; index < 256; index++) {
        state.x[index] = random() % 2 ? pattern(random) : random() % 4096;
    }
}

template <MachineModel model>
void expect_equal_bits(const char *machine_name) {
    const Machine machine = shipped(machine_name);
    const std::vector<Opcode> opcodes = vector_opcodes();
    ASSERT_EQ(opcodes.size(), 22u);
    for (const int width : {8, 16}) {
        if (width > widest_vectors()) {
            continue;
        }
        std::mt19937 random(static_cast<uint32_t>(width));
        MachineState narrow(machine), wide(machine);
        for (int round = 0; round < 4000; round++) {
            if (round % 100 == 0) {
                fill(narrow, random);
                static_cast<Registers &>(wide) = narrow;
            }
            DecodedPacket packet;
            Instruction &instruction = packet.slot[0];
            packet.count = 1;
            instruction.op = opcodes[random() % opcodes.size()];
            instruction.d = static_cast<uint8_t>(random());
            instruction.a = static_cast<uint8_t>(random());
            instruction.b = static_cast<uint8_t>(random());
            instruction.mask = static_cast<uint8_t>(random() % 2 ? 0 : random() % 16);
            const bool on_masks = info(instruction.op).format == Format::VMV || info(instruction.op).format == Format::VMS;
            instruction.d = static_cast<uint8_t>(on_masks ? instruction.d % 16 : instruction.d);
            instruction.imm = static_cast<int32_t>(random() % (info(instruction.op).unit == Unit::Vlsu ? 32 : 128));
            execute_by<model>(4)(narrow, packet);
            execute_by<model>(width)(wide, packet);
            ASSERT_EQ(std::memcmp(static_cast<Registers *>(&narrow), static_cast<Registers *>(&wide), sizeof(Registers)), 0)
                << info(instruction.op).mnemonic << " by " << width << " lanes";
            alignas(64) float row[lanes], sums[lanes], other[lanes];
            std::copy_n(narrow.v[instruction.a], lanes, row);
            for (float &value : row) {
                value = bf16_round(value);
            }
            row_times_weights_by(4)(row, narrow.weights, sums);
            row_times_weights_by(width)(row, wide.weights, other);
            ASSERT_EQ(std::memcmp(sums, other, sizeof sums), 0) << "rows by " << width << " lanes";
        }
        EXPECT_TRUE(std::ranges::equal(narrow.pad_bytes(), wide.pad_bytes())) << "pads by " << width << " lanes";
    }
}

TEST(HostVectors, GiveTheSameBitsOnHardware) { expect_equal_bits<MachineModel::Hardware>("ax01"); }
TEST(HostVectors, GiveTheSameBitsWithPartialSums) { expect_equal_bits<MachineModel::Hardware>("ax01-psum"); }
TEST(HostVectors, GiveTheSameBitsOnTheFunctionalMachine) { expect_equal_bits<MachineModel::Functional>("fsim"); }

}  // namespace
}  // namespace atalla
