#include "graph_import/passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "isa/error.h"

namespace atalla {

namespace {

std::vector<Pass> &passes() {
    static std::vector<Pass> all = {
        {"canonicalize", "one form for each meaning: aliases, views, transposes, conversions, norms", canonicalize},
        {"complex", "complex numbers become pairs of real ones, Fourier transforms products with matrices", lower_complex},
        {"decompose", "operators without a kernel as calls of those that have one: einsum, resizing, transposed convolutions",
         decompose},
        {"constants", "compute what depends on no input", fold_constant_calls},
        {"attention", "softmax(Q K^T * scale + masks) V that is written out becomes one operator", find_attention},
        {"masks", "attention masks that are constant become causal or none", fold_masks},
        {"boolean-masks", "boolean masks become numbers: those of attention are added, others are 1 or 0", lower_masks},
        {"strength", "cheaper operators with the same results: 2*x becomes x+x", reduce_strength},
        {"idioms", "calls that one operator stands for: rms_norm, gelu by tanh, attention of grouped heads", find_idioms},
        {"windows", "padding joins convolutions, adaptive pooling becomes pooling or a mean", simplify_windows},
        {"batch-norm", "batch norms become part of the weights before them", fold_batch_norms},
        {"weights", "products with constant matrices become linear, their weights arranged once", arrange_weights},
        {"parts", "splits become slices, linear layers that are used in parts a layer for each", take_parts},
        {"rotations", "rows put together from parts of others, some negated, become products with constant matrices",
         rotate_rows},
        {"layout", "transposes move together and cancel", place_transposes},
        {"channels", "images between convolutions of places have their channels innermost", place_channels},
        {"window-channels", "the same from one convolution with a larger kernel, or pooling, to the next",
         place_channels_of_windows},
        {"common", "equal calls are made once", share_common},
        {"dead", "calls without use go", remove_dead},
    };
    return all;
}

}  // namespace

const std::vector<Pass> &graph_passes() { return passes(); }

const std::vector<std::set<std::string>> &image_layouts() {
    static const std::vector<std::set<std::string>> all = {{}, {"window-channels"}, {"channels", "window-channels"}};
    return all;
}

void register_pass(Pass pass) {
    const auto same = [&](const Pass &other) { return other.name == pass.name; };
    if (std::any_of(passes().begin(), passes().end(), same))
        throw Error(fmt::format("a pass called '{}' is there already", pass.name));
    passes().push_back(std::move(pass));
}

void run_passes(Graph &graph, const PassOptions &options) {
    std::vector<std::string> names;
    for (const Pass &pass : passes()) names.push_back(pass.name);
    for (const std::string &skipped : options.skipped) {
        if (std::find(names.begin(), names.end(), skipped) != names.end()) continue;
        const std::string near = nearest_name(skipped, names);
        throw Error(fmt::format("no pass '{}'{}", skipped, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
    }
    for (const Pass &pass : passes()) {
        if (options.skipped.contains(pass.name)) continue;
        const int changes = pass.run(graph);
        try {
            verify(graph);
        } catch (const Error &error) {
            throw Error(fmt::format("after pass {}: {}", pass.name, error.what()));
        }
        if (options.after) options.after(pass, changes, graph);
    }
}

}  // namespace atalla
