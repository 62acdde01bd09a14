#include "isa/isa_document.h"

#include <fmt/format.h>

#include <iterator>

#include "isa/fields.h"
#include "isa/instruction.h"

namespace atalla {

namespace {

constexpr std::string_view introduction = R"(# The A40 instruction set

Printed by `atalla-disasm --table` from the tables in `isa/`. Encoder, decoder, assembler, disassembler and packet
checker work from the same tables, so this page is what they do.

A packet is four slots of 40 bits, 20 bytes in memory. Slot 0 is the most significant. The opcode is bits 6:0 of a
slot; bits that no field covers are 0. Slots that do nothing hold `nop.s`.

There are 256 scalar registers `x` of 32 bits, 256 vector registers `v` of 32 lanes and 16 mask registers `m` of 32
bits, one a lane. `x0` and `v0` read as zero and `m0` as all ones; writing them has no effect.
)";

constexpr std::string_view formats_heading = R"(
## Formats

| format | fields, in the order of assembly text |
| --- | --- |
)";

constexpr std::string_view instructions_heading = R"(
## Instructions

*Reads* and *writes* are what the scoreboard and the packet contract count. In *reads*, `vs2` of `gemm.vv` counts only
on a machine with `sa.psum_in`; the old destination of a masked operation does not count. A branch writes `rs1`
whatever its increment. `scpad.*` keeps `rs1` busy until the transfer ends.

| opcode | assembly | format | unit | reads | writes | effect |
| --- | --- | --- | --- | --- | --- | --- |
)";

constexpr std::string_view contract = R"(
## What a packet may hold

Checked by `check_packet`, with the limits that the machine file gives in `issue.*`; those of `ax01` are shown.

| resource | in one packet |
| --- | --- |
| EX1, EX2, EX3, EX4, EX5 | 1 operation each; EX1 takes integer operations, branches and jumps alike |
| lane units ALU, MUL, EXP, reduction | 1 operation each, 2 together |
| array (`gemm.vv`, `lw.vi`) | 1 |
| move to scalar (`vmov.vts`, `mv.mts`) | 1 |
| `vreg.ld`, `vreg.st` | 1 a pad |
| `scpad.ld`, `scpad.st` | 1 a pad; the pad is in bits 31:30 of `rs3` |
| register read ports | 4 scalar, 4 vector, 2 mask; an operand counts each time it is named, `x0`, `v0` and `m0` too |

All operands of a packet are read before any is written, so no slot may read or write a register that an earlier slot
of the packet writes; `x0`, `v0` and `m0` are free of this rule. Any slot may hold any instruction.
)";

constexpr std::string_view assembly = R"(
## Assembly text

```
# Doubles ten integers at 0x1000.
main:   addi.s x1, x0, 0              # one operation on a line is a packet of its own
        addi.s x4, x0, 9
        lui.s x2, 32
loop:   lw.s x3, 0(x2)
        muli.s x3, x3, 2
        {                             # operations in braces share a packet, the first in slot 0;
            sw.s x3, 0(x2)            # on one line they are separated by ;
            addi.s x2, x2, 4
        }
        blt.s x1, x4, loop, 1         # branch while x1 < x4; x1 += 1 either way
        halt.s

.data

00001000: 00000001
00001004: 00000002
```

- A statement a line; `#` starts a comment; labels `name:` stand before a statement or alone. A name with other
  characters than letters, digits, `_`, `.` and `$` is written in quotes. Labels that begin with `.L` are local: they
  do not become symbols.
- Registers are `x5`, `v5`, `m5`; `$5` and `$x5` mean the register of the class that the operand needs, and a mask may
  be a plain number. Mnemonics may be spelled with underscores (`add_vv`) and without a final `.s`.
- Numbers are decimal, `0x` or `0b`, with an optional sign. A number that does not fit its field is an error. `lui.s`
  takes its 25 bits as a signed or an unsigned number.
- `num_cols` is the number of columns less one, `lane` counts from 0.
- Loads, stores and `jalr` take `imm(rs1)` or `rs1, imm`. `rcp.bf`, `sqrt.bf`, `bfts.s` and `stbf.s` may leave out `rs2`.
- The target of a branch or `jal` is a label or a byte offset from its own packet. A branch with an offset needs its
  increment; with a label it may be left out.
- Writing `m0` is an error unless the directive `.writable_m0` stands before it.
- `.org ADDRESS` places the next packet, `.equ NAME, ADDRESS` defines a symbol, `.data` (or `data mem`) begins the
  initial data words, in the form that `.in` files have. Other directives are ignored.

Three forms expand to several packets, so they cannot stand in braces:

| written | becomes |
| --- | --- |
| `li.s rd, imm` with more than 25 bits | `lui.s rd` and, if the low 7 bits are not 0, `addi.s rd` |
| `scpad.* rs1, rs2, cols-1, rows-1, sid` | the control word of a contiguous tile in `x254`, then the operation |
| `vreg.* vd, rs1, cols-1, rows-1, sid, rc, row` | the row number in `x253` unless `row` is a register, then the operation; `rows-1` and `rc` have no effect |

## `.in` files

Lines `address: value` in hexadecimal; `#` starts a comment. Before `.data` a value is a packet, four words of ten
digits, slot 0 first; after it a 32-bit data word. Blanks and `_` within a value are ignored, leading zeros and `0x`
are free, and a repeated address replaces the earlier line. Execution starts at address 0.

Data words are written for every even address, each holding the four bytes from there on in little-endian order, and
left out where they are 0: a bf16 element is then both the low half of the word at its own address and a half of the
aligned word.
)";

template <typename... Arguments>
void append(std::string &text, fmt::format_string<Arguments...> format, Arguments &&...arguments) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Arguments>(arguments)...);
}

// "rd [14:7]", "imm12 [34:23] signed".
std::string field_text(const Field &field) {
    std::string text = fmt::format("{} [{}:{}]", field.name, field.low + field.width - 1, field.low);
    if (field.top_bit >= 0) {
        append(text, " with top bit [{}]", field.top_bit);
    }
    if (field.scale > 0) {
        append(text, " in units of {} bytes", 1 << field.scale);
    }
    if (!field.is_register()) {
        append(text, " {}..{}", field.minimum(), field.maximum());
    }
    return text;
}

void append_formats(std::string &text) {
    for (int index = 0; index < static_cast<int>(Format::None); index++) {
        const auto format = static_cast<Format>(index);
        append(text, "| {} |", format_name(format));
        std::string_view separator = " ";
        for (const Field &field : fields(format)) {
            append(text, "{}{}", separator, field_text(field));
            separator = ", ";
        }
        text += " |\n";
    }
}

std::string syntax(const InstructionInfo &row) {
    std::string text(row.mnemonic);
    std::string_view separator = " ";
    for (const Field &field : fields(row.format)) {
        if (row.format == Format::M && field.member == Member::A) {
            continue;
        }
        append(text, "{}{}", separator, field.name);
        separator = ", ";
    }
    return row.format == Format::M ? text + "(rs1)" : text;
}

std::string accessed(const InstructionInfo &row, Access wanted) {
    std::string text;
    for (const Field &field : fields(row.format)) {
        const Access how = field.is_register() ? access(row, field, true) : Access::None;
        if (how == wanted || how == Access::ReadWrite) {
            append(text, "{}{}", text.empty() ? "" : ", ", field.name);
        }
    }
    return text;
}

}  // namespace

std::string isa_document() {
    std::string text(introduction);
    text += formats_heading;
    append_formats(text);
    text += instructions_heading;
    for (const InstructionInfo &row : instruction_table()) {
        append(text, "| {:02X} | `{}` | {} | {} | {} | {} | {} |\n", static_cast<int>(row.op), syntax(row),
               format_name(row.format), unit_name(row.unit), accessed(row, Access::Read), accessed(row, Access::Write),
               row.effect);
    }
    text += contract;
    text += assembly;
    return text;
}

}  // namespace atalla
