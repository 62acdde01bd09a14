// However many lanes an instruction of the host takes, every bit is the same: each width that this host has against the
// narrowest.
#include <cstring>
#include <functional>
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
            for (const auto &[by, state] : {std::pair(4, &narrow), std::pair(width, &wide)}) {
                packet_code<model>(by).execute(*state, packet);
                packet_code<model>(by).finish_rows(*state);
            }
            ASSERT_EQ(std::memcmp(static_cast<Registers *>(&narrow), static_cast<Registers *>(&wide), sizeof(Registers)), 0)
                << info(instruction.op).mnemonic << " by " << width << " lanes";
        }
        EXPECT_TRUE(std::ranges::equal(narrow.pad_bytes(), wide.pad_bytes())) << "pads by " << width << " lanes";
    }
}

TEST(HostVectors, GiveTheSameBitsOnHardware) { expect_equal_bits<MachineModel::Hardware>("ax01"); }
TEST(HostVectors, GiveTheSameBitsWithPartialSums) { expect_equal_bits<MachineModel::Hardware>("ax01-psum"); }
TEST(HostVectors, GiveTheSameBitsOnTheFunctionalMachine) { expect_equal_bits<MachineModel::Functional>("fsim"); }

// Values that the array may multiply with a fused addition, some at the ends of their range, and some beyond.
float array_value(std::mt19937 &random, bool moderate) {
    const uint32_t sign = random() << 31, significand = random() & 0x7F0000;
    switch (random() % 8) {
        case 0:
            return bits_float(sign);
        case 1:
            return bits_float(sign | least_moderate | significand);
        case 2:
            return bits_float(sign | (most_moderate & 0x7F800000) | significand);
        case 3:
            return moderate ? 1.0f : bits_float(sign | (least_moderate - 0x800000 + significand));
        case 4:
            return moderate ? -1.0f : bits_float(sign | (most_moderate + 0x10000));
        case 5:
            return moderate ? 0.5f : bits_float(pattern(random));
        default:
            return bits_float(0x3C000000 + (random() & 0x83FF0000));
    }
}

TEST(HostVectors, SumsOfRowsTogetherAreThoseOfEachAlone) {
    std::mt19937 random(1);
    int fused = 0;
    for (int round = 0; round < 2000; round++) {
        const bool moderate = round % 2 == 0;
        WeightBuffer weights;
        for (int column = 0; column < 32 + round % 32; column++) {
            alignas(64) float values[lanes];
            std::ranges::generate(values, [&] { return array_value(random, moderate); });
            weights.shift_in(values);
        }
        EXPECT_TRUE(!moderate || weights.extreme == 0);
        fused += weights.extreme == 0;
        constexpr int most = WaitingRows::capacity;
        alignas(64) float rows[most][lanes], alone[most][lanes], together[most][lanes];
        for (int row = 0; row < most; row++) {
            std::ranges::generate(rows[row], [&] { return array_value(random, moderate || row % 2 == 0); });
            rows_times_weights_by(4)(rows + row, 1, weights, alone + row);
        }
        for (int width = 4; width <= widest_vectors(); width *= 2) {
            const int count = 1 + static_cast<int>(random() % most);
            rows_times_weights_by(width)(rows, count, weights, together);
            ASSERT_EQ(std::memcmp(alone, together, static_cast<size_t>(count) * sizeof alone[0]), 0)
                << count << " rows by " << width << " lanes, " << (moderate ? "moderate" : "any") << " values";
        }
    }
    EXPECT_GE(fused, 1000);
}

// Operation by operation, with infinities and NaN of several payloads among few weights and elements of each row, so that sums
// meet them at different depths.
TEST(HostVectors, NanOfTheArrayFollowsTheRules) {
    std::mt19937 random(2);
    const auto value = [&] { return random() % 16 == 0 ? bits_float(pattern(random)) : array_value(random, true); };
    int nan = 0, numbers = 0;
    for (int round = 0; round < 500; round++) {
        WeightBuffer weights;
        for (int column = 0; column < lanes; column++) {
            alignas(64) float values[lanes];
            std::ranges::generate(values, value);
            weights.shift_in(values);
        }
        alignas(64) float row[1][lanes], expected[1][lanes], found[1][lanes];
        std::ranges::generate(row[0], value);
        for (int column = 0; column < lanes; column++) {
            float sum = 0;
            for (int k = 0; k < lanes; k++) {
                const float product = with_nan_rules(row[0][k], weights.depth[k][column], std::multiplies<float>());
                sum = with_nan_rules(sum, product, std::plus<float>());
            }
            expected[0][column] = bf16_round(sum);
            (is_nan_bits(float_bits(sum)) ? nan : numbers)++;
        }
        ASSERT_EQ(weights.first, 0u) << "so that columns are in the order of the ring";
        for (int width = 4; width <= widest_vectors(); width *= 2) {
            rows_times_weights_by(width)(row, 1, weights, found);
            ASSERT_EQ(std::memcmp(expected, found, sizeof found), 0) << "round " << round << " by " << width << " lanes";
        }
    }
    EXPECT_GT(nan, 1000);
    EXPECT_GT(numbers, 1000);
}

// At both ends of the range, with all significands; what is in between is further from both limits.
TEST(HostVectors, ProductsOfModerateValuesAreExact) {
    constexpr uint32_t least_exponent = least_moderate >> 23, most_exponent = most_moderate >> 23;
    for (const uint32_t exponent : {least_exponent, most_exponent}) {
        for (uint32_t one = 0; one < 128; one++) {
            for (uint32_t other = 0; other < 128; other++) {
                const uint32_t a = exponent << 23 | one << 16, b = exponent << 23 | other << 16;
                ASSERT_TRUE(is_moderate(a) && is_moderate(b | 0x80000000));
                ASSERT_EQ(double{bits_float(a) * bits_float(b)}, double{bits_float(a)} * double{bits_float(b)});
            }
        }
    }
    EXPECT_TRUE(is_moderate(0) && is_moderate(0x80000000));
    for (const uint32_t bits : {least_moderate - 0x10000, most_moderate + 0x10000, 0x00010000u, 0x7F800000u, 0x7FC00000u}) {
        EXPECT_FALSE(is_moderate(bits) || is_moderate(bits | 0x80000000)) << bits;
    }
}

}  // namespace
}  // namespace atalla
