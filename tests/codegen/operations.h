// Operations written by hand, for tests of single steps of the code generator.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/blocks.h"
#include "codegen/kernel_ir.h"
#include "isa/machine.h"

namespace atalla::codegen {

struct Fixture {
    explicit Fixture(const std::string &name = "ax01") : machine(find_machine(name)) { kernel.machine = &machine; }

    Reg vector(const std::string &name, int bank = -1) {
        const Reg reg = kernel.vector(name);
        kernel.registers[reg.id].bank = static_cast<int8_t>(bank);
        return reg;
    }
    Reg mask(const std::string &name) { return kernel.new_register(RegisterClass::Mask, name); }
    // The kernel's first loop, whose variable is its first atom: the register that counts.
    Reg counted_loop(int64_t iterations) {
        const Reg index = kernel.scalar("i");
        kernel.loops.push_back({"i", iterations, -1, index});
        Atom i;
        i.loop = 0;
        i.is_loop = true;
        kernel.atoms.push_back(i);
        return index;
    }
    // A loop inside of another, -1: of none. Its index, which is that of its variable's atom, too.
    int loop_variable(const std::string &name, int64_t extent, int parent) {
        const int id = static_cast<int>(kernel.loops.size());
        kernel.loops.push_back({name, extent, parent, kernel.scalar(name)});
        kernel.atoms.push_back({Halide::Internal::Variable::make(Halide::Int(32), name), name, id, true, {}});
        return id;
    }
    // Such a loop around operations.
    Loop loop(int id, std::vector<Op> ops) {
        Loop made;
        made.id = id;
        made.extent = kernel.loops[static_cast<size_t>(id)].extent;
        made.name = "f." + kernel.loops[static_cast<size_t>(id)].name;
        for (Op &one : ops) made.body.push_back(std::move(one));
        return made;
    }
    // An access at its row + the terms, whose atoms are the loops.
    static Op at(Op access, std::map<int, int64_t> terms) {
        access.access->row.terms = std::move(terms);
        return access;
    }
    // A buffer of so many rows in pad 0, by its index.
    int allocation(const std::string &name, int64_t rows) {
        Allocation buffer;
        buffer.name = name;
        buffer.rows = rows;
        buffer.pads = {0};
        buffer.base_row = 0;
        for (const Allocation &other : kernel.allocations) buffer.base_row += other.rows;
        kernel.allocations.push_back(buffer);
        return static_cast<int>(kernel.allocations.size()) - 1;
    }

    static Op op(Opcode opcode, Reg dst, std::initializer_list<Reg> sources) {
        Op made;
        made.opcode = opcode;
        made.dst = dst;
        size_t i = 0;
        for (Reg source : sources) made.src[i++] = source;
        return made;
    }
    // In the lanes of a mask; the others keep what dst holds.
    static Op masked(Opcode opcode, Reg dst, std::initializer_list<Reg> sources, Reg mask) {
        Op made = op(opcode, dst, sources);
        made.mask = mask;
        made.keeps_dst = true;
        return made;
    }
    // What aims and starts a load into a pad, for an iteration that comes later.
    std::vector<Op> transfer(int pad) {
        const Reg base = kernel.scalar("base");
        Op step = op(Opcode::addi_s, base, {base}),
           start = op(Opcode::scpad_ld, base, {base, kernel.scalar("memory"), kernel.scalar("control")});
        start.pad = pad;
        start.orders = 0;
        start.ahead = true;
        return {step, start};
    }
    Op load(Reg dst, int buffer, int64_t row) { return access(Opcode::vreg_ld, dst, buffer, row); }
    Op store(Reg value, int buffer, int64_t row) {
        Op made = access(Opcode::vreg_st, {}, buffer, row);
        made.src[2] = value;
        return made;
    }

    Machine machine;
    Kernel kernel;

private:
    Op access(Opcode opcode, Reg dst, int buffer, int64_t row) {
        Op made;
        made.opcode = opcode;
        made.dst = dst;
        made.src[0] = kernel.constant(static_cast<int32_t>(kernel.allocations[buffer].base_row * machine.pad.row_bytes));
        made.src[1] = kernel.constant(static_cast<int32_t>(row));
        made.pad = 0;
        made.access = PadAccess{buffer, {row, {}}, {}, false};
        return made;
    }
};

}  // namespace atalla::codegen
