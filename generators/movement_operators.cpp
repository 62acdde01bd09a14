// The data movement operators of the registry, each as the boxes that its result is made of.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "generators/movement.h"
#include "generators/pointwise.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

using Request = const WorkloadRequest &;

OperatorCard card(std::string algorithm) {
    OperatorCard card;
    card.family = "data movement";
    card.algorithm = std::move(algorithm) + ", by DMA through the pads";
    card.space = "rows at a time, pads that a buffer goes round";
    card.bound = "DRAM: what is read at least once, and the result";
    card.reference = "the same elements moved on the host";
    card.supports = "bf16 of any shape";
    card.fuses = "nothing: who reads strided tensors reads them in place";
    return card;
}

std::unique_ptr<Workload> strided(Request request, const Shape &result, int64_t from, const Shape &from_strides) {
    return movement_workload(request, result, {moved_box(0, result, from, from_strides, 0, row_major_strides(result))});
}

std::unique_ptr<Workload> permute(Request request, std::vector<int64_t> dims) {
    const Shape &shape = request.shape("x");
    if (dims.size() != shape.size())
        throw Error(fmt::format("{}: {} dimensions are given for a tensor of {}", request.op, dims.size(), shape.size()));
    const Shape strides = row_major_strides(shape);
    Shape result, from;
    std::vector<bool> seen(shape.size());
    for (int64_t dim : dims) {
        const auto at = static_cast<size_t>(wrap_dim(request.op, dim, static_cast<int64_t>(shape.size())));
        if (seen[at]) throw Error(fmt::format("{}: dimension {} is repeated", request.op, dim));
        seen[at] = true;
        result.push_back(shape[at]);
        from.push_back(strides[at]);
    }
    return strided(request, result, 0, from);
}

std::unique_ptr<Workload> transpose(Request request) {
    const auto rank = static_cast<int64_t>(request.shape("x").size());
    std::vector<int64_t> dims(static_cast<size_t>(rank));
    std::iota(dims.begin(), dims.end(), 0);
    std::swap(dims.at(static_cast<size_t>(wrap_dim(request.op, request.integer("dim0"), rank))),
              dims.at(static_cast<size_t>(wrap_dim(request.op, request.integer("dim1"), rank))));
    return permute(request, dims);
}

// PyTorch's rule: bounds count from the end where negative, and are cut to the tensor.
std::unique_ptr<Workload> slice(Request request) {
    Shape shape = request.shape("x");
    const auto dim = static_cast<size_t>(wrap_dim(request.op, request.integer("dim"), static_cast<int64_t>(shape.size())));
    if (shape.empty()) throw Error(fmt::format("{}: a tensor without dimensions cannot be sliced", request.op));
    const int64_t size = shape[dim], step = request.integer("step");
    if (step < 1) throw Error(fmt::format("{}: step must be greater than zero, not {}", request.op, step));
    const auto bound = [&](const char *name, int64_t otherwise) {
        const int64_t given = request.given(name) ? request.integer(name) : otherwise;
        return std::clamp<int64_t>(given < 0 ? given + size : given, 0, size);
    };
    const int64_t start = bound("start", 0), end = std::max(start, bound("end", size));
    Shape strides = row_major_strides(shape);
    const int64_t from = start * strides[dim];
    strides[dim] *= step;
    shape[dim] = (end - start + step - 1) / step;
    return strided(request, shape, from, strides);
}

std::unique_ptr<Workload> select(Request request) {
    Shape shape = request.shape("x"), strides = row_major_strides(shape);
    const int64_t rank = static_cast<int64_t>(shape.size());
    if (rank == 0) throw Error(fmt::format("{}: a tensor without dimensions has nothing to select from", request.op));
    const auto dim = static_cast<size_t>(wrap_dim(request.op, request.integer("dim"), rank));
    const int64_t size = shape[dim], index = request.integer("index");
    if (index < -size || index >= size)
        throw Error(fmt::format("{}: index {} is out of range for dimension {} with size {}", request.op, index, dim, size));
    const int64_t from = (index < 0 ? index + size : index) * strides[dim];
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(dim));
    strides.erase(strides.begin() + static_cast<ptrdiff_t>(dim));
    return strided(request, shape, from, strides);
}

std::unique_ptr<Workload> expand(Request request) {
    const Shape shape = request.shape("x"), strides = row_major_strides(shape);
    Shape result = request.integers("size"), from(result.size(), 0);
    if (result.size() < shape.size())
        throw Error(fmt::format("{}: the number of sizes ({}) must not be less than the tensor's dimensions ({})", request.op,
                                result.size(), shape.size()));
    for (size_t back = 1; back <= result.size(); back++) {
        int64_t &size = result[result.size() - back];
        const int64_t own = back <= shape.size() ? shape[shape.size() - back] : 1;
        if (size == -1 && back <= shape.size()) size = own;
        if (size < 0 || (own != 1 && own != size))
            throw Error(fmt::format("{}: the size {} must match the tensor's size {} at dimension {} from the end", request.op,
                                    size, own, back));
        if (own != 1) from[result.size() - back] = strides[shape.size() - back];
    }
    // Neighbours that are copies of one element are made by the lanes.
    const bool copies = !result.empty() && from.back() == 0 && result.back() > 1 && element_count(result) > 0;
    if (copies) return broadcast_workload(request, result);
    return strided(request, result, 0, from);
}

std::unique_ptr<Workload> cat(Request request) {
    const std::vector<Shape> shapes = request.shapes("x");
    Shape result = shapes.front();
    const auto dim = static_cast<size_t>(wrap_dim(request.op, request.integer("dim"), static_cast<int64_t>(result.size())));
    if (result.empty()) throw Error(fmt::format("{}: tensors without dimensions cannot be concatenated", request.op));
    result[dim] = 0;
    for (const Shape &shape : shapes) {
        Shape other = shape;
        if (other.size() == result.size()) other[dim] = result[dim];
        if (other != result)
            throw Error(fmt::format("{}: sizes must match except in dimension {}, but there are {} and {}", request.op, dim,
                                    shape_text(shapes.front()), shape_text(shape)));
        result[dim] += shape[dim];
    }
    std::vector<MovedBox> boxes;
    const Shape to = row_major_strides(result);
    int64_t at = 0;
    for (size_t i = 0; i < shapes.size(); i++) {
        boxes.push_back(moved_box(static_cast<int>(i), shapes[i], 0, row_major_strides(shapes[i]), at * to[dim], to));
        at += shapes[i][dim];
    }
    return movement_workload(request, result, std::move(boxes));
}

std::unique_ptr<Workload> stack(Request request) {
    const std::vector<Shape> shapes = request.shapes("x");
    const auto dim =
        static_cast<size_t>(wrap_dim(request.op, request.integer("dim"), static_cast<int64_t>(shapes.front().size()) + 1));
    Shape result = shapes.front();
    result.insert(result.begin() + static_cast<ptrdiff_t>(dim), static_cast<int64_t>(shapes.size()));
    Shape to = row_major_strides(result);
    const int64_t step = to[dim];
    to.erase(to.begin() + static_cast<ptrdiff_t>(dim));
    std::vector<MovedBox> boxes;
    for (size_t i = 0; i < shapes.size(); i++) {
        if (shapes[i] != shapes.front())
            throw Error(fmt::format("{}: each tensor must have the same size, but there are {} and {}", request.op,
                                    shape_text(shapes.front()), shape_text(shapes[i])));
        boxes.push_back(
            moved_box(static_cast<int>(i), shapes[i], 0, row_major_strides(shapes[i]), static_cast<int64_t>(i) * step, to));
    }
    return movement_workload(request, result, std::move(boxes));
}

// Pads: pairs before and after, the last dimension first. Negative ones cut.
std::unique_ptr<Workload> pad(Request request) {
    const Shape shape = request.shape("x"), strides = row_major_strides(shape);
    const std::vector<int64_t> pads = request.integers("pad");
    if (request.word("mode") != "constant")
        throw Error(fmt::format("{}: only mode constant is supported, not {}", request.op, request.word("mode")));
    if (pads.size() % 2 != 0 || pads.size() > 2 * shape.size())
        throw Error(fmt::format("{}: the pads must be pairs, at most {} for a tensor of {} dimensions, not {} numbers",
                                request.op, shape.size(), shape.size(), pads.size()));
    Shape result = shape, inside = shape, first(shape.size(), 0);
    int64_t from = 0;
    for (size_t p = 0; p < pads.size(); p += 2) {
        const size_t d = shape.size() - 1 - p / 2;
        result[d] += pads[p] + pads[p + 1];
        if (result[d] < 0)
            throw Error(fmt::format("{}: dimension {} of size {} would become {}", request.op, d, shape[d], result[d]));
        from += std::max<int64_t>(0, -pads[p]) * strides[d];
        first[d] = std::max<int64_t>(0, pads[p]);
        inside[d] = shape[d] + std::min<int64_t>(0, pads[p]) + std::min<int64_t>(0, pads[p + 1]);
    }
    const double value = request.given("value") ? request.number("value") : 0;
    if (element_count(inside) == 0) return constant_workload(request, result, value);
    const Shape to = row_major_strides(result);
    int64_t at = 0, last = 0;  // the first element of the inside, and how far the last one is behind it
    for (size_t d = 0; d < shape.size(); d++) at += first[d] * to[d];
    std::vector<MovedBox> boxes = {moved_box(0, inside, from, strides, at, to)};
    const auto constant = [&](int64_t begin, int64_t count, const Shape &times) {
        Shape box = times, box_to(to.begin(), to.begin() + static_cast<ptrdiff_t>(times.size()));
        box.push_back(count);
        box_to.push_back(1);
        boxes.push_back(moved_box(-1, box, 0, Shape(box.size(), 0), begin, box_to));
        boxes.back().constant = value;
    };
    // What lies in a row of memory between two parts of the inside is one run: those of each dimension are equally long. As
    // much as lies between rows leaves with the row in front of it, where that ends inside a vector with room for it.
    const size_t rank = shape.size();
    int64_t end = at + 1;
    for (size_t d = 0; d < rank; d++) end += (inside[d] - 1) * to[d];
    const int64_t run = inside.back(), between_rows = rank > 1 && inside[rank - 2] > 1 ? to[rank - 2] - run : 0;
    if (run > 1 && run % lanes != 0 && run % lanes + between_rows <= lanes && end + between_rows <= element_count(result)) {
        boxes[0].behind = between_rows;
        boxes[0].constant = value;
    }
    const int64_t behind = boxes[0].behind;
    for (size_t d = rank; d-- > 0;) {
        Shape times(inside.begin(), inside.begin() + static_cast<ptrdiff_t>(d) + 1);
        const int64_t own = last > 0 ? behind : 0, between = to[d] - last - 1 - own;
        if (--times[d] > 0 && between > 0) constant(at + last + 1 + own, between, times);
        last += (inside[d] - 1) * to[d];
    }
    end += behind;
    if (at > 0) constant(0, at, {});
    if (end < element_count(result)) constant(end, element_count(result) - end, {});
    return movement_workload(request, result, std::move(boxes));
}

std::unique_ptr<Workload> roll(Request request) {
    const Shape shape = request.shape("x");
    Shape own = shape;
    std::vector<int64_t> shifts = request.integers("shifts"), dims = request.integers("dims");
    if (dims.empty()) {
        if (shifts.size() != 1)
            throw Error(fmt::format("{}: without dims there must be one shift, not {}", request.op, shifts.size()));
        own = {element_count(shape)};
        dims = {0};
    }
    if (dims.size() != shifts.size())
        throw Error(
            fmt::format("{}: shifts and dims must be equally many, not {} and {}", request.op, shifts.size(), dims.size()));
    const Shape strides = row_major_strides(own);
    std::vector<MovedBox> boxes = {moved_box(0, own, 0, strides, 0, strides)};
    for (size_t i = 0; i < dims.size(); i++) {
        const auto d = static_cast<size_t>(wrap_dim(request.op, dims[i], static_cast<int64_t>(own.size())));
        const int64_t size = own[d];
        if (size == 0) continue;
        const int64_t shift = ((shifts[i] % size) + size) % size;
        std::vector<MovedBox> cut;
        for (MovedBox box : boxes) {
            // Positions 0 .. size-shift-1 go up by shift, the others to the start. A dimension is cut once.
            if (box.dims[d].extent != size && shift != 0)
                throw Error(fmt::format("{}: a dimension is given twice", request.op));
            MovedBox low = box, high = box;
            low.dims[d].extent = size - shift;
            low.to += shift * strides[d];
            high.dims[d].extent = shift;
            high.from += (size - shift) * strides[d];
            cut.push_back(low);
            if (shift > 0) cut.push_back(high);
        }
        boxes = std::move(cut);
    }
    return movement_workload(request, shape, std::move(boxes));
}

}  // namespace

std::vector<OperatorDeclaration> movement_operators() {
    const std::vector<DeclaredTensor> one = {{"x", {"self", "input"}, "the tensor", true, false}},
                                      several = {{"x", {"tensors"}, "the tensors, one after the other", true, true}};
    const Attribute exact = {"exact",
                             "infinities, NaN and the sign of zeros stay where single elements change their order: one by one, "
                             "instead of blocks of 32 x 32 by the array",
                             false, false};
    // Elements that are not in the result must not reach it.
    const Attribute bits = {"exact",
                            "false: single elements that change their distance may go through the array, rows of 32 at a time, "
                            "which is faster, and loses infinities, NaN and the sign of zeros",
                            true, false};
    const std::string turned =
        "rows of the last dimension in another order; where it does not stay the last, blocks of 32 x 32 elements turned by "
        "the array, where an infinity or NaN "
        "spreads over 32 elements and zeros lose their sign";
    const std::string apart =
        "; where neighbours become single elements or single elements neighbours, one by one, or with exact=false rows of up "
        "to 32 through the array to other lanes, where an infinity "
        "or NaN spreads over the row and zeros lose their sign";
    const auto row = [](std::string name, std::vector<std::string> schemas, std::string help, std::string algorithm,
                        std::vector<DeclaredTensor> tensors, std::vector<Attribute> attributes, WorkloadArguments example,
                        std::function<std::unique_ptr<Workload>(Request)> make) {
        OperatorDeclaration declaration;
        declaration.name = std::move(name);
        declaration.schemas = std::move(schemas);
        declaration.help = std::move(help);
        declaration.card = card(std::move(algorithm));
        declaration.tensors = std::move(tensors);
        declaration.attributes = std::move(attributes);
        declaration.example = std::move(example);
        declaration.make = std::move(make);
        return declaration;
    };
    return {
        row("permute", {"permute"}, "dimensions in another order", turned, one,
            {{"dims", "the input's dimension for each of the result, such as 0,2,1,3", nlohmann::json::array({0, 2, 1, 3}),
              false},
             exact},
            {{"shape", "8x128x12x64"}, {"dims", "0,2,1,3"}},
            [](Request request) { return permute(request, request.integers("dims")); }),
        row("transpose", {"transpose.int"}, "two dimensions exchanged", turned, one,
            {{"dim0", "one dimension", 1, false}, {"dim1", "the other", 2, false}, exact},
            {{"shape", "8x128x12x64"}, {"dim0", "1"}, {"dim1", "2"}}, transpose),
        row("slice", {"slice.Tensor", "narrow"}, "every step-th from start to end of a dimension",
            "a box of the tensor" + apart, one,
            {{"dim", "the dimension", 0, false},
             {"start", "the first", nullptr, false},
             {"end", "behind the last", nullptr, false},
             {"step", "every how manieth", 1, false},
             bits},
            {{"shape", "1024x1024"}, {"dim", "0"}, {"start", "8"}, {"end", "40"}}, slice),
        row("select", {"select.int"}, "one index of a dimension, which goes", "a box of the tensor" + apart, one,
            {{"dim", "the dimension", 0, false}, {"index", "which", 0, false}, bits},
            {{"shape", "8x256x256"}, {"dim", "1"}, {"index", "0"}}, select),
        row("expand", {"expand"}, "dimensions of 1 repeated", "read once, written as often as it repeats", one,
            {{"size", "the result's sizes, -1 for the tensor's own", nlohmann::json::array({8, 256, 256}), false},
             {"implicit", "of no effect", false, false}},
            {{"shape", "1x256x256"}, {"size", "8,256,256"}}, expand),
        row("cat", {"cat"}, "tensors one after the other along a dimension", "a box for each tensor" + apart, several,
            {{"dim", "the dimension", 0, false}, bits}, {{"shape", "128x256,128x256"}, {"dim", "0"}}, cat),
        row("stack", {"stack"}, "tensors one after the other along a new dimension", "a box for each tensor" + apart, several,
            {{"dim", "the new dimension", 0, false}, bits}, {{"shape", "128x256,128x256"}, {"dim", "0"}}, stack),
        row("pad", {"pad", "constant_pad_nd"}, "a constant around the tensor",
            "the tensor, and a box for what lies between its rows, its planes, and so on", one,
            {{"pad", "elements before and after, the last dimension first", nlohmann::json::array({1, 1}), false},
             {"mode", "constant", "constant", false},
             {"value", "the constant, 0 if left out", nullptr, false}},
            {{"shape", "64x62x62"}, {"pad", "1,1,1,1"}}, pad),
        row("roll", {"roll"}, "positions moved round a dimension", "two boxes for each dimension", one,
            {{"shifts", "by how many", nlohmann::json::array({1}), false},
             {"dims", "which dimensions; none: all elements in a row", nlohmann::json::array(), false}},
            {{"shape", "256x256"}, {"shifts", "3"}, {"dims", "0"}}, roll),
    };
}

}  // namespace atalla
