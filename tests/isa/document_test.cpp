#include "isa/isa_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/assembler.h"
#include "isa/instruction.h"
#include "tests/isa/test_paths.h"

namespace atalla {
namespace {

using testing::HasSubstr;

TEST(IsaDocument, IsTheFileInDocs) {
    EXPECT_EQ(read_text(source_path("docs/isa.md")), isa_document())
        << "docs/isa.md is out of date: write it anew with atalla-disasm --table -o docs/isa.md";
}

TEST(IsaDocument, ListsEveryInstruction) {
    const std::string text = isa_document();
    for (const InstructionInfo &row : instruction_table()) {
        EXPECT_THAT(text, HasSubstr("| `" + std::string(row.mnemonic)));
    }
    EXPECT_THAT(text, HasSubstr("| 2A | `sw.s rd, imm12(rs1)` | M | EX5 | rd, rs1 |  | "));
    EXPECT_THAT(text, HasSubstr("| 46 | `scpad.ld rs1, rs2, rs3` | SDMA | SDMA | rs1, rs2, rs3 | rs1 | "));
}

TEST(IsaDocument, ShowsAnExampleThatAssembles) {
    const std::string text = isa_document();
    const size_t begin = text.find("```\n") + 4;
    const Program program = assemble(text.substr(begin, text.find("```", begin) - begin));
    EXPECT_EQ(program.packets.size(), 8u);
    EXPECT_EQ(program.data.size(), 2u);
}

}  // namespace
}  // namespace atalla
