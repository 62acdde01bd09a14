#include "generators/attention_operator.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "generators/attention.h"
#include "generators/attention_forms.h"
#include "generators/movement.h"
#include "generators/pipeline_workload.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

namespace {

class AttentionWorkload : public PipelineWorkload {
public:
    AttentionWorkload(const WorkloadRequest &request, AttentionShape shape, const Shape &result)
        : PipelineWorkload(request), shape_(std::move(shape)) {
        inputs_ = {{"Q", shape_.q_extents()}, {"K", shape_.k_extents()}, {"V", shape_.v_extents()}};
        if (shape_.mask) inputs_.push_back({"mask", shape_.mask_extents()});
        outputs_ = {{"O", shape_.out_extents()}};
        result_shape_ = result;
    }

    double flops() const override {
        return static_cast<double>(shape_.problems()) * static_cast<double>(shape_.queries) * static_cast<double>(shape_.keys) *
               2 * static_cast<double>(shape_.depth + shape_.width + 2);
    }

    Space space(const Machine &machine) const override { return form(machine).space(shape_, machine); }
    Point naive_point(const Machine &machine) const override { return form(machine).naive_point(shape_, machine); }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        return form(machine).kernel(shape_, machine, point);
    }
    double draft(const Machine &machine, const Point &point) const override {
        return form(machine).draft(shape_, machine, point);
    }

    // The machine's result, element by element, is what a softmax in bf16 makes of scores with an error: a wrong score moves
    // its weight by as much as the score is large.
    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        Reference result;
        for (std::vector<double> *list : {&result.values, &result.peaks})
            list->resize(static_cast<size_t>(shape_.problems() * shape_.queries * shape_.width));
        for (int64_t problem = 0; problem < shape_.problems(); problem++) {
            int64_t keys_at = 0, mask_at = 0, rest = problem, keys_stride = 1, mask_stride = 1;
            for (size_t d = shape_.batch.size(); d-- > 0;) {
                const int64_t index = rest % shape_.batch[d].extent;
                rest /= shape_.batch[d].extent;
                if (shape_.batch[d].keys) keys_at += index * std::exchange(keys_stride, keys_stride * shape_.batch[d].extent);
                if (shape_.batch[d].mask)
                    mask_at += shape_.batch[d].mask_of(index) * std::exchange(mask_stride, mask_stride * shape_.batch[d].masks);
            }
            const Rows q = rows_of('q', problem, shape_.queries, shape_.depth),
                       k = rows_of('k', keys_at, shape_.keys, shape_.depth);
            const Rows v = rows_of('v', keys_at, shape_.keys, shape_.width),
                       o = rows_of('o', problem, shape_.queries, shape_.width);
            const uint16_t *mask = shape_.mask ? inputs[3].data() + mask_at * shape_.queries * shape_.keys : nullptr;
            for (int64_t i = 0; i < shape_.queries; i++)
                reference_row(inputs, q.at(i), k, v, mask != nullptr ? mask + i * shape_.keys : nullptr, i,
                              &result.values[static_cast<size_t>(o.at(i))], &result.peaks[static_cast<size_t>(o.at(i))]);
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
        for (int64_t i = 0; i < shape_.queries; i++)
            seen += tiles_of(shape_.causal ? std::min(i + 1, shape_.keys) : shape_.keys);
        const int64_t depth_tiles = tiles_of(shape_.depth), width_tiles = tiles_of(shape_.width),
                      key_tiles = tiles_of(shape_.keys), problems = shape_.problems();
        const bool sums_on_lanes = !(machine.sa.psum_in);
        // Differences from the largest; comparisons; the sums of products and of p over the tiles of keys and of the depth.
        int64_t adds = seen + (seen - shape_.queries);
        // Those of p are of 32 rows at a time where these are weights of the array.
        if (sums_on_lanes)
            adds += seen * (depth_tiles - 1) + (seen - shape_.queries) * width_tiles + (seen - shape_.queries) / lanes;
        work.lanes.adds = problems * adds;
        work.lanes.exps = problems * seen;
        if (shape_.scale != 1) work.lanes.muls = problems * std::min(seen, shape_.queries * depth_tiles);
        // The values of a single query are as little work for lanes.
        const int64_t turned = shape_.queries == 1 ? 0 : width_tiles;
        work.array_rows = problems * seen * (depth_tiles + turned);
        int64_t heads = 1;
        for (const AttentionBatch &dim : shape_.batch)
            if (dim.keys) heads *= dim.extent;
        work.array_loads = heads * key_tiles * (depth_tiles + turned);
        work.array_tiles = heads * key_tiles * (depth_tiles + turned);
        work.rows_loaded = shape_.queries * depth_tiles;
        work.rows_stored = problems * shape_.queries * width_tiles;
        return work;
    }

private:
    const AttentionForm &form(const Machine &machine) const { return attention_form(shape_, machine); }

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

    void reference_row(const std::vector<TensorData> &inputs, int64_t q_at, const Rows &k_rows, const Rows &v_rows,
                       const uint16_t *mask, int64_t i, double *values, double *peaks) const {
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

// Heads of one query each that share keys and values are the queries of one head, wherever their tensors have them.
void share_keys(AttentionShape &shape) {
    if (shape.queries != 1 || shape.causal || shape.batch.empty() || shape.batch.back().keys) return;
    if (shape.mask && !shape.batch.back().mask) return;
    shape.queries = shape.batch.back().extent;
    shape.batch.pop_back();
    if (shape.head_dims > 0) shape.head_dims--;
    std::erase_if(shape.heads_inside, [](char tensor) { return tensor == 'q' || tensor == 'o'; });
}

std::unique_ptr<Workload> make(const WorkloadRequest &request) {
    Shape q = request.shape("query"), k = request.shape("key"), v = request.shape("value");
    demand(q.size() >= 2 && k.size() == q.size() && v.size() == q.size(),
           fmt::format("query, key and value must have as many dimensions, at least 2, not {}, {} and {}", q.size(), k.size(),
                       v.size()));
    const size_t rank = q.size();
    AttentionShape shape;
    shape.heads_inside = request.word("heads_inside");
    demand(shape.heads_inside.find_first_not_of("qkvo") == std::string::npos,
           fmt::format("heads_inside names tensors of 'qkvo', not '{}'", shape.heads_inside));
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
    demand(Shape(v.begin(), v.end() - 2) == key_leads,
           fmt::format("key {} and value {} have different leading dimensions", shape_text(k), shape_text(v)));
    Shape mask_leads = leads;
    if (request.has("attn_mask")) {
        const Shape &mask = request.shape("attn_mask");
        demand(!request.flag("is_causal"), "a mask and is_causal exclude each other");
        demand(mask.size() >= 2 && mask[mask.size() - 1] == shape.keys && mask[mask.size() - 2] == shape.queries,
               fmt::format("a mask of {} is not of queries x keys, {}x{}; expand it first", shape_text(mask), shape.queries,
                           shape.keys));
        mask_leads.assign(mask.begin(), mask.end() - 2);
        demand(broadcast_shape("scaled_dot_product_attention", {mask_leads, leads}) == leads,
               fmt::format("a mask of {} does not broadcast to the queries {}", shape_text(mask), shape_text(q)));
        mask_leads.insert(mask_leads.begin(), leads.size() - mask_leads.size(), 1);
        shape.mask = true;
    }
    for (size_t d = 0; d < leads.size(); d++) {
        const bool grouped = request.flag("enable_gqa") && d + 1 == leads.size() && key_leads[d] != leads[d];
        if (grouped) {
            demand(key_leads[d] > 0 && leads[d] % key_leads[d] == 0,
                   fmt::format("{} query heads are not a multiple of {} key heads", leads[d], key_leads[d]));
            demand(mask_leads[d] == 1 || mask_leads[d] == leads[d], "the mask's heads do not fit");
            shape.batch.push_back({key_leads[d], true, mask_leads[d] != 1});
            shape.batch.push_back({leads[d] / key_leads[d], false, mask_leads[d] != 1});
        } else {
            demand(key_leads[d] == leads[d] || key_leads[d] == 1,
                   fmt::format("query {} and key {} have different leading dimensions", shape_text(q), shape_text(k)));
            shape.batch.push_back({leads[d], key_leads[d] == leads[d], mask_leads[d] == leads[d]});
        }
    }
    // Problems that share masks have those of their own, if these are small enough to come beside the computation, and they
    // will not be the queries of one head.
    constexpr int64_t most_scores = 128 * 128;
    std::vector<AttentionBatch> dims;
    for (size_t d = 0; d < shape.batch.size(); d++) {
        const AttentionBatch &dim = shape.batch[d];
        if (dim.extent == 1) continue;
        const bool own_masks = shape.queries * shape.keys <= most_scores && (dim.keys || shape.queries > 1);
        // Heads are no part of the rest where rows may lie between the two.
        const bool is_head = d + 1 >= leads.size(),
                   begins_heads = is_head && shape.head_dims == 0 && !shape.heads_inside.empty();
        if (!begins_heads && !dims.empty() && dims.back().keys == dim.keys &&
            (!shape.mask || dims.back().may_join(dim, own_masks)))
            dims.back().join(dim);
        else {
            dims.push_back(dim);
            shape.head_dims += is_head;
        }
    }
    shape.batch = std::move(dims);
    Shape result = q;
    result.back() = shape.width;
    if (shape.heads_inside.find('o') != std::string::npos) std::swap(result[rank - 2], result[rank - 3]);
    if (shape.queries * shape.width * shape.problems() == 0) return constant_workload(request, result);
    for (int64_t size : {shape.queries, shape.keys, shape.depth, shape.width, shape.problems()})
        demand(size > 0, "a tensor is empty, so there is nothing to compute");
    shape.causal = request.flag("is_causal");
    share_keys(shape);
    shape.scale = request.given("scale") ? request.number("scale") : 1 / std::sqrt(static_cast<double>(shape.depth));
    demand(std::isfinite(shape.scale), "the scale must be a finite number");
    const int64_t key_block = request.integer("key_block");
    demand(key_block >= 0 && key_block % (2 * lanes) == 0,
           fmt::format("key_block must be a multiple of {}, not {}", 2 * lanes, key_block));
    demand(
        key_block == 0 || key_block >= shape.keys || shape.takes_key_blocks(),
        fmt::format("with a causal mask keys come by blocks for at least {} queries, and as many keys as queries", 2 * lanes));
    shape.key_tiles = key_block / lanes;
    return std::make_unique<AttentionWorkload>(request, std::move(shape), result);
}

}  // namespace

std::vector<OperatorDeclaration> attention_operators() {
    OperatorDeclaration row;
    row.name = "scaled_dot_product_attention";
    row.schemas = {"scaled_dot_product_attention"};
    row.help = "softmax(scale Q K^T + mask) V";
    row.card.family = "attention";
    row.card.algorithm =
        "two passes over the scores, which stay in the pads: the largest of a row, then exp and its sums, p V and p 1 through "
        "the array; long rows by blocks of keys whose sums are joined (online); causal: tiles that a block of queries does not "
        "see are left out; one query a head: p V in lanes";
    row.card.space =
        "queries whose scores are in the pads together, those of a block, unrolling of softmax rows and of weight loads; one "
        "query a head: heads that go through each step together, keys that come at a time";
    row.card.bound =
        "lanes (comparisons, differences, sums over tiles, exp), array, DRAM, pads, issue; causal: only tiles that are seen";
    row.card.reference = "float64; a row without visible keys gives 0";
    row.card.supports =
        "bf16, any number of heads, grouped queries, causal, additive masks, any scale; an infinity or NaN in V spreads over "
        "its block of 32 x 32";
    row.card.refuses =
        "boolean masks: add 0 or minus infinity instead; masks that broadcast along queries or keys: expand them; on fsim rows "
        "of more keys than its registers hold";
    row.card.fuses = "transposes of the heads of its operands and its result: heads_inside";
    row.tensors = {{"query", {"query"}, "of heads x queries x depth"},
                   {"key", {"key"}, "of heads x keys x depth"},
                   {"value", {"value"}, "of heads x keys x width"},
                   {"attn_mask", {"attn_mask"}, "added to the scaled scores, of queries x keys", false}};
    row.attributes = {{"is_causal", "a query sees the keys up to its own position", false},
                      {"scale", "factor of the scores; 1/sqrt(depth) if it is not given"},
                      {"enable_gqa", "several query heads share the keys and values of one", false},
                      {"key_block",
                       "keys whose scores are computed together, of machines with timing; the softmaxes of such blocks are "
                       "joined (online); 0: all keys if the pads hold them, else up to 512",
                       0},
                      {"heads_inside", "tensors of qkvo whose heads lie inside their rows, of queries x heads x depth", ""}};
    row.example = {{"shape", "12x128x64,12x128x64,12x128x64"}};
    row.ignored = {"dropout_p"};
    row.make = make;
    return {row};
}

}  // namespace atalla
