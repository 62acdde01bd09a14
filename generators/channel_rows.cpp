#include "generators/channel_rows.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "generators/vocabulary.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

void over_channels(Func step, const Var &element, Var channel, int vector_unroll, int channel_unroll) {
    const Var vector("no"), lane("ni"), unrolled_vector("n_unroll"), unrolled_channel("c_unroll");
    step.split(element, vector, lane, lanes).vectorize(lane);
    std::vector<VarOrRVar> order = {lane};
    if (vector_unroll > 1) {
        step.split(vector, vector, unrolled_vector, vector_unroll);
        order.emplace_back(unrolled_vector);
    }
    if (channel_unroll > 1) {
        step.split(channel, channel, unrolled_channel, channel_unroll);
        order.emplace_back(unrolled_channel);
    }
    order.insert(order.end(), {vector, channel});
    step.reorder(order);
}

// All other lanes of a channel's value are 0 on the way through the array.
Func channel_rows(KernelDefinition &kernel, const std::string &name, const GroupShape &shape, const Func &ones, int unroll) {
    const int all = static_cast<int>(shape.all_channels()), rows = static_cast<int>(shape.spread_rows());
    const ImageParam values = tensor(name, {all});
    kernel.arguments.push_back(values);
    Func row(name + "_row"), one(name + "_one"), part(name + "_part"), spread(name + "_rows");
    const Var k("k"), w("w"), l("l"), b("b"), wo("wo"), wu("w_unroll");
    const RDom q(0, lanes, name + "_q");
    row(k, b) = bf16(0.0f);
    row(k, b) = select(b * lanes + k < all, values(min(b * lanes + k, all - 1)), undef<BFloat>());
    one(k, w) = select(k == w % lanes, row(k, w / lanes), bf16(0.0f));
    part(l, w) = 0.0f;
    part(l, w) += f32(one(q, w)) * f32(ones(q, l));
    spread(l, w) = bf16(part(l, w));
    row.compute_root().bound(k, 0, lanes).vectorize(k, lanes).bound_extent(b, tiles_of(all));
    spread.compute_root()
        .bound(l, 0, lanes)
        .bound(w, 0, rows)
        .split(w, wo, w, std::min(lanes, rows))
        .split(w, w, wu, std::gcd(rows, unroll))
        .vectorize(l, lanes);
    one.compute_at(spread, wu).vectorize(k, lanes);
    as_array_row(part.compute_at(spread, wu), l, q);
    in_pads({row, spread});
    in_registers({one, part});
    return spread;
}

int largest_divisor(int count) {
    constexpr int most = 12;
    int best = 1;
    for (int part = 2; part <= most; part++)
        if (count % part == 0) best = part;
    return best;
}

Func vector_rows(const std::vector<Func> &spread, const GroupShape &shape, int count) {
    const Var l("l"), t("t"), g("g"), s("s");
    const int channels = static_cast<int>(shape.channels), area = static_cast<int>(shape.area),
              of_section = static_cast<int>(shape.section_channels());
    const int vectors = of_section * area / lanes, sections = channels / of_section;
    Func rows("rows_of_vectors");
    rows(l, t, g) = Tuple(std::vector<Expr>(spread.size(), undef<BFloat>()));
    // Vectors `from` to `end` of every section are one row, in a register meanwhile.
    const auto store = [&](int from, int end, const std::string &suffix,
                           const std::function<Expr(const Func &, const Expr &)> &value) {
        const RDom r(0, end - from, 0, sections, "vectors" + suffix);
        const RVar ro("ro"), ru("r_unroll");
        std::vector<Func> all;
        std::vector<Expr> stored;
        for (const Func &channel : spread) {
            Func held(channel.name() + "_held" + suffix);
            held(l, s, g) = value(channel, g * channels + s * of_section);
            stored.push_back(held(l, r.y, g));
            all.push_back(held);
        }
        rows(l, from + r.x + r.y * vectors, g) = Tuple(stored);
        rows.update(rows.num_update_definitions() - 1)
            .reorder(l, r.x, r.y, g)
            .vectorize(l, lanes)
            .split(r.x, ro, ru, largest_divisor(end - from));
        for (Func held : all) {
            held.compute_at(rows, r.y).vectorize(l, lanes).bound_extent(l, lanes);
            in_registers({held});
        }
    };
    for (int c = 0; c < of_section; c++) {
        const int end = (c + 1) * area / lanes;
        store(ceil_div(c * area, lanes), end, fmt::format("_c{}", c),
              [&](const Func &channel, const Expr &first) -> Expr { return channel(l, first + c); });
        if (const int cut = (c + 1) * area % lanes; cut != 0)
            store(end, end + 1, fmt::format("_v{}", c), [&](const Func &channel, const Expr &first) {
                return select(l < cut, channel(l, first + c), channel(l, first + c + 1));
            });
    }
    rows.vectorize(l, lanes).compute_root().bound(l, 0, lanes).bound(t, 0, count).bound(g, 0, static_cast<int>(shape.groups));
    in_pads({rows});
    return rows;
}

}  // namespace atalla
