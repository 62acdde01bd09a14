// The passes over an imported graph: each can be skipped, printed after, and is verified.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

struct Pass {
    std::string name;
    std::string help;
    // Returns the number of changes. A pass may rely on nothing but the rules of graph.h: each works alone.
    std::function<int(Graph &)> run;
};

// In the order in which they run.
const std::vector<Pass> &graph_passes();
// Appends a user's pass to those.
void register_pass(Pass pass);

struct PassOptions {
    std::set<std::string> skipped;
    // Called after each pass that ran.
    std::function<void(const Pass &, int changes, const Graph &)> after;
};

// Error naming a skipped pass that does not exist, or the pass after which the graph breaks a rule.
void run_passes(Graph &graph, const PassOptions &options = {});

// What to skip for each layout of images: channels innermost as far as possible, between convolutions of places alone, and
// nowhere.
const std::vector<std::set<std::string>> &image_layouts();

// One function a file in passes/.
int canonicalize(Graph &graph);
int lower_complex(Graph &graph);
int decompose(Graph &graph);
int fold_constant_calls(Graph &graph);
int find_attention(Graph &graph);
int fold_masks(Graph &graph);
int lower_masks(Graph &graph);
int reduce_strength(Graph &graph);
int find_idioms(Graph &graph);
int simplify_windows(Graph &graph);
int fold_batch_norms(Graph &graph);
int arrange_weights(Graph &graph);
int take_parts(Graph &graph);
int rotate_rows(Graph &graph);
int place_transposes(Graph &graph);
int place_channels(Graph &graph);
int place_channels_of_windows(Graph &graph);
int share_common(Graph &graph);
int remove_dead(Graph &graph);

}  // namespace atalla
