#include "tools/independent_items.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "generators/evaluate.h"
#include "schedules/random.h"

namespace atalla {

namespace {

constexpr double most_flops = 1e8;
constexpr uint64_t data_seed = 77;

using Shape = std::vector<int64_t>;

// Products of the outermost extents: into how many contiguous parts of equal shape a tensor falls.
std::set<int64_t> divisions(const Shape &shape) {
    std::set<int64_t> products;
    int64_t product = 1;
    for (const int64_t extent : shape) products.insert(product *= extent);
    return products;
}

class Experiment {
public:
    Experiment(const Workload &workload, const Machine &machine)
        : workload_(workload),
          machine_(machine),
          data_(random_inputs(workload.inputs(), DataSet::Normal, data_seed)),
          other_(random_inputs(workload.inputs(), DataSet::Normal, data_seed + 1)),
          results_(workload.host_result(machine, data_)) {}

    bool holds(const IndependentItems &guess) const { return is_local(guess) && moves_along(guess); }

private:
    using Tensors = std::vector<TensorData>;

    static void copy_part(const TensorData &from, int64_t from_part, TensorData &to, int64_t to_part, int64_t items) {
        const int64_t part = static_cast<int64_t>(from.size()) / items;
        std::copy_n(from.begin() + from_part * part, part, to.begin() + to_part * part);
    }

    // Every third part gets other data: the others' results stay.
    bool is_local(const IndependentItems &guess) const {
        Tensors inputs = data_, expected = results_;
        const auto changes = [](int64_t part) { return part % 3 == 0; };
        for (size_t i = 0; i < inputs.size(); i++)
            for (int64_t part = 0; guess.sliced[i] && part < guess.items; part++)
                if (changes(part)) copy_part(other_[i], part, inputs[i], part, guess.items);
        const Tensors results = workload_.host_result(machine_, inputs);
        for (size_t i = 0; i < results.size(); i++)
            for (int64_t part = 0; part < guess.items; part++)
                if (changes(part)) copy_part(results[i], part, expected[i], part, guess.items);
        return results == expected;
    }

    bool moves_along(const IndependentItems &guess) const {
        std::vector<int64_t> place(static_cast<size_t>(guess.items));
        std::iota(place.begin(), place.end(), 0);
        Random random(data_seed);
        random.shuffle(place);
        Tensors inputs = data_, expected = results_;
        for (int64_t part = 0; part < guess.items; part++) {
            const int64_t to = place[static_cast<size_t>(part)];
            for (size_t i = 0; i < inputs.size(); i++)
                if (guess.sliced[i]) copy_part(data_[i], part, inputs[i], to, guess.items);
            for (size_t i = 0; i < results_.size(); i++) copy_part(results_[i], part, expected[i], to, guess.items);
        }
        return workload_.host_result(machine_, inputs) == expected;
    }

    const Workload &workload_;
    const Machine &machine_;
    Tensors data_, other_, results_;
};

// Every way to take the inputs that can be divided so as sliced or whole, most of them sliced first; at least one is.
std::vector<std::vector<bool>> ways_to_slice(const std::vector<Shape> &shapes, int64_t items) {
    std::vector<size_t> possible;
    for (size_t i = 0; i < shapes.size(); i++)
        if (divisions(shapes[i]).contains(items)) possible.push_back(i);
    constexpr size_t most_inputs = 4;
    std::vector<std::vector<bool>> ways;
    if (possible.size() > most_inputs) return ways;
    for (uint32_t choice = (1u << possible.size()) - 1; choice > 0; choice--) {
        std::vector<bool> sliced(shapes.size(), false);
        for (size_t bit = 0; bit < possible.size(); bit++) sliced[possible[bit]] = (choice >> bit & 1) != 0;
        ways.push_back(std::move(sliced));
    }
    std::stable_sort(ways.begin(), ways.end(), [](const auto &one, const auto &other) {
        return std::ranges::count(one, true) > std::ranges::count(other, true);
    });
    return ways;
}

}  // namespace

IndependentItems independent_items(const Workload &workload, const Machine &machine, const std::vector<Shape> &shapes) {
    if (workload.flops() > most_flops || shapes.size() != workload.inputs().size()) return {};
    std::set<int64_t> candidates;
    for (const TensorSpec &output : workload.outputs()) {
        const Shape outermost_first(output.extents.rbegin(), output.extents.rend());
        std::set<int64_t> here = divisions(outermost_first);
        // A result that is described flat may be divided as the inputs are.
        for (const Shape &shape : shapes)
            for (const int64_t items : divisions(shape))
                if (output.elements() % items == 0) here.insert(items);
        if (candidates.empty())
            candidates = here;
        else
            std::erase_if(candidates, [&](int64_t items) { return !here.contains(items); });
    }
    candidates.erase(1);
    if (candidates.empty()) return {};
    const Experiment experiment(workload, machine);
    for (auto items = candidates.rbegin(); items != candidates.rend(); ++items)
        for (std::vector<bool> &sliced : ways_to_slice(shapes, *items))
            if (IndependentItems guess{*items, std::move(sliced)}; experiment.holds(guess)) return guess;
    return {};
}

}  // namespace atalla
