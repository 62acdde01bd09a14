// Groups as rows, whose passes are one loop, each on another group.
#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "generators/group_norm_workload.h"
#include "generators/pad_room.h"
#include "generators/row_norm.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

void GroupNorm::add_skewed(Space &space, const Machine &machine,
                           const std::vector<std::pair<std::string, int64_t>> &others) const {
    constexpr int64_t most_unrolled = 32;
    std::vector<int64_t> unrolls = {0};
    const int64_t vectors = row_shape().vectors();
    if (machine.timed() && (in_parts() ? row_shape().fills_array() : shape_.whole_vectors()))
        for (const int64_t unroll : divisors(vectors, std::min(most_unrolled, vectors - 1))) {
            const Point point = {{"skewed", unroll}};
            if (unroll % parts() == 0 && (shape_.has_vector_rows(run(point)) || reads_channels(point)))
                unrolls.push_back(unroll);
        }
    space.parameter("skewed",
                    "vectors of a group at a time where the passes over groups are one loop, each on another group; 0: "
                    "loops of their own",
                    unrolls);
    std::vector<std::string> names = {"skewed"};
    for (const auto &[name, value] : others) names.push_back(name);
    space.constraint("skewed", names, "Passes that are one loop have nothing else to choose.", [others](const Point &point) {
        return point["skewed"] == 0 ||
               std::all_of(others.begin(), others.end(), [&](const auto &other) { return point[other.first] == other.second; });
    });
}

bool GroupNorm::skewed_fits(const Machine &machine, const Point &point) const {
    constexpr int64_t slots = 2, waiting = 4;  // of differences, and of elements until they are scaled
    const int64_t vectors = row_shape().vectors(),
                  rows = parts() > 1 ? vectors / parts() * round_up(parts(), machine.pad.count) : vectors;
    std::vector<PadUse> uses(2, {slots * rows, true});
    uses.insert(uses.end(), {{waiting * rows, true}, {waiting * rows, true}, {rows, true}});
    for (const bool given : {shape_.weight, shape_.bias})
        if (given)
            uses.insert(
                uses.end(),
                {{shape_.spread_rows(), false}, {tiles_of(shape_.all_channels()), false}, {rows_of_runs(point), false}});
    return fit_pads(machine, uses);
}

std::string GroupNorm::skewed_words(const Point &point) {
    return fmt::format("a group as one row; {} vectors at a time, all passes in one loop", point["skewed"]);
}

double GroupNorm::skewed_draft(const Machine &machine, const Point &point) const {
    RowCost cost;
    cost.adds = 1 + shape_.bias;
    cost.muls = 2 + shape_.weight;
    cost.passes = 3;
    constexpr double of_channel = 16, of_vector = 3.5;
    const double made =
        of_channel * static_cast<double>(shape_.all_channels()) + of_vector * static_cast<double>(rows_of_runs(point));
    return row_draft(row_shape(), machine, row_point(point), cost) + (shape_.weight + shape_.bias) * made;
}

bool GroupNorm::reads_channels(const Point &point) const {
    if (!shape_.whole_vectors() || !row_shape().whole_vectors()) return false;
    const int64_t turn = vectors_in_turn(point);
    return turn % shape_.vectors() == 0 || (shape_.vectors() % turn == 0 && !shape_.has_vector_rows(run(point)));
}

int64_t GroupNorm::run(const Point &point) const {
    return shape_.whole_vectors() ? std::gcd(vectors_in_turn(point), shape_.vectors()) : 1;
}

int64_t GroupNorm::rows_of_runs(const Point &point) const {
    return reads_channels(point) ? 0 : shape_.groups * row_shape().vectors() / run(point);
}

Expr GroupNorm::with_numbers(KernelDefinition &kernel, Expr value, const Func &ones, bool of_channels, int count, int run,
                             const Expr &n, const Expr &group) const {
    // A loop that divides its count, or loops for each pass, need the registers of constants.
    const bool divides = of_channels && run < size(shape_.vectors());
    const int unroll = divides ? few_channels : size(lanes);
    std::vector<Func> channels;
    if (shape_.weight) channels.push_back(channel_rows(kernel, "weight", shape_, ones, unroll));
    if (shape_.bias) channels.push_back(channel_rows(kernel, "bias", shape_, ones, unroll));
    if (channels.empty()) return value;
    std::function<Expr(size_t)> number;
    if (of_channels) {
        const Expr channel = group * size(shape_.channels) + n / size(shape_.area);
        number = [=](size_t i) -> Expr { return channels[i](n % lanes, channel); };
    } else {
        GroupShape runs = shape_;
        runs.area /= run;
        const FuncRef rows = vector_rows(channels, runs, count / run)(n % lanes, n / (run * lanes), group);
        number = [=](size_t i) -> Expr { return channels.size() == 1 ? Expr(rows) : rows[static_cast<int>(i)]; };
    }
    if (shape_.weight) value = strict_float(value * number(0));
    if (shape_.bias) value = strict_float(value + number(channels.size() - 1));
    return value;
}

Point GroupNorm::row_point(const Point &point) {
    return {{"rows", 1},    {"row_unroll", 1}, {"vector_unroll", point["skewed"]}, {"reduced", 0}, {"stored", 0},
            {"grouped", 0}, {"skewed", 1}};
}

KernelDefinition GroupNorm::build_skewed(const Machine &machine, const Point &point) const {
    RowKernel row(row_shape(), machine, row_point(point), "Y");
    KernelDefinition made;
    Func result("result");
    const Expr value = normalized_row(
        row, [&] { return row.rows_of("X"); }, true, shape_.epsilon);
    result(row.n, row.m) = with_numbers(made, value, row.ones(), reads_channels(point), row.vectors(), size(run(point)), row.n,
                                        row.m % size(shape_.groups));
    KernelDefinition kernel = row.finish(result);
    kernel.arguments.insert(kernel.arguments.end(), made.arguments.begin(), made.arguments.end());
    return named(std::move(kernel));
}

}  // namespace atalla
