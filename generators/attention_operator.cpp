#include "generators/attention_operator.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "generators/attention.h"
#include "generators/attention_in_registers.h"
#include "generators/movement.h"
#include "generators/pipeline_workload.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

namespace {

// Queries of a block, and blocks between which their rows and scores stay in the pads.
int64_t block_rows(const AttentionShape &shape, const Point &point) { return std::min(point["row_unroll"], shape.queries); }
int64_t blocks_together(const AttentionShape &shape, const Point &point) { return std::max<int64_t>(1, point["rows"] / block_rows(shape, point)); }

// Rows of all pads together that the buffers of a point take.
int64_t pad_rows(const AttentionShape &shape, const Machine &machine, const Point &point) {
    const int64_t round = machine.pad.count, rows = block_rows(shape, point), stored = (rows + round - 1) / round * round * blocks_together(shape, point);
    const int64_t key_tiles = tiles_of(shape.keys), depth_tiles = tiles_of(shape.depth), width_tiles = shape.width_tiles();
    const int64_t slots = machine.timed() && shape.streams(rows, blocks_together(shape, point)) ? 2 : 1;   // of queries and results, which come and go
    const int64_t heads = point["heads"], key_heads = shape.batch.empty() || shape.batch.back().keys ? heads : 1;
    const bool come = shape.comes_by_heads(machine, heads);   // two slots then, of queries too
    const int64_t q_slots = !come ? heads * slots : 2, kv_slots = come ? 2 : key_heads;
    int64_t sum = lanes * key_tiles * (kv_slots * (depth_tiles + tiles_of(shape.width)) + key_heads * width_tiles) + lanes;
    sum += stored * (q_slots * depth_tiles + heads * (2 * key_tiles + (shape.whole_rows() ? 0 : width_tiles)));
    sum += stored * tiles_of(shape.width) * (shape.leaves_by_heads(machine, heads) ? 2 : heads * slots);
    if (shape.mask) sum += (shape.batch.empty() || shape.batch.back().mask ? heads : 1) * stored * key_tiles;
    // These are in one pad.
    if (shape.causal) sum += round * (!shape.skips_hidden(rows) ? shape.queries + lanes * key_tiles : shape.whole_rows() ? lanes * (key_tiles + 1) : 2 * rows);
    return sum + round;
}

class AttentionWorkload : public PipelineWorkload {
public:
    AttentionWorkload(const WorkloadRequest &request, AttentionShape shape) : PipelineWorkload(request), shape_(std::move(shape)) {
        inputs_ = {{"Q", shape_.q_extents()}, {"K", shape_.k_extents()}, {"V", shape_.v_extents()}};
        if (shape_.mask) inputs_.push_back({"mask", shape_.mask_extents()});
        outputs_ = {{"O", shape_.out_extents()}};
    }

    double flops() const override {
        return static_cast<double>(shape_.problems()) * static_cast<double>(shape_.queries) * static_cast<double>(shape_.keys) * 2 *
               static_cast<double>(shape_.depth + shape_.width + 2);
    }

    // Small pads hold no tile of the keys beside one of the values.
    static bool in_registers(const Machine &machine) { return !machine.timed(); }
    Space space(const Machine &machine) const override {
        if (in_registers(machine)) return register_attention_space(shape_, machine);
        std::set<int64_t> rows, row_unrolls, softmax_unrolls, heads;
        const auto divides = [](int64_t a, int64_t b) { return b % a == 0; };
        // Of the largest blocks also as many that leave few rows of the last one empty.
        constexpr int64_t largest_block = 64;
        const int64_t even = ceil_div(ceil_div(shape_.queries, ceil_div(shape_.queries, largest_block)), 2) * 2;
        for (int64_t unroll : {int64_t{8}, int64_t{16}, int64_t{32}, even, largest_block}) {
            const int64_t block = std::min(unroll, shape_.queries), blocks = ceil_div(shape_.queries, block);
            row_unrolls.insert(block);
            for (int64_t together = 1; together <= blocks && together * block <= 1024; together++)
                if (divides(together, blocks)) rows.insert(together * block);
            for (int64_t group : {1, 2, 4, 8, 16})
                if (divides(group, block)) softmax_unrolls.insert(group);
        }
        for (int64_t together = 1; together <= 16; together++)
            if (together == 1 || (!shape_.batch.empty() && divides(together, shape_.batch.back().extent))) heads.insert(together);
        Space space;
        space.parameter("rows", "queries whose scores are in the pads together", {rows.rbegin(), rows.rend()})
            .parameter("row_unroll", "queries of a block, which one load of the keys and values serves", {row_unrolls.rbegin(), row_unrolls.rend()})
            .parameter("softmax_unroll", "queries whose softmax is straight-line code", {softmax_unrolls.begin(), softmax_unrolls.end()})
            .parameter("weight_unroll", "weight vectors of the values that are loaded in straight-line code when these are turned", {4, 8, 16, lanes})
            .parameter("heads", "heads that go through each step together, so that its code is fetched once", {heads.begin(), heads.end()});
        space.constraint("blocks", {"rows", "row_unroll"}, "Whole blocks are together, as many each time.", [=, queries = shape_.queries](const Point &point) {
            return divides(point["row_unroll"], point["rows"]) && divides(point["rows"] / point["row_unroll"], ceil_div(queries, point["row_unroll"]));
        });
        space.constraint("unrolled softmax", {"row_unroll", "softmax_unroll"}, "Unrolling divides the rows of a block.",
                         [=](const Point &point) { return divides(point["softmax_unroll"], point["row_unroll"]); });
        if (shape_.whole_rows())
            space.constraint("straight rows", {"softmax_unroll"}, "Rows in straight-line code stay in the instruction cache.", [tiles = tiles_of(shape_.keys)](const Point &point) {
                constexpr int64_t most_vectors = 32;   // of scores
                return point["softmax_unroll"] * tiles <= most_vectors;
            });
        if (shape_.whole_rows() && shape_.causal)
            space.constraint("blocks of their own", {"rows", "row_unroll"}, "Where each block has code of its own, for the tiles that it sees, all are together.", [shape = shape_](const Point &point) {
                return !shape.skips_hidden(block_rows(shape, point)) || blocks_together(shape, point) == ceil_div(shape.queries, block_rows(shape, point));
            });
        space.constraint("heads", {"rows", "row_unroll", "heads"}, "Heads are together where all of their queries are.", [=, queries = shape_.queries](const Point &point) {
            return point["heads"] == 1 || point["rows"] / point["row_unroll"] == ceil_div(queries, point["row_unroll"]);
        });
        space.constraint("pads", {"rows", "row_unroll", "heads"}, "Keys and values of the heads and the scores of their queries fit the pads together.", [shape = shape_, machine](const Point &point) {
            return pad_rows(shape, machine, point) <= machine.pad.count * machine.pad_rows() * 15 / 16;
        });
        return space;
    }

    Point naive_point(const Machine &machine) const override {
        if (in_registers(machine)) return register_attention_naive_point(shape_, machine);
        const int64_t block = std::min<int64_t>(shape_.queries, lanes), blocks = shape_.whole_rows() && shape_.skips_hidden(block) ? ceil_div(shape_.queries, block) : 1;
        return {{"rows", blocks * block}, {"row_unroll", block}, {"softmax_unroll", block % 4 == 0 ? 4 : 1}, {"weight_unroll", 4}, {"heads", 1}};
    }

    KernelDefinition build(const Machine &machine, const Point &point) const override {
        return in_registers(machine) ? attention_in_registers(shape_, machine, point) : attention(shape_, machine, point);
    }

    double draft(const Machine &machine, const Point &point) const override {
        if (in_registers(machine)) return register_attention_draft(shape_, point);
        // A visit loads weights, waits for the array and goes through the rows of a block at the pace of the adder, in the instruction cache or not.
        // Blocks are loops whose ends overlap nothing. Code is fetched anew for each group of heads.
        constexpr double switching = 63, lanes_pace = 3.3, ends = 130, cold_head = 9000, cold_visit = 14, most_hidden_rows = 60;
        const auto unroll = static_cast<double>(block_rows(shape_, point)), tiles = static_cast<double>(tiles_of(shape_.keys)), group = static_cast<double>(point["softmax_unroll"]);
        const double blocks = std::ceil(static_cast<double>(shape_.queries) / unroll), together = static_cast<double>(blocks_together(shape_, point));
        const bool skips = shape_.skips_hidden(block_rows(shape_, point));
        const double share = skips ? (1 + 1 / blocks) / 2 : 1;   // of the tiles
        const double products = static_cast<double>(tiles_of(shape_.depth) + shape_.width_tiles());
        const double visit = std::max(switching + unroll + 8, lanes_pace * unroll), hides = shape_.causal && !skips && unroll > most_hidden_rows ? cold_visit * unroll : 0;
        const double turn = tiles * static_cast<double>(tiles_of(shape_.width)) * (160 + 40 * lanes / static_cast<double>(point["weight_unroll"]));
        const double block = tiles * share * (products * visit + hides) + products * ends + softmax_of_block(unroll, tiles, share, group);
        const double cold_row = shape_.whole_rows() ? 67 * tiles : 100;
        return 4000 + static_cast<double>(shape_.problems()) * (turn + blocks * block + (cold_head + blocks / together * (1500 + cold_row * group)) / static_cast<double>(point["heads"]));
    }

    // Cycles of the softmax of a block of so many rows: by tiles, each step takes at least its latency. Whole rows overlap the next ones where
    // few values are under way, as far as these may live; others run one group after the other.
    double softmax_of_block(double rows, double tiles, double share, double group) const {
        constexpr double lanes_pace = 3.3, latency = 26, ends = 130, quotient = 20;
        if (!shape_.whole_rows()) return tiles * share * (rows * std::max(2 * lanes_pace, 2 * latency / group) + 12 * group / tiles) + rows / group * ends + quotient * rows;
        constexpr double most_under_way = 16, row_latency = 210, least_interval = 60, life = 17, quotient_of_whole = 5;
        const double lane_cycles = group * 3 * lanes_pace * tiles;
        const bool overlaps = group > 1 && group * tiles <= most_under_way;
        const double interval = overlaps ? std::max(lane_cycles, least_interval + life * tiles) : row_latency + lane_cycles;
        return (rows / group + (overlaps ? 1 : 0)) * interval + quotient_of_whole * rows;
    }

    // The machine's result, element by element, is what a softmax in bf16 makes of scores with an error: a wrong score moves
    // its weight by as much as the score is large.
    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        Reference result;
        for (std::vector<double> *list : {&result.values, &result.peaks}) list->resize(static_cast<size_t>(shape_.problems() * shape_.queries * shape_.width));
        for (int64_t problem = 0; problem < shape_.problems(); problem++) {
            int64_t keys_at = 0, mask_at = 0, rest = problem, keys_stride = 1, mask_stride = 1;
            for (size_t d = shape_.batch.size(); d-- > 0;) {
                const int64_t index = rest % shape_.batch[d].extent;
                rest /= shape_.batch[d].extent;
                if (shape_.batch[d].keys) keys_at += index * std::exchange(keys_stride, keys_stride * shape_.batch[d].extent);
                if (shape_.batch[d].mask) mask_at += index * std::exchange(mask_stride, mask_stride * shape_.batch[d].extent);
            }
            const Rows q = rows_of('q', problem, shape_.queries, shape_.depth), k = rows_of('k', keys_at, shape_.keys, shape_.depth);
            const Rows v = rows_of('v', keys_at, shape_.keys, shape_.width), o = rows_of('o', problem, shape_.queries, shape_.width);
            const uint16_t *mask = shape_.mask ? inputs[3].data() + mask_at * shape_.queries * shape_.keys : nullptr;
            for (int64_t i = 0; i < shape_.queries; i++)
                reference_row(inputs, q.at(i), k, v, mask != nullptr ? mask + i * shape_.keys : nullptr, i, &result.values[static_cast<size_t>(o.at(i))], &result.peaks[static_cast<size_t>(o.at(i))]);
        }
        return {result};
    }
    double tolerance_ulps() const override { return static_cast<double>(tiles_of(shape_.depth) + tiles_of(shape_.keys)) + 6; }

protected:
    KernelWork work(const Machine &machine) const override {
        KernelWork work;
        work.bytes = tensor_bytes();
        // Tiles of 32 keys that a query sees.
        int64_t seen = 0;
        for (int64_t i = 0; i < shape_.queries; i++) seen += tiles_of(shape_.causal ? std::min(i + 1, shape_.keys) : shape_.keys);
        const int64_t depth_tiles = tiles_of(shape_.depth), width_tiles = tiles_of(shape_.width), key_tiles = tiles_of(shape_.keys), problems = shape_.problems();
        const bool sums_on_lanes = !(machine.sa.psum_in);
        // Differences from the largest; comparisons; the sums of products and of p over the tiles of keys and of the depth.
        int64_t adds = seen + (seen - shape_.queries);
        if (sums_on_lanes) adds += seen * (depth_tiles - 1) + (seen - shape_.queries) * (width_tiles + 1);
        work.lanes.adds = problems * adds;
        work.lanes.exps = problems * seen;
        if (shape_.scale != 1) work.lanes.muls = problems * std::min(seen, shape_.queries * depth_tiles);
        work.array_rows = problems * seen * (depth_tiles + width_tiles);
        int64_t heads = 1;
        for (const AttentionBatch &dim : shape_.batch)
            if (dim.keys) heads *= dim.extent;
        work.array_loads = heads * key_tiles * (depth_tiles + width_tiles);
        work.array_tiles = heads * key_tiles * (depth_tiles + width_tiles);
        work.rows_loaded = shape_.queries * depth_tiles;
        work.rows_stored = problems * shape_.queries * width_tiles;
        return work;
    }

private:
    // Where the rows of one problem lie in a tensor, in elements.
    struct Rows {
        int64_t first = 0, stride = 0;
        int64_t at(int64_t row) const { return first + row * stride; }
    };
    // `index`: of the problem among those that the tensor has.
    Rows rows_of(char tensor, int64_t index, int64_t rows, int64_t length) const {
        int64_t heads = 1;
        for (size_t d = 0; d < shape_.inside(tensor); d++) {
            const AttentionBatch &dim = shape_.batch[shape_.batch.size() - 1 - d];
            if (dim.keys || tensor == 'q' || tensor == 'o') heads *= dim.extent;
        }
        return {(index / heads * rows * heads + index % heads) * length, heads * length};
    }

    void reference_row(const std::vector<TensorData> &inputs, int64_t q_at, const Rows &k_rows, const Rows &v_rows, const uint16_t *mask, int64_t i, double *values, double *peaks) const {
        const uint16_t *q = inputs[0].data() + q_at, *k = inputs[1].data(), *v = inputs[2].data();
        std::vector<double> scores(static_cast<size_t>(shape_.keys));
        double largest = -INFINITY, reach = 0;
        for (int64_t j = 0; j < shape_.keys; j++) {
            double dot = 0, peak = 0;
            for (int64_t d = 0; d < shape_.depth; d++) {
                dot += static_cast<double>(bf16_float(q[d])) * bf16_float(k[k_rows.at(j) + d]);
                if (d % lanes == lanes - 1 || d + 1 == shape_.depth) peak = std::max(peak, std::abs(dot));
            }
            double score = dot * bf16_round(static_cast<float>(shape_.scale));
            peak *= std::abs(shape_.scale);
            if (mask != nullptr) score += bf16_float(mask[j]);
            if (shape_.causal && j > i) score = -INFINITY;
            scores[static_cast<size_t>(j)] = score;
            if (score == -INFINITY) continue;
            largest = std::max(largest, score);
            reach = std::max({reach, peak, std::abs(score)});
        }
        double sum = 0;
        for (double &score : scores) sum += score = score == -INFINITY ? 0 : std::exp(score - largest);
        for (int64_t d = 0; d < shape_.width; d++) {
            double value = 0, magnitude = 0;
            for (int64_t j = 0; j < shape_.keys; j++) {
                const double term = scores[static_cast<size_t>(j)] * bf16_float(v[v_rows.at(j) + d]);
                value += term;
                magnitude += std::abs(term);
            }
            values[d] = sum == 0 ? 0 : value / sum;
            peaks[d] = sum == 0 ? 0 : magnitude / sum * (1 + reach);
        }
    }

    AttentionShape shape_;
};

void demand(bool condition, const std::string &message) {
    if (!condition) throw Error("scaled_dot_product_attention: " + message);
}

std::unique_ptr<Workload> make(const WorkloadRequest &request) {
    Shape q = request.shape("query"), k = request.shape("key"), v = request.shape("value");
    demand(q.size() >= 2 && k.size() == q.size() && v.size() == q.size(),
           fmt::format("query, key and value must have as many dimensions, at least 2, not {}, {} and {}", q.size(), k.size(), v.size()));
    const size_t rank = q.size();
    AttentionShape shape;
    shape.heads_inside = request.word("heads_inside");
    demand(shape.heads_inside.find_first_not_of("qkvo") == std::string::npos, fmt::format("heads_inside names tensors of 'qkvo', not '{}'", shape.heads_inside));
    demand(shape.heads_inside.empty() || rank >= 3, "there are no heads that could be inside the rows");
    for (const auto &[tensor, sizes] : {std::pair('q', &q), std::pair('k', &k), std::pair('v', &v)})
        if (shape.heads_inside.find(tensor) != std::string::npos) std::swap((*sizes)[rank - 2], (*sizes)[rank - 3]);
    shape.queries = q[rank - 2];
    shape.depth = q[rank - 1];
    shape.keys = k[rank - 2];
    shape.width = v[rank - 1];
    demand(k[rank - 1] == shape.depth, fmt::format("query {} and key {} have different depths", shape_text(q), shape_text(k)));
    demand(v[rank - 2] == shape.keys, fmt::format("key {} and value {} have different lengths", shape_text(k), shape_text(v)));
    const Shape leads(q.begin(), q.end() - 2), key_leads(k.begin(), k.end() - 2);
    demand(Shape(v.begin(), v.end() - 2) == key_leads, fmt::format("key {} and value {} have different leading dimensions", shape_text(k), shape_text(v)));
    Shape mask_leads = leads;
    if (request.has("attn_mask")) {
        const Shape &mask = request.shape("attn_mask");
        demand(!request.flag("is_causal"), "a mask and is_causal exclude each other");
        demand(mask.size() >= 2 && mask[mask.size() - 1] == shape.keys && mask[mask.size() - 2] == shape.queries,
               fmt::format("a mask of {} is not of queries x keys, {}x{}; expand it first", shape_text(mask), shape.queries, shape.keys));
        mask_leads.assign(mask.begin(), mask.end() - 2);
        demand(broadcast_shape("scaled_dot_product_attention", {mask_leads, leads}) == leads, fmt::format("a mask of {} does not broadcast to the queries {}", shape_text(mask), shape_text(q)));
        mask_leads.insert(mask_leads.begin(), leads.size() - mask_leads.size(), 1);
        shape.mask = true;
    }
    for (size_t d = 0; d < leads.size(); d++) {
        const bool grouped = request.flag("enable_gqa") && d + 1 == leads.size() && key_leads[d] != leads[d];
        if (grouped) {
            demand(key_leads[d] > 0 && leads[d] % key_leads[d] == 0, fmt::format("{} query heads are not a multiple of {} key heads", leads[d], key_leads[d]));
            demand(mask_leads[d] == 1 || mask_leads[d] == leads[d], "the mask's heads do not fit");
            shape.batch.push_back({key_leads[d], true, mask_leads[d] != 1});
            shape.batch.push_back({leads[d] / key_leads[d], false, mask_leads[d] != 1});
        } else {
            demand(key_leads[d] == leads[d] || key_leads[d] == 1, fmt::format("query {} and key {} have different leading dimensions", shape_text(q), shape_text(k)));
            shape.batch.push_back({leads[d], key_leads[d] == leads[d], mask_leads[d] == leads[d]});
        }
    }
    std::vector<AttentionBatch> dims;
    for (size_t d = 0; d < shape.batch.size(); d++) {
        const AttentionBatch &dim = shape.batch[d];
        if (dim.extent == 1) continue;
        // Heads are no part of the rest where rows may lie between the two.
        const bool is_head = d + 1 >= leads.size(), begins_heads = is_head && shape.head_dims == 0 && !shape.heads_inside.empty();
        if (!begins_heads && !dims.empty() && dims.back().keys == dim.keys && (!shape.mask || dims.back().mask == dim.mask)) dims.back().extent *= dim.extent;
        else {
            dims.push_back(dim);
            shape.head_dims += is_head;
        }
    }
    shape.batch = std::move(dims);
    if (shape.queries * shape.width * shape.problems() == 0) {
        Shape result = q;
        result.back() = shape.width;
        if (shape.heads_inside.find('o') != std::string::npos) std::swap(result[rank - 2], result[rank - 3]);
        return constant_workload(request, result);
    }
    for (int64_t size : {shape.queries, shape.keys, shape.depth, shape.width, shape.problems()}) demand(size > 0, "a tensor is empty, so there is nothing to compute");
    shape.causal = request.flag("is_causal");
    shape.scale = request.given("scale") ? request.number("scale") : 1 / std::sqrt(static_cast<double>(shape.depth));
    demand(std::isfinite(shape.scale), "the scale must be a finite number");
    return std::make_unique<AttentionWorkload>(request, std::move(shape));
}

}  // namespace

std::vector<OperatorDeclaration> attention_operators() {
    OperatorDeclaration row;
    row.name = "scaled_dot_product_attention";
    row.schemas = {"scaled_dot_product_attention"};
    row.help = "softmax(scale Q K^T + mask) V";
    row.card.family = "attention";
    row.card.algorithm = "two passes over the scores, which stay in the pads: the largest of a row, then exp and its sums, p V and p 1 through the array; causal: tiles that a block of queries does not see are left out";
    row.card.space = "queries whose scores are in the pads together, those of a block, unrolling of softmax rows and of weight loads";
    row.card.bound = "lanes (comparisons, differences, sums over tiles, exp), array, DRAM, pads, issue; causal: only tiles that are seen";
    row.card.reference = "float64; a row without visible keys gives 0";
    row.card.supports = "bf16, any number of heads, grouped queries, causal, additive masks, any scale; an infinity or NaN in V spreads over its block of 32 x 32";
    row.card.refuses = "keys and values of a head that do not fit the pads with the scores of a block; boolean masks: add 0 or minus infinity instead";
    row.card.fuses = "transposes of the heads of its operands and its result: heads_inside";
    row.tensors = {{"query", {"query"}, "of heads x queries x depth"}, {"key", {"key"}, "of heads x keys x depth"}, {"value", {"value"}, "of heads x keys x width"},
                   {"attn_mask", {"attn_mask"}, "added to the scaled scores, of queries x keys", false}};
    row.attributes = {{"is_causal", "a query sees the keys up to its own position", false}, {"scale", "factor of the scores; 1/sqrt(depth) if it is not given"},
                      {"enable_gqa", "several query heads share the keys and values of one", false},
                      {"heads_inside", "tensors of qkvo whose heads lie inside their rows, of queries x heads x depth", ""}};
    row.example = {{"shape", "12x128x64,12x128x64,12x128x64"}};
    row.ignored = {"dropout_p"};
    row.make = make;
    return {row};
}

}  // namespace atalla
