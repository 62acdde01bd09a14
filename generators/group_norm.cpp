#include "generators/group_norm.h"

#include <fmt/format.h>

#include "generators/group_norm_contiguous.h"
#include "generators/group_norm_workload.h"
#include "generators/movement.h"
#include "isa/error.h"

namespace atalla {

namespace {

std::unique_ptr<Workload> group_norm(const WorkloadRequest &request) {
    const Shape &x = request.shape("x");
    if (x.size() < 2)
        throw Error(fmt::format("{}: expected at least 2 dimensions, of which the second is the channel, but got {}",
                                request.op, shape_text(x)));
    const int64_t groups = request.integer("num_groups");
    if (groups < 1) throw Error(fmt::format("{}: expected num_groups to be at least 1, but got {}", request.op, groups));
    if (x[1] % groups != 0)
        throw Error(fmt::format(
            "{}: expected the number of channels to be divisible by num_groups, but got an input of {} and num_groups={}",
            request.op, shape_text(x), groups));
    for (const char *name : {"weight", "bias"})
        if (request.has(name) && request.shape(name) != Shape{x[1]})
            throw Error(fmt::format("{}: expected {} to be a vector with an element for each of the {} channels, but got {}",
                                    request.op, name, x[1], shape_text(request.shape(name))));
    if (element_count(x) == 0) return constant_workload(request, x);
    GroupShape shape;
    shape.images = x[0];
    shape.groups = groups;
    shape.channels = x[1] / groups;
    shape.area = element_count(Shape(x.begin() + 2, x.end()));
    shape.weight = request.has("weight");
    shape.bias = request.has("bias");
    shape.epsilon = request.number("eps");
    if (suits_contiguous_groups(shape)) return contiguous_group_norm(request, shape);
    return std::make_unique<GroupNorm>(request, shape);
}

}  // namespace

std::vector<OperatorDeclaration> group_norm_operators() {
    OperatorDeclaration row;
    row.name = "group_norm";
    row.schemas = {"group_norm"};
    row.help = "(x - mean) / sqrt(variance + eps) * weight + bias in groups of channels";
    row.card = {
        "normalization",
        "mean and mean of squared differences from it: blocks of 32 of a channel through the array, added in fp32 (of a group "
        "whose channels end inside vectors and that itself does not, blocks of 32 of the group, up to 32 of them added and "
        "rounded likewise); fp32 reciprocal of the root; then in bf16, with a row of lanes for each channel",
        "channels and vectors in straight-line code, of sums and of other steps",
        "dram, and lanes: the additions and multiplications of each vector",
        "float64, to 4 units of the largest of the group as it is scaled",
        "any sizes with the channel as second dimension; weight and bias may be left out; groups that the pads do not hold "
        "come in parts, again for each pass",
        "",
        "nothing yet"};
    row.tensors = {{"x", {"input"}, "the tensor"},
                   {"weight", {"weight"}, "factors of the channels", false},
                   {"bias", {"bias"}, "addends of the channels", false}};
    row.attributes = {{"num_groups", "groups that the channels are divided into", 1}, {"eps", "added to the variance", 1e-5}};
    row.example = {{"shape", "4x64x28x28,64,64"}, {"num-groups", "8"}};
    row.ignored = {"cudnn_enabled"};
    row.make = group_norm;
    return {row};
}

}  // namespace atalla
