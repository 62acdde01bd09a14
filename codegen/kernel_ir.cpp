#include "codegen/kernel_ir.h"

#include <algorithm>

#include <fmt/format.h>

namespace atalla::codegen {

LinearForm &LinearForm::operator+=(const LinearForm &other) {
    constant += other.constant;
    for (auto [atom, coefficient] : other.terms) {
        int64_t &c = terms[atom];
        c += coefficient;
        if (c == 0) terms.erase(atom);
    }
    return *this;
}

LinearForm LinearForm::scaled(int64_t factor) const {
    LinearForm result;
    if (factor == 0) return result;
    result.constant = constant * factor;
    for (auto [atom, coefficient] : terms) result.terms[atom] = coefficient * factor;
    return result;
}

bool LinearForm::divide(int64_t divisor) {
    if (constant % divisor != 0) return false;
    for (auto [atom, coefficient] : terms)
        if (coefficient % divisor != 0) return false;
    constant /= divisor;
    for (auto &[atom, coefficient] : terms) coefficient /= divisor;
    return true;
}

Kernel::Kernel() {
    registers = {{RegisterClass::Scalar, "x0", 0, -1, 0},
                 {RegisterClass::Vector, "v0", {}, -1, 0},
                 {RegisterClass::Mask, "m0", {}, -1, 0}};
}

Reg Kernel::new_register(RegisterClass cls, std::string name) {
    registers.push_back({cls, std::move(name), {}, -1, -1});
    return Reg{static_cast<int32_t>(registers.size()) - 1};
}

Reg Kernel::register_like(Reg r) {
    const RegInfo info = registers[r.id];
    const Reg other = new_register(info.cls, info.name);
    registers[other.id].bank = info.bank;
    return other;
}

Reg Kernel::constant(int32_t value, int copy) { return value == 0 ? zero_scalar : constant_register(value, copy); }

Reg Kernel::constant_register(int32_t value, int copy) {
    auto [it, inserted] = constants_.try_emplace({value, copy});
    if (inserted) {
        it->second = scalar(fmt::format("c{}", value));
        registers[it->second.id].constant = value;
    }
    return it->second;
}

bool Kernel::has_any(RegisterClass cls) const {
    return std::any_of(registers.begin() + all_lanes.id + 1, registers.end(),
                       [cls](const RegInfo &info) { return info.cls == cls; });
}

void Kernel::make_routine() {
    const auto fixed = [&](const char *name, int number) {
        const Reg r = scalar(name);
        registers[r.id].physical = static_cast<int16_t>(number);
        registers[r.id].bank = static_cast<int8_t>(number % machine->regs.scalar_banks);
        return r;
    };
    routine = Routine{fixed("next", routine_next), fixed("parameters", routine_parameters)};
}

namespace {

std::string register_text(const Kernel &kernel, Reg r) {
    if (!r.defined()) return "-";
    const RegInfo &info = kernel.registers[r.id];
    if (r.id <= all_lanes.id) return info.name;
    if (info.physical >= 0) {
        const char prefix = info.cls == RegisterClass::Scalar ? 'x' : info.cls == RegisterClass::Vector ? 'v' : 'm';
        return fmt::format("{}.{}={}{}", info.name, r.id, prefix, info.physical);
    }
    return fmt::format("{}.{}", info.name, r.id);
}

void print(const Kernel &kernel, const Body &body, int indent, std::string &out) {
    const std::string pad(indent * 2, ' ');
    for (const Node &node : body) {
        if (node.op) {
            out += pad + to_string(kernel, *node.op) + "\n";
        } else if (node.loop) {
            const Loop &loop = *node.loop;
            out += fmt::format("{}for {} in [{}, {})\n", pad, loop.name, loop.begin, loop.begin + loop.extent);
            print(kernel, loop.body, indent + 1, out);
        } else if (node.branch) {
            out += fmt::format("{}if {}\n", pad, register_text(kernel, node.branch->condition));
            print(kernel, node.branch->body, indent + 1, out);
        } else if (node.copy) {
            const Copy &copy = *node.copy;
            out += fmt::format("{}{} {}[{}] {} {}[{}]", pad, copy.load ? "load" : "store",
                               kernel.allocations[copy.allocation].name, to_string(kernel, copy.pad_row),
                               copy.load ? "<-" : "->", kernel.tensors[copy.tensor].name, to_string(kernel, copy.mem));
            for (const Box &box : copy.boxes) {
                out += fmt::format("; row {} mem {}: {} elements", box.row, box.mem, box.cols);
                for (const Box::Dim &d : box.dims)
                    out += fmt::format(" x {} (row +{}, mem +{})", d.extent, d.row_stride, d.mem_stride);
            }
            if (!copy.tiles.empty()) out += fmt::format("; {} tiles", copy.tiles.size());
            out += "\n";
        }
    }
}

}  // namespace

void rename(Op &op, const Renaming &names) {
    const auto other = [&](Reg &r) {
        if (const auto found = names.find(r.id); found != names.end()) r = found->second;
    };
    other(op.dst);
    other(op.mask);
    for (Reg &r : op.src) other(r);
}

std::string to_string(const Kernel &kernel, const LinearForm &form) {
    std::string text = fmt::format("{}", form.constant);
    for (auto [atom, coefficient] : form.terms) text += fmt::format(" + {}*{}", coefficient, kernel.atoms[atom].text);
    return text;
}

std::string to_string(const Kernel &kernel, const Op &op) {
    std::string text = std::string(info(op.opcode).mnemonic);
    if (op.dst.defined()) {
        text += ' ';
        text += register_text(kernel, op.dst);
    }
    for (Reg r : op.src)
        if (r.defined()) text += ", " + register_text(kernel, r);
    if (op.mask.defined()) text += " mask " + register_text(kernel, op.mask);
    if (op.imm != 0) text += fmt::format(" imm {}", op.imm);
    if (op.access)
        text += fmt::format(" {}[{}]", kernel.allocations[op.access->allocation].name, to_string(kernel, op.access->row));
    if (op.value) text += " = " + to_string(kernel, *op.value);
    if (op.fence) text += " fence";
    if (op.side)
        for (const Op &inner : *op.side) text += "\n      | " + to_string(kernel, inner);
    if (op.pad >= 0) text += fmt::format(" pad {}", op.pad);
    if (op.ahead) text += " ahead";
    return text;
}

std::string to_string(const Kernel &kernel) {
    std::string out;
    for (const Allocation &a : kernel.allocations) {
        out += fmt::format("pads {}: {} rows", a.name, a.rows);
        if (a.base_row >= 0) {
            out += fmt::format(", from row {} of pad", a.base_row);
            for (int pad : a.pads) out += fmt::format(" {}", pad);
        }
        out += "\n";
    }
    print(kernel, kernel.body, 0, out);
    return out;
}

}  // namespace atalla::codegen
