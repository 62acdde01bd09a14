// Compiles the host's kernels to one object file and its header: generate FOLDER.
//
// Tensors are buffers of 8-bit, int64 or float32 elements, innermost dimension first; a dimension that is repeated has stride
// 0. Where elements are only moved they are bytes. Indices are inside their dimension: the caller looks.
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <Halide.h>

namespace {

using namespace Halide;

constexpr int rank = 4;

Target target() {
    const Target host = get_host_target();
    return Target(host.os, host.arch, host.bits, {Target::NoRuntime, Target::NoAsserts, Target::NoBoundsQuery});
}

class Kernels {
public:
    void add(const std::string &name, Func result, const std::vector<Argument> &arguments) {
        for (int d = 0; d < result.dimensions(); d++) result.output_buffer().dim(d).set_min(0);
        modules_.push_back(result.compile_to_module(arguments, "atalla_host_" + name, target()));
    }
    void write(const std::string &folder) const {
        link_modules("atalla_host_kernels", modules_)
            .compile({{OutputFileType::object, folder + "/host_kernels.o"},
                      {OutputFileType::c_header, folder + "/host_kernels_generated.h"}});
    }

private:
    std::vector<Module> modules_;
};

// A tensor of any strides.
ImageParam operand(const Type &type, int dimensions, const std::string &name) {
    ImageParam image(type, dimensions, name);
    image.dim(0).set_stride(Expr());
    return image;
}

std::vector<Var> variables() { return {Var("d0"), Var("d1"), Var("d2"), Var("d3")}; }

void add_elementwise(Kernels &kernels) {
    const std::vector<Var> at = variables();
    const auto truth = [](const Expr &e) { return cast<uint8_t>(select(e, 1, 0)); };
    const auto binary = [&](const std::string &name, const Type &type, const std::function<Expr(Expr, Expr)> &compute) {
        ImageParam a = operand(type, rank, "a"), b = operand(type, rank, "b");
        Func result;
        result(at) = truth(compute(a(at), b(at)));
        kernels.add(name, result, {a, b});
    };
    binary("lt", Int(64), [](Expr a, Expr b) { return a < b; });
    binary("le", Int(64), [](Expr a, Expr b) { return a <= b; });
    binary("gt", Int(64), [](Expr a, Expr b) { return a > b; });
    binary("ge", Int(64), [](Expr a, Expr b) { return a >= b; });
    binary("eq", Int(64), [](Expr a, Expr b) { return a == b; });
    binary("ne", Int(64), [](Expr a, Expr b) { return a != b; });
    binary("and", UInt(8), [](Expr a, Expr b) { return a != 0 && b != 0; });
    binary("or", UInt(8), [](Expr a, Expr b) { return a != 0 || b != 0; });

    const auto unary = [&](const std::string &name, const Type &type, const std::function<Expr(Expr)> &compute) {
        ImageParam x = operand(type, rank, "x");
        Func result;
        result(at) = compute(x(at));
        kernels.add(name, result, {x});
    };
    unary("not", UInt(8), [&](Expr x) { return truth(x == 0); });
    unary("bool_of_int64", Int(64), [&](Expr x) { return truth(x != 0); });
    unary("int64_of_bool", UInt(8), [](Expr x) { return cast<int64_t>(x); });
    unary("float_of_int64", Int(64), [](Expr x) { return cast<float>(x); });
    unary("float_of_bool", UInt(8), [](Expr x) { return cast<float>(x); });

    ImageParam condition = operand(UInt(8), rank, "condition");
    Param<float> on("on"), off("off");
    Func chosen;
    chosen(at) = select(condition(at) != 0, on, off);
    kernels.add("where_number", chosen, {condition, on, off});
}

// Whether any element along the middle dimension is not zero.
void add_any(Kernels &kernels) {
    Var inner("inner"), outer("outer");
    ImageParam x = operand(UInt(8), 3, "x");
    RDom r(0, x.dim(1).extent());
    Func any;
    any(inner, outer) = cast<uint8_t>(0);
    any(inner, outer) = any(inner, outer) | cast<uint8_t>(select(x(inner, r, outer) != 0, 1, 0));
    kernels.add("any", any, {x});
}

Expr inside(const Expr &index, const ImageParam &image, int dimension) {
    return unsafe_promise_clamped(cast<int32_t>(index), 0, image.dim(dimension).extent() - 1);
}

// Bytes of x at two indices, each a tensor: x[first, second] in PyTorch's order of dimensions.
void add_pick(Kernels &kernels) {
    const std::vector<Var> at = variables();
    Var byte("byte");
    ImageParam x = operand(UInt(8), 3, "x"), first = operand(Int(64), rank, "first"), second = operand(Int(64), rank, "second");
    std::vector<Var> all = {byte};
    all.insert(all.end(), at.begin(), at.end());
    x.dim(0).set_stride(1);
    Func result;
    result(all) = x(byte, inside(second(at), x, 1), inside(first(at), x, 2));
    result.vectorize(byte, 16, TailStrategy::GuardWithIf);
    kernels.add("pick", result, {x, first, second});
}

// x, with the rows of another tensor in place of those at the indices, in their order.
void add_put_rows(Kernels &kernels) {
    Var byte("byte"), row("row"), outer("outer");
    ImageParam x(UInt(8), 3, "x"), rows(UInt(8), 3, "rows"), index = operand(Int(64), 1, "index");
    RDom r(0, index.dim(0).extent());
    Func result;
    result(byte, row, outer) = x(byte, row, outer);
    result(byte, inside(index(r), x, 1), outer) = rows(byte, r, outer);
    result.vectorize(byte, 16, TailStrategy::GuardWithIf);
    result.update().vectorize(byte, 16, TailStrategy::GuardWithIf);
    kernels.add("put_rows", result, {x, index, rows});
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::cerr << "usage: generate FOLDER\n";
        return 1;
    }
    Kernels kernels;
    add_elementwise(kernels);
    add_any(kernels);
    add_pick(kernels);
    add_put_rows(kernels);
    kernels.write(argv[1]);
    return 0;
}
