#include "generators/group_norm_parts.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "generators/deviation.h"
#include "generators/group_total.h"
#include "generators/pad_room.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Passes that bring a group: its sum, its squares, its result.
constexpr int64_t passes = 3;

// Vectors of a channel: of one that is long, with those that fill up a last part, which are the same for all schedules.
int64_t vectors_of(const GroupShape &shape) {
    constexpr int64_t quantum = 8;
    return shape.vectors() <= quantum ? shape.vectors() : round_up(shape.vectors(), quantum);
}

std::vector<int64_t> divisors_up_to(int64_t count, int64_t most) {
    std::vector<int64_t> all;
    for (int64_t part = 1; part <= std::min(count, most); part++)
        if (count % part == 0) all.push_back(part);
    return all;
}

// Every part is whole, so that the next one can come meanwhile: lanes behind the last elements are filled in each.
bool follows_itself(const GroupShape &shape, const Machine &machine) {
    return machine.timed() && shape.area == vectors_of(shape) * lanes;
}

class GroupInParts {
public:
    GroupInParts(const GroupShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          machine_(machine),
          area_(size(shape.area)),
          channels_(size(shape.channels)),
          groups_(size(shape.groups)),
          images_(size(shape.images)),
          vectors_(size(vectors_of(shape))),
          part_channels_(size(point["part_channels"])),
          part_vectors_(size(point["part_vectors"])),
          channel_unroll_(size(point["channel_unroll"])),
          vector_unroll_(size(point["vector_unroll"])) {}

    KernelDefinition build() {
        KernelDefinition kernel;
        kernel.arguments = {image_};
        ones_(k, w) = bf16(1.0f);
        const auto share = static_cast<float>(1 / static_cast<double>(shape_.length()));
        Func x = brought("X_rows"), mean("mean"), centred("centred"), square("square"), scale("scale"), result("result"),
             out("Y");
        GroupTotal sum("total", x, ones_, vectors_, channels_);
        mean(g, i) = strict_float(sum.sum(g, i) * share);
        Func again = brought("X_again");
        const auto less_mean = [&](const Func &of) -> Expr { return strict_float(of(n, c, g, i) - bf16(mean(g, i))); };
        centred(n, c, g, i) = less_mean(again);
        const Expr squared = strict_float(centred(n, c, g, i) * centred(n, c, g, i));
        square(n, c, g, i) = narrow() ? select(n < area_, squared, bf16(0.0f)) : squared;
        GroupTotal squares("squares", square, ones_, vectors_, channels_);
        scale(g, i) = inverse_deviation(squares.sum(g, i), shape_.length(), shape_.epsilon);
        Func last = brought("X_last");
        Expr value = strict_float(less_mean(last) * bf16(scale(g, i)));
        std::vector<Func> numbers;
        if (shape_.weight) value = strict_float(value * number(kernel, numbers, "weight"));
        if (shape_.bias) value = strict_float(value + number(kernel, numbers, "bias"));
        result(n, c, g, i) = value;
        out(n, c, g, i) = result(n, c, g, i);

        // ---- schedule: a group at a time, of which each pass brings all parts
        const Var part("part"), inside("inside"), cp("cp"), ci("ci");
        out.bound(n, 0, area_).bound(c, 0, channels_).bound(g, 0, groups_).bound(i, 0, images_);
        out.split(n, part, inside, lanes * part_vectors_, TailStrategy::GuardWithIf)
            .split(c, cp, ci, part_channels_)
            .reorder(inside, ci, part, cp, g, i);
        hold(result, LoopLevel(out, part));
        over_channels(result, n, c, vector_unroll_, channel_unroll_);
        hold(last, LoopLevel(out, part));
        for (Func f : numbers) {
            f.compute_at(out, cp).bound_extent(u, 1).align_storage(u, lanes).bound_extent(c, part_channels_);
            in_pads({f});
        }
        for (Func f : {mean, scale}) {
            f.compute_at(out, g);
            in_registers({f});
        }
        schedule_total(sum, LoopLevel(out, g), x);
        square.compute_at(schedule_total(squares, LoopLevel(out, g), again)).vectorize(n, lanes);
        in_registers({square});
        ones_.compute_root().vectorize(k, lanes).bound(k, 0, lanes).bound(w, 0, lanes);
        in_registers({ones_});
        whole_loops(out);
        fix_shape(out.output_buffer(), {area_, channels_, groups_, images_});
        kernel.pipeline = Pipeline(out);
        return kernel;
    }

private:
    bool narrow() const { return area_ != vectors_ * lanes; }

    Func brought(const std::string &name) {
        Func rows(name);
        if (narrow()) {
            rows(n, c, g, i) = bf16(0.0f);
            rows(n, c, g, i) = select(n < area_, image_(min(n, area_ - 1), c, g, i), undef<BFloat>());
        } else {
            rows(n, c, g, i) = image_(n, c, g, i);
        }
        return rows;
    }

    // A channel's number in the first lane of a row of the pads, which serves all others.
    Expr number(KernelDefinition &kernel, std::vector<Func> &all, const std::string &name) {
        const ImageParam values = tensor(name, {shape_.all_channels()});
        kernel.arguments.push_back(values);
        Func rows(name + "_numbers");
        rows(u, c, g) = values(g * channels_ + c);
        all.push_back(rows);
        return rows(0, c, g);
    }

    void hold(Func rows, const LoopLevel &at) {
        rows.compute_at(at).bound_extent(n, lanes * part_vectors_).bound_extent(c, part_channels_);
        if (follows_itself(shape_, machine_)) rows.hoist_storage_root().ring_buffer(2);
        if (rows.num_update_definitions() > 0) rows.vectorize(n, lanes);
        in_pads({rows});
    }

    // The order of the sum does not change: parts are whole channels, or parts of one. Where a block of it is made.
    LoopLevel schedule_total(GroupTotal &t, const LoopLevel &at, const Func &rows) {
        Func sum = t.sum;
        const RVar parts("parts"), inside("inside"), ru("r_unroll"), ruy("ry_unroll");
        sum.compute_at(at);
        Stage update = sum.update();
        RVar x = t.all.x, y = t.all.y;
        RVar of_part = y;
        if (part_vectors_ < vectors_) {
            update.split(x, parts, inside, part_vectors_);
            of_part = parts, x = inside;
        } else {
            // Of one turn where all channels are a part.
            update.split(y, parts, inside, part_channels_);
            of_part = parts, y = inside;
        }
        LoopLevel vector(sum, x);
        if (vector_unroll_ > 1) {
            const RVar xo("xo");
            update.split(x, xo, ru, vector_unroll_);
            vector = LoopLevel(sum, ru);
        }
        if (channel_unroll_ > 1) {
            const RVar yo("yo");
            update.split(y, yo, ruy, channel_unroll_);
        }
        hold(rows, LoopLevel(sum, of_part));
        t.make_blocks(vector);
        return vector;
    }

    const GroupShape &shape_;
    const Machine &machine_;
    const int area_, channels_, groups_, images_, vectors_, part_channels_, part_vectors_, channel_unroll_, vector_unroll_;
    const ImageParam image_ = tensor("X", {area_, channels_, groups_, images_});
    Func ones_{"ones"};
    Var n{"n"}, c{"c"}, g{"g"}, i{"i"}, k{"k"}, w{"w"}, u{"u"};
};

}  // namespace

bool is_group_in_parts(const Point &point) { return point.contains("part_channels"); }

Space group_parts_space(const GroupShape &shape, const Machine &machine) {
    constexpr int64_t most_unrolled = 32;
    const int64_t vectors = vectors_of(shape), rows = machine.pad.count * machine.pad_rows();
    Space space;
    space.parameter("part_channels", "channels in the pads at a time", divisors_up_to(shape.channels, rows))
        .parameter("part_vectors", "vectors of each in the pads at a time", divisors_up_to(vectors, rows))
        .parameter("channel_unroll", "channels in straight-line code", divisors_up_to(shape.channels, most_unrolled))
        .parameter("vector_unroll", "vectors of a channel in straight-line code", divisors_up_to(vectors, most_unrolled));
    space.constraint("parts", {"part_channels", "part_vectors"}, "A part is whole channels, or vectors of one.",
                     [=](const Point &point) { return point["part_channels"] == 1 || point["part_vectors"] == vectors; });
    space.constraint(
        "pads", {"part_channels", "part_vectors"},
        "The part that each pass brings, its result and the numbers of its channels fit the pads.", [=](const Point &point) {
            const int64_t slots = follows_itself(shape, machine) ? 2 : 1;
            std::vector<PadUse> uses(passes + 1, {slots * point["part_channels"] * point["part_vectors"], false});
            uses.insert(uses.end(), static_cast<size_t>(shape.weight + shape.bias), {point["part_channels"], false});
            return fit_pads(machine, uses);
        });
    space.constraint("whole unrolls", {"part_channels", "part_vectors", "channel_unroll", "vector_unroll"},
                     "What is in straight-line code divides a part; several channels where all vectors of each are.",
                     [=](const Point &point) {
                         return point["part_channels"] % point["channel_unroll"] == 0 &&
                                point["part_vectors"] % point["vector_unroll"] == 0 &&
                                (point["channel_unroll"] == 1 || point["vector_unroll"] == vectors);
                     });
    space.constraint("code", {"channel_unroll", "vector_unroll"}, "Straight-line code fits the instruction cache.",
                     [](const Point &point) { return point["channel_unroll"] * point["vector_unroll"] <= most_unrolled; });
    return space;
}

std::string group_parts_words(const Point &point) {
    return fmt::format("parts of {} channels and {} vectors of each, again for each pass; {} x {} in straight-line code",
                       point["part_channels"], point["part_vectors"], point["channel_unroll"], point["vector_unroll"]);
}

double group_parts_draft(const GroupShape &shape, const Machine &machine, const Point &point) {
    // What a vector takes in all passes, a turn of their loops, and a part, whose transfers are waited for.
    constexpr double of_vector = 22, turn = 160, of_part = 900, packets_of_vector = 14, packets_of_turn = 30,
                     packets_of_part = 60, number = 20;
    const auto vectors = static_cast<double>(shape.images * shape.groups * shape.channels * vectors_of(shape)),
               part = static_cast<double>(point["part_channels"] * point["part_vectors"]),
               straight = static_cast<double>(point["channel_unroll"] * point["vector_unroll"]);
    const double channels = number * static_cast<double>(shape.images * shape.all_channels() * (shape.weight + shape.bias));
    if (!machine.timed()) return vectors * (packets_of_vector + packets_of_turn / straight + packets_of_part / part) + channels;
    return vectors * (of_vector + turn / straight + of_part / part) + channels;
}

KernelDefinition group_norm_in_parts(const GroupShape &shape, const Machine &machine, const Point &point) {
    return GroupInParts(shape, machine, point).build();
}

}  // namespace atalla
