// The kernel IR: machine operations on virtual registers inside a tree of counted loops, with pad accesses and copies still
// symbolic. Every pass of the code generator reads and writes this form.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <Halide.h>

#include "codegen/choices.h"
#include "isa/instruction.h"
#include "isa/machine.h"
#include "isa/program.h"

namespace atalla::codegen {

// A virtual register: an index into Kernel::registers, or none.
struct Reg {
    int32_t id = -1;
    bool defined() const { return id >= 0; }
    bool operator==(const Reg &) const = default;
    auto operator<=>(const Reg &) const = default;
};

struct RegInfo {
    RegisterClass cls = RegisterClass::Scalar;
    std::string name;
    std::optional<int32_t> constant;  // a scalar that holds this value from the start of the kernel on
    int8_t bank = -1;                 // wanted bank, -1: any
    int16_t physical = -1;            // assigned register number, -1: not yet
};

// The virtual registers of the hard-wired ones; the first three of every kernel.
constexpr Reg zero_scalar{0}, zero_vector{1}, all_lanes{2};

inline int64_t floor_mod(int64_t a, int64_t b) { return ((a % b) + b) % b; }
inline int64_t floor_div(int64_t a, int64_t b) { return (a - floor_mod(a, b)) / b; }

// An index of a lowered access: constant + sum of coefficient * atom. An atom is a loop variable or a non-linear
// expression of loop variables (`no % 2`, `min(no*32, 38)`), interned in Kernel::atoms.
struct LinearForm {
    int64_t constant = 0;
    std::map<int, int64_t> terms;  // atom -> coefficient, none of them 0

    bool is_constant() const { return terms.empty(); }
    LinearForm &operator+=(const LinearForm &other);
    LinearForm scaled(int64_t factor) const;
    // Exact division; false if a term or the constant does not divide.
    bool divide(int64_t divisor);
    bool operator==(const LinearForm &) const = default;
    auto operator<=>(const LinearForm &) const = default;
};

struct Atom {
    Halide::Expr expr;                      // over variables that are loop names
    std::string text;                       // canonical print, the interning key
    int loop = -1;                          // the innermost loop it depends on
    bool is_loop = false;                   // expr is that loop's variable itself
    std::optional<LinearForm> capped = {};  // of min(capped, 0)
};

// A Halide allocation in the pads: rows of 32 elements. Blocks of `block` neighbouring rows go round `interleave` pads.
struct Allocation {
    std::string name;
    int64_t rows = 0;
    int interleave = 1;
    int64_t block = 1;
    std::vector<int> pads;
    int64_t base_row = -1;  // first row in each of its pads
    // Rows next to it in each of its pads that hold nothing and that no transfer touches.
    int64_t guard_front = 0, guard_behind = 0;
    // Of a ring whose accesses stay in one slot each: rows of a slot, and such rows in each pad between the slots.
    int64_t slot_rows = 0, slot_gap = 0;
    std::vector<bool> moved;  // rows that copies touch, of a slot where slots are known; empty: no copy does
    bool zeros = false;       // a row of zeros in each pad, stored once at the start: loads of it are constants

    // Which pad a row is in, and which row of the allocation's part of that pad it is.
    int pad_of(int64_t row) const { return pads[static_cast<size_t>(floor_mod(floor_div(row, block), interleave))]; }
    int64_t row_in_pad(int64_t row) const {
        return floor_div(row, block * interleave) * block + floor_mod(row, block) +
               (slot_gap > 0 ? floor_div(row, slot_rows) * slot_gap : 0);
    }
    // How many rows of a pad a step of rows is, if it stays in one pad: whole rounds, or a step inside a block. A step of whole
    // slots is one from slot to slot.
    std::optional<int64_t> step_in_pad(int64_t step) const {
        if (slot_gap > 0 && step % slot_rows == 0) return step / interleave + step / slot_rows * slot_gap;
        if (step % (block * interleave) == 0) return step / interleave;
        if (interleave == 1 || std::abs(step) < block) return step;
        return std::nullopt;
    }
    int64_t rows_per_pad() const {
        return (rows + block * interleave - 1) / (block * interleave) * block +
               (slot_gap > 0 ? rows / slot_rows - 1 : 0) * slot_gap;
    }
};

// A tensor in DRAM: its address comes from the parameter block.
struct Tensor {
    std::string name;
    std::vector<int64_t> extents;  // innermost first
    bool output = false;
    Reg base;  // holds the byte address
};

// A row of an allocation that a vreg.* touches.
struct PadAccess {
    int allocation = -1;
    LinearForm row;
    Reg slot;  // byte address of the ring slot, where that is a register
    // By an iteration of the nest before the one whose code it runs with: what is free now may be its slot.
    bool earlier = false;
    // In straight code, of iterations of one loop whose rows are at different steps: which one it belongs to.
    int iteration = 0;
    int turn = -1;  // in a rotation: the iterations since its slot was filled; slots of different turns are never the same
    bool operator==(const PadAccess &) const = default;
};

struct Op {
    Opcode opcode = Opcode::nop_s;
    Reg dst;                   // result; for scpad.* the base register it keeps busy
    std::array<Reg, 3> src{};  // in the order the instruction names them; stores: rs1, rs2, stored register
    Reg mask;                  // lane operations; none means all lanes
    bool keeps_dst = false;    // masked: lanes that are off keep the old dst, so dst is also an input
    int32_t imm = 0;
    uint8_t aux = 0;
    std::optional<PadAccess> access;  // vreg.* before addresses are lowered, and for dependences afterwards
    int32_t pad = -1;                 // vreg.*, scpad.*: the pad, once placed
    int32_t source = -1;              // index into Kernel::sources
    bool early = false;               // a transfer that should start soon, to be out of the way of later ones
    bool ahead = false;  // a transfer for another ring slot than the one this iteration computes on; a wait: a late one
    // dst = value + src[0] + src[1] (those that are defined), before addresses are lowered. Atoms of `value` read loop
    // variables from `loop_values` where it has them.
    std::optional<LinearForm> value;
    std::map<int, Reg> loop_values;
    // Waits (or.s x0, ...) and fences: the allocation whose accesses may not move across.
    int32_t orders = -1;
    bool holds = false;  // a wait for transfers of another allocation than the one that it orders
    bool fence = false;  // the stores before it must have landed
    // A branch out of line: these run when src[0] is not zero, and the code goes on behind the branch's packet. They touch
    // registers that nothing else in the block does.
    std::shared_ptr<std::vector<Op>> side;
    bool every = false;  // such a branch: also of the iterations that begin in front of its loop
};

// Part of a copy with constant strides: `cols` contiguous elements (at most 32) for every point of the dimensions.
struct Box {
    struct Dim {
        int64_t extent = 1, row_stride = 0, mem_stride = 0;  // rows of the allocation; elements of the tensor
    };
    int64_t row = 0, mem = 0;  // relative to the copy's base forms
    int cols = 0;
    std::vector<Dim> dims;
};

// One DMA tile: rows x cols elements. Offsets are relative to the copy's base forms.
struct Tile {
    int pad = 0;
    int64_t row = 0;  // row inside the pad, relative to the allocation's base row
    int64_t mem = 0;  // element offset in the tensor
    int rows = 0, cols = 0;
    int64_t pitch = 0;  // elements between rows in memory
    bool operator==(const Tile &) const = default;
};

// A copy between a tensor and an allocation.
struct Copy {
    bool load = true;  // DRAM -> pads
    int tensor = -1, allocation = -1;
    LinearForm pad_row, mem;  // what depends on enclosing loops (rows; elements)
    std::vector<Box> boxes;   // from the matcher
    std::vector<Tile> tiles;  // once placed, in issue order
    int first_of = -1;        // it runs in the first iteration of this enclosing loop only; -1: always
    bool any_order = false;   // tiles all come before anything uses them, or leave behind all that makes them
    bool scratch = false;     // what it moves lies where a result will be: all other transfers come behind it or in front
    int32_t source = -1;
};

struct Node;
using Body = std::vector<Node>;

struct Loop {
    int id = -1;
    int64_t extent = 0;  // iterations, at least 1; the most where their number varies
    int64_t begin = 0;   // first value of the variable (after peeling)
    std::string name;    // Halide's loop name
    Body body;
    bool fill = false;      // stores constants before all else, to every slot of a ring
    bool in_nest = false;   // is another loop around it, as LoopInfo::parent says?
    bool in_pairs = false;  // with code out of line at most two iterations overlap
};

// Body runs when `condition` is not zero.
struct If {
    Reg condition;
    Body body;
    bool rare = false;  // seldom, so that its code is to be short
};

struct Node {
    std::optional<Op> op;
    std::unique_ptr<Loop> loop;
    std::unique_ptr<Copy> copy;
    std::unique_ptr<If> branch;

    Node() = default;
    Node(Op o) : op(std::move(o)) {}
    Node(Loop l) : loop(std::make_unique<Loop>(std::move(l))) {}
    Node(Copy c) : copy(std::make_unique<Copy>(std::move(c))) {}
    Node(If i) : branch(std::make_unique<If>(std::move(i))) {}
};

struct LoopInfo {
    std::string name;
    int64_t extent = 0;  // iterations, the most where their number varies
    int parent = -1;     // enclosing loop, -1: none
    Reg index;           // holds the variable while the loop runs (0 .. extent-1)
    Reg last = {};       // the last value of the variable, where it varies from turn to turn of the loops around; else none
    int64_t least = 0;   // iterations that are sure, where their number varies and the loop runs at all
    std::optional<LinearForm> last_value = {};  // what `last` holds, in terms of the loops around
    std::set<int> arriving = {};                // allocations of which transfers may bring rows that it does not touch

    bool varies() const { return last.defined(); }
    int64_t sure() const { return varies() ? least : extent; }
};

// Slots of an allocation that change their turns with each iteration of a loop: the registers that hold where they begin in the
// pads, the one that is filled now first.
struct Rotation {
    int allocation = -1;
    int64_t rows = 0;  // of a slot
    std::vector<Reg> slots;
};

// The calling convention of a kernel that runs among others: it is entered with the address of its parameter words in x2.
// Behind the tensors' addresses are the address of the code that comes next and that of its parameter words, with which the
// routine jumps there. It may change all registers.
constexpr int routine_next = 1, routine_parameters = 2;
struct Routine {
    Reg next, parameters;
};

struct Kernel {
    const Machine *machine = nullptr;
    std::vector<RegInfo> registers;
    std::vector<Atom> atoms;
    std::vector<LoopInfo> loops;
    std::vector<Allocation> allocations;
    std::vector<Tensor> tensors;
    std::vector<SourceLocation> sources;
    std::vector<Rotation> rotations;
    int32_t parameter_block = 0x3C;  // byte address of the words that hold the tensors' addresses
    std::optional<Routine> routine;  // none: a program of its own, from address 0 to halt
    Choices choices;
    mutable Choices open;  // those that were asked for: CompiledKernel::open
    Body body;

    Kernel();
    // Is the other way to be taken? Asked only where that makes a difference.
    bool takes(Choice choice) const {
        open.add(choice);
        return choices.contains(choice);
    }
    Reg new_register(RegisterClass cls, std::string name);
    Reg scalar(std::string name) { return new_register(RegisterClass::Scalar, std::move(name)); }
    // A new register of the same class, name and wanted bank.
    Reg register_like(Reg r);
    Reg vector(std::string name) { return new_register(RegisterClass::Vector, std::move(name)); }
    // The register that holds an integer constant (shared; 0 is the hard-wired one). Copies of one constant are for reading it
    // in another register bank.
    Reg constant(int32_t value, int copy = 0);
    // The same, and never the hard-wired one, which a transfer cannot keep busy.
    Reg constant_register(int32_t value, int copy);
    // Makes this kernel a routine.
    void make_routine();
    RegisterClass cls(Reg r) const { return registers[r.id].cls; }
    // Whether there is a register of this class besides the hard-wired ones.
    bool has_any(RegisterClass cls) const;
    // A mask register of the kernel's own: not the hard-wired one of all lanes.
    bool is_mask(Reg r) const { return r.defined() && r.id > all_lanes.id && cls(r) == RegisterClass::Mask; }

private:
    std::map<std::pair<int32_t, int>, Reg> constants_;
};

// Other registers for those of an operation: what it makes, its mask and what it reads.
using Renaming = std::map<int32_t, Reg>;
void rename(Op &op, const Renaming &names);

// Text of a kernel, for --dump-after and the golden tests.
std::string to_string(const Kernel &kernel);
std::string to_string(const Kernel &kernel, const Op &op);
std::string to_string(const Kernel &kernel, const LinearForm &form);

}  // namespace atalla::codegen
