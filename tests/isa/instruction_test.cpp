#include "isa/instruction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/assembler.h"
#include "isa/error.h"
#include "tests/isa/random_instruction.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto X = RegisterClass::Scalar;
constexpr auto V = RegisterClass::Vector;
constexpr auto M = RegisterClass::Mask;

// What upstream's assembler gives for these lines.
struct Golden {
    const char *assembly;
    uint64_t slot;
};
constexpr Golden goldens[] = {
    {"add.s $1,$2,$3", 0x0001810081},
    {"addi.s $1,$0,-1", 0x07FF800096},
    {"lw.s $1,4($2)", 0x00020100A9},
    {"lui.s $1,15625", 0x001E8480B0},
    {"li.s $1,-5", 0xFFFFFD80AF},
    {"beq.s $1,$2,40,3", 0x05010081A3},
    {"jal $1,40", 0x00001400AD},
    {"jalr $0,$1,0", 0x000000802E},
    {"add.vv $1,$2,$3,0", 0x00018100B3},
    {"add.vs $1,$2,$3,1", 0x00818100CB},
    {"gemm.vv $1,$2,$3,0", 0x00018100B6},
    {"expi.vi $1,$2,0,1", 0x00800100B7},
    {"lw.vi $1,$2,0,0", 0x00000100B8},
    {"rsum.vi $1,$2,64,1", 0x00A00100B9},
    {"mgt.mvv 2,$4,$5,1", 0x008282013C},
    {"mlt.mvs 2,$4,$5,1", 0x0082820141},
    {"vreg.ld $10,$3,$4,31,1", 0x1F82018544},
    {"scpad.ld $1,$2,$3", 0x00018100C6},
    {"vmov.vts $1,$2,31", 0x000F8100C8},
    {"mv.mts $1,3", 0x00000180C9},
    {"mv.stm 3,$1", 0x00000081CA},
    {"nop.s", 0x0000000031},
};

class GoldenEncoding : public testing::TestWithParam<Golden> {};

TEST_P(GoldenEncoding, MatchesUpstream) {
    const Program program = assemble(GetParam().assembly);
    ASSERT_EQ(program.packets.size(), 1u);
    const Instruction &instruction = program.packets[0].packet[0];
    EXPECT_EQ(encode(instruction), GetParam().slot);
    EXPECT_EQ(decode(GetParam().slot), instruction);
}

INSTANTIATE_TEST_SUITE_P(A40, GoldenEncoding, testing::ValuesIn(goldens));

TEST(Encoding, DecodesTheFieldsOfAGolden) {
    const Instruction branch = decode(0x05010081A3);
    EXPECT_EQ(branch, (Instruction{.op = Opcode::beq_s, .a = 1, .b = 2, .aux = 3, .imm = 40}));
    const Instruction load = decode(0x1F82018544);
    EXPECT_EQ(load, (Instruction{.op = Opcode::vreg_ld, .d = 10, .a = 3, .b = 4, .aux = 1, .imm = 31}));
}

TEST(Encoding, SplitsTheBranchOffset) {
    for (int32_t offset = -2048; offset <= 2044; offset += 4) {
        const Instruction branch{.op = Opcode::bne_s, .a = 255, .b = 255, .aux = 127, .imm = offset};
        EXPECT_EQ(decode(encode(branch)), branch);
    }
    // -4 is ten ones: nine at the top and one in bit 14.
    EXPECT_EQ(encode({.op = Opcode::beq_s, .imm = -4}), 0xFF80000000u | 1u << 14 | 0x23);
}

TEST(Encoding, RoundTripsEveryInstruction) {
    std::mt19937_64 random(1);
    for (const InstructionInfo &row : instruction_table()) {
        for (int repeat = 0; repeat < 200; repeat++) {
            const Instruction instruction = random_instruction(row, random);
            const uint64_t slot = encode(instruction);
            ASSERT_LT(slot, uint64_t{1} << 40);
            ASSERT_EQ(decode(slot), instruction) << row.mnemonic;
            ASSERT_EQ(encode(decode(slot)), slot) << row.mnemonic;
        }
    }
}

TEST(Encoding, UsesDisjointFields) {
    for (const InstructionInfo &row : instruction_table()) {
        uint64_t taken = 0x7F;
        for (const Field &field : fields(row.format)) {
            uint64_t bits = ((uint64_t{1} << field.width) - 1) << field.low;
            if (field.top_bit >= 0) {
                bits |= uint64_t{1} << field.top_bit;
            }
            EXPECT_EQ(taken & bits, 0u) << row.mnemonic << " " << field.name;
            taken |= bits;
        }
        EXPECT_LT(taken, uint64_t{1} << 40) << row.mnemonic;
    }
}

TEST(Encoding, RefusesWhatDoesNotFit) {
    EXPECT_EQ(error_of([] { encode({.op = Opcode::addi_s, .imm = 2048}); }), "imm12 of addi.s is 2048, outside -2048..2047");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::addi_s, .imm = -2049}); }), "imm12 of addi.s is -2049, outside -2048..2047");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::jal, .imm = 1 << 24}); }),
              "imm25 of jal is 16777216, outside -16777216..16777215");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::beq_s, .imm = 42}); }), "offset of beq.s is 42, not a multiple of 4");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::beq_s, .imm = 2048}); }), "offset of beq.s is 2048, outside -2048..2044");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::beq_s, .aux = 128}); }), "incr of beq.s is 128, outside 0..127");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::add_vv, .mask = 16}); }), "mask of add.vv is 16, outside 0..15");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::vreg_ld, .imm = 32}); }), "num_cols of vreg.ld is 32, outside 0..31");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::vreg_st, .aux = 4}); }), "sid of vreg.st is 4, outside 0..3");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::mv_mts, .a = 16}); }), "vms of mv.mts is 16, outside 0..15");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::rsum_vi, .imm = -1}); }), "imm8 of rsum.vi is -1, outside 0..255");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::addi_s, .b = 3}); }), "addi.s has no field b, but it is 3; leave it 0");
    EXPECT_EQ(error_of([] { encode({.op = Opcode::nop_s, .imm = 1}); }), "nop.s has no field imm, but it is 1; leave it 0");
    EXPECT_THAT(error_of([] { encode({.op = static_cast<Opcode>(0x50)}); }), HasSubstr("opcode 0x50 is not defined"));
}

TEST(Encoding, RefusesToDecodeNonsense) {
    EXPECT_THAT(error_of([] { decode(0); }), HasSubstr("slot word 0x0000000000 has the undefined opcode 0x00"));
    for (uint64_t opcode = 0x50; opcode <= 0x7F; opcode++) {
        EXPECT_THROW(decode(opcode), Error);
    }
    EXPECT_THAT(error_of([] { decode(uint64_t{1} << 40); }), HasSubstr("wider than 40 bits"));
}

TEST(Table, ListsEveryOpcodeOnceInOrder) {
    ASSERT_EQ(instruction_table().size(), 79u);
    for (size_t index = 0; index < 79; index++) {
        const InstructionInfo &row = instruction_table()[index];
        EXPECT_EQ(static_cast<size_t>(row.op), index + 1);
        EXPECT_EQ(find_instruction(row.op), &row);
        EXPECT_EQ(find_instruction(row.mnemonic), &row);
        EXPECT_EQ(&info(row.op), &row);
    }
    EXPECT_EQ(find_instruction(static_cast<Opcode>(0)), nullptr);
    EXPECT_EQ(find_instruction(static_cast<Opcode>(0x50)), nullptr);
    EXPECT_EQ(find_instruction(static_cast<Opcode>(0xFF)), nullptr);
    EXPECT_EQ(find_instruction("add"), nullptr);
}

TEST(Table, ClassifiesOperations) {
    EXPECT_TRUE(is_branch(Opcode::beq_s));
    EXPECT_TRUE(is_branch(Opcode::ble_s));
    EXPECT_FALSE(is_branch(Opcode::lw_s));
    EXPECT_FALSE(is_branch(Opcode::jal));
    EXPECT_TRUE(is_control(Opcode::jalr));
    EXPECT_FALSE(is_control(Opcode::halt_s));
    EXPECT_TRUE(is_lane_operation(Opcode::rsum_vi));
    EXPECT_TRUE(is_lane_operation(Opcode::mgt_mvs));
    EXPECT_FALSE(is_lane_operation(Opcode::lw_vi));
    EXPECT_FALSE(is_lane_operation(Opcode::gemm_vv));
    EXPECT_EQ(info(Opcode::slt_s).unit, Unit::Ex1);
    EXPECT_EQ(info(Opcode::slt_bf).unit, Unit::Ex3);
    EXPECT_EQ(info(Opcode::mv_stm).unit, Unit::Ex2);
    EXPECT_EQ(info(Opcode::li_s).unit, Unit::Ex1);
    EXPECT_EQ(info(Opcode::muli_s).unit, Unit::Ex4);
}

struct OperandCase {
    const char *assembly;
    std::vector<Register> reads, writes;
};

class OperandsOf : public testing::TestWithParam<OperandCase> {};

TEST_P(OperandsOf, FollowTheContract) {
    const Operands found = operands(assemble(GetParam().assembly).packets[0].packet[0], false);
    EXPECT_EQ(std::vector<Register>(found.reads().begin(), found.reads().end()), GetParam().reads);
    EXPECT_EQ(std::vector<Register>(found.writes().begin(), found.writes().end()), GetParam().writes);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, OperandsOf,
    testing::Values(
        OperandCase{"add.s x1, x2, x3", {{X, 2}, {X, 3}}, {{X, 1}}}, OperandCase{"rcp.bf x1, x2, x3", {{X, 2}}, {{X, 1}}},
        OperandCase{"sqrt.bf x1, x2", {{X, 2}}, {{X, 1}}}, OperandCase{"stbf.s x1, x2", {{X, 2}}, {{X, 1}}},
        OperandCase{"bfts.s x1, x2", {{X, 2}}, {{X, 1}}}, OperandCase{"slt.bf x1, x2, x3", {{X, 2}, {X, 3}}, {{X, 1}}},
        OperandCase{"addi.s x1, x1, 4", {{X, 1}}, {{X, 1}}}, OperandCase{"lui.s x1, 4", {}, {{X, 1}}},
        OperandCase{"li.s x1, 4", {}, {{X, 1}}}, OperandCase{"jal x1, 40", {}, {{X, 1}}},
        OperandCase{"jalr x1, x2, 0", {{X, 2}}, {{X, 1}}}, OperandCase{"beq.s x1, x2, 40, 0", {{X, 1}, {X, 2}}, {{X, 1}}},
        OperandCase{"lw.s x1, 4(x2)", {{X, 2}}, {{X, 1}}}, OperandCase{"sw.s x1, 4(x2)", {{X, 1}, {X, 2}}, {}},
        OperandCase{"lhw.s x1, 4(x2)", {{X, 2}}, {{X, 1}}}, OperandCase{"shw.s x1, 4(x2)", {{X, 1}, {X, 2}}, {}},
        OperandCase{"nop.s", {}, {}}, OperandCase{"halt.s", {}, {}},
        OperandCase{"add.vv v1, v2, v3, m4", {{V, 2}, {V, 3}, {M, 4}}, {{V, 1}}},
        OperandCase{"mul.vs v1, v2, x3, m4", {{V, 2}, {X, 3}, {M, 4}}, {{V, 1}}},
        OperandCase{"expi.vi v1, v2, 0, m4", {{V, 2}, {M, 4}}, {{V, 1}}},
        OperandCase{"lw.vi v1, v2, 0, m4", {{V, 2}, {M, 4}}, {}}, OperandCase{"gemm.vv v1, v2, v3, m4", {{V, 2}}, {{V, 1}}},
        OperandCase{"mgt.mvv m1, v2, v3, m4", {{V, 2}, {V, 3}, {M, 4}}, {{M, 1}}},
        OperandCase{"mgt.mvs m1, v2, x3, m4", {{V, 2}, {X, 3}, {M, 4}}, {{M, 1}}},
        OperandCase{"vreg.ld v1, x2, x3, 31, 0", {{X, 2}, {X, 3}}, {{V, 1}}},
        OperandCase{"vreg.st v1, x2, x3, 31, 0", {{V, 1}, {X, 2}, {X, 3}}, {}},
        OperandCase{"scpad.ld x1, x2, x3", {{X, 1}, {X, 2}, {X, 3}}, {{X, 1}}},
        OperandCase{"scpad.st x1, x2, x3", {{X, 1}, {X, 2}, {X, 3}}, {{X, 1}}},
        OperandCase{"vmov.vts x1, v2, 5", {{V, 2}}, {{X, 1}}}, OperandCase{"mv.mts x1, m2", {{M, 2}}, {{X, 1}}},
        OperandCase{"mv.stm m1, x2", {{X, 2}}, {{M, 1}}}));

TEST(Operands, GemmReadsItsPartialSumOnlyWhereTheMachineHasThem) {
    const Instruction gemm{.op = Opcode::gemm_vv, .d = 1, .a = 2, .b = 3, .mask = 4};
    const Operands with_sum = operands(gemm, true);
    EXPECT_THAT(with_sum.reads(), ElementsAre(Register{V, 2}, Register{V, 3}));
    const Operands without_sum = operands(gemm, false);
    EXPECT_THAT(without_sum.reads(), ElementsAre(Register{V, 2}));
}

TEST(Operands, NamesRegisters) {
    EXPECT_EQ(register_name({X, 5}), "x5");
    EXPECT_EQ(register_name({V, 255}), "v255");
    EXPECT_EQ(register_name({M, 0}), "m0");
}

TEST(NearestName, SuggestsOnlyWhatIsNear) {
    const std::vector<std::string> names = {"vec.ii", "vec.add_L", "pad.count"};
    EXPECT_EQ(nearest_name("vec.add", names), "vec.add_L");
    EXPECT_EQ(nearest_name("pad.cuont", names), "pad.count");
    EXPECT_EQ(nearest_name("zzzzzz", names), "");
    EXPECT_EQ(nearest_name("x", {}), "");
}

}  // namespace
}  // namespace atalla
