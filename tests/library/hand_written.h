// Kernel libraries whose programs are written by hand: small, and without the compiler.
#pragma once

#include <fmt/format.h>

#include <string>

#include "isa/assembler.h"
#include "library/kernel_library.h"

namespace atalla::hand_written {

// Not products: copies the first word of its first tensor to its output, which is enough to see that tensors arrive.
inline LibraryKernel kernel(int64_t m, int64_t n, int64_t k, int64_t cycles, bool bias = false) {
    LibraryKernel one;
    one.op = "gemm";
    one.workload = fmt::format(
        R"({{"addend":false,"alpha":1.0,"b":"nk","beta":1.0,"bias":{},"k":{},"m":{},"n":{},"relu":false,"type":"bf16"}})", bias,
        k, m, n);
    one.point = R"({"rows":4})";
    one.cycles = cycles;
    one.bound_cycles = cycles / 2;
    one.inputs = {{"A", {k, m}}, {"B", {k, n}}};
    if (bias) one.inputs.push_back({"bias", {n}});
    one.outputs = {{"C", {n, m}}};
    const std::string output = bias ? "72" : "68";
    one.program = assemble("addi.s x5, x0, 60\nnop.s\nlw.s x1, 0(x5)\naddi.s x5, x0, " + output +
                           "\nlw.s x2, 0(x5)\nlw.s x3, 0(x1)\nnop.s\nsw.s x3, 0(x2)\nhalt.s\n");
    one.program.symbols.clear();
    for (PlacedPacket &packet : one.program.packets) packet.line = 0;
    one.run = "0123";
    one.recorded = 1700000000000;
    return one;
}

inline KernelLibrary library() {
    KernelLibrary all;
    all.machine = find_machine("ax01");
    all.compiler = "compiler-1";
    all.kernels = {kernel(64, 64, 64, 1000), kernel(32, 32, 32, 300), kernel(32, 32, 128, 900), kernel(32, 32, 64, 600, true)};
    return all;
}

// Copies word by word: eight elements of one input, each its own item, or rows of `columns`.
inline LibraryKernel copy_kernel(const std::string &op, const std::string &shape, int64_t items, int64_t cycles,
                                 const std::string &attributes = "{}") {
    LibraryKernel one = kernel(1, 1, 1, cycles);
    one.op = op;
    one.workload = fmt::format(R"({{"attributes":{},"tensors":[["x",{}]],"type":"bf16"}})", attributes, shape);
    one.inputs = {{"x", {8}}};
    one.outputs = {{"out", {8}}};
    std::string text = "addi.s x5, x0, 60\nnop.s\nlw.s x1, 0(x5)\naddi.s x5, x0, 64\nlw.s x2, 0(x5)\n";
    for (int word = 0; word < 4; word++) text += fmt::format("lw.s x3, {}(x1)\nnop.s\nsw.s x3, {}(x2)\n", 4 * word, 4 * word);
    one.program = assemble(text + "halt.s\n");
    one.program.symbols.clear();
    for (PlacedPacket &packet : one.program.packets) packet.line = 0;
    one.items = items;
    if (items > 0) one.sliced = {true};
    return one;
}

inline KernelLibrary operators() {
    KernelLibrary all = library();
    all.kernels.push_back(copy_kernel("copy", "[2,4]", 8, 100));
    all.kernels.push_back(copy_kernel("rows", "[4,2]", 4, 100));
    all.kernels.push_back(copy_kernel("rows", "[8,1]", 8, 90));
    all.kernels.push_back(copy_kernel("whole", "[8]", 0, 100));
    all.kernels.push_back(copy_kernel("along", "[4,2]", 4, 100, R"({"dim":1})"));
    return parse_library(library_bytes(all));
}

}  // namespace atalla::hand_written
