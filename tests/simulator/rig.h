// A machine whose packets a test executes one after the other, and the numbers tests are made of.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <string>

#include "isa/assembler.h"
#include "isa/machine.h"
#include "simulator/semantics.h"
#include "tests/isa/test_paths.h"

namespace atalla {

inline Machine shipped(const std::string &name) { return load_machine(source_path("machines/" + name + ".json")); }

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr uint32_t positive_nan = 0x7FC00000, negative_nan = 0xFFC00000;

using Lanes = std::array<uint32_t, lanes>;  // float32 patterns

// One rig for each model: TYPED_TEST_SUITE(Suite, Models) runs a test on both.
template <MachineModel rig_model>
class Rig {
public:
    static constexpr MachineModel model = rig_model;
    static constexpr bool hardware = model == MachineModel::Hardware;

    explicit Rig(const std::string &machine = hardware ? "ax01" : "fsim") : state(shipped(machine)) {}

    // Executes the packets of a text in order of address, wherever they branch to. Returns what the last one decided.
    PacketOutcome run(const std::string &text) {
        PacketOutcome outcome;
        for (const PlacedPacket &packet : assemble(text).packets) {
            outcome = execute_packet<model>(state, decode_packet(packet));
        }
        return outcome;
    }

    // The refusal of the text, or an empty one.
    Refusal refusal(const std::string &text) {
        try {
            run(text);
        } catch (const Refusal &refusal) {
            return refusal;
        }
        return {};
    }

    // x3 = x1 op x2.
    uint32_t scalar(const std::string &mnemonic, uint32_t a, uint32_t b) {
        state.x[1] = a;
        state.x[2] = b;
        run(mnemonic + " x3, x1, x2");
        return state.x[3];
    }
    // x3 = x1 op immediate.
    uint32_t immediate(const std::string &mnemonic, uint32_t a, int value) {
        state.x[1] = a;
        run(mnemonic + " x3, x1, " + std::to_string(value));
        return state.x[3];
    }
    float scalar_float(const std::string &mnemonic, float a, float b = 0) {
        return bits_float(scalar(mnemonic, float_bits(a), float_bits(b)));
    }

    void fill(int vector, float value) { std::fill_n(state.v[vector], lanes, value); }
    void fill_bits(int vector, uint32_t bits) { fill(vector, bits_float(bits)); }
    void set(int vector, const std::function<float(int)> &value) {
        for (int lane = 0; lane < lanes; lane++) {
            state.v[vector][lane] = value(lane);
        }
    }
    Lanes bits(int vector) const {
        Lanes words;
        for (int lane = 0; lane < lanes; lane++) {
            words[lane] = float_bits(state.v[vector][lane]);
        }
        return words;
    }
    uint32_t lane(int vector, int number) const { return float_bits(state.v[vector][number]); }
    float value(int vector, int number) const { return state.v[vector][number]; }

    MachineState state;
};

using HardwareRig = Rig<MachineModel::Hardware>;
using FunctionalRig = Rig<MachineModel::Functional>;
using Models = testing::Types<HardwareRig, FunctionalRig>;

// Readable test names.
struct ModelNames {
    template <class R>
    static std::string GetName(int) {
        return R::hardware ? "Hardware" : "Functional";
    }
};

template <class R>
class OnBothModels : public testing::Test {};

inline Lanes all(uint32_t bits) {
    Lanes words;
    words.fill(bits);
    return words;
}
inline Lanes all(float value) { return all(float_bits(value)); }

}  // namespace atalla
