// What is asked of kernels: cycles of the tuned schedule beside the lower bound, upstream's figure, and the share of the bound
// or the cycles to reach at least and to aim for. Families of which a mean is asked end with an entry of their own.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "autotune/operator_task.h"
#include "autotune/tuner.h"
#include "generators/evaluate.h"
#include "generators/registry.h"

namespace atalla {
namespace {

// Shares of the lower bound, or cycles (on fsim packets) at most; 0: none is asked.
struct Goal {
    double least_share = 0, aimed_share = 0;
    double most_cycles = 0, aimed_cycles = 0;
};

struct Target {
    std::string machine, kernel;  // as `./atalla tune --machine MACHINE --op KERNEL` takes it, the shape without its name
    Goal goal;
    // Cycles, on fsim packets: the best of upstream's simulator's schedules (its array accumulates as that of ax01-psum), and
    // its kernels on fsim; microarchitecture reference 12.2, 12.3 and 13. 0: no figure.
    double upstream = 0;
    std::string layer = kernel;  // of its variants the family's mean counts the best
    int trials = 32;
};

struct Family {
    std::string name;
    std::vector<Target> targets;
    double least_mean = 0, aimed_mean = 0;  // of the shares, geometric, each machine apart
};

std::vector<Target> all(const std::vector<std::string> &kernels, const Goal &goal) {
    std::vector<Target> targets;
    for (const std::string &kernel : kernels) targets.push_back({"ax01", kernel, goal});
    return targets;
}

std::vector<Target> products() {
    std::vector<Target> targets;
    const auto on = [&](const char *machine, const char *shape, const Goal &goal, double upstream = 0) {
        targets.push_back({machine, std::string("gemm ") + shape, goal, upstream});
    };
    for (const std::string machine : {"ax01", "ax01-psum"}) {
        const bool psum = machine == "ax01-psum";
        const auto here = [&](const char *shape, const Goal &goal, double upstream = 0) {
            on(machine.c_str(), shape, goal, psum ? upstream : 0);
        };
        here("64x64x64", {.least_share = .55, .aimed_share = .85}, 4983);
        here("128x128x128", {.least_share = .65, .aimed_share = .85}, 37887);
        here("256x256x256", {.least_share = .75, .aimed_share = .85});
        const double aimed = psum ? .9 : .97;
        here("512x512x512", {.aimed_share = aimed, .most_cycles = psum ? 222e3 : 400e3});
        here("1024x1024x1024", {.aimed_share = aimed, .most_cycles = psum ? 1.78e6 : 3.3e6}, 11.17e6);
        here("197x768x768", {.least_share = .6, .aimed_share = .85});
        here("100x70x50", {.aimed_share = .85});
        here("4096x1x64", {.aimed_share = .85});
        here("33x33x33", {.aimed_share = .85});
        here("1x4096x4096", {.least_share = .7, .aimed_share = .9});
    }
    on("fsim", "64x64x64", {.most_cycles = 700, .aimed_cycles = 400}, 3078);
    return targets;
}

std::vector<Target> products_of_models() {
    std::vector<Target> targets;
    for (const char *kernel : {"512x128x512",
                               "512x512x128 --b-layout nk",
                               "196x1024x256 --b-layout nk --bias",
                               "196x256x1024 --b-layout nk --bias",
                               "784x128x512 --b-layout nk --bias",
                               "784x512x128 --b-layout nk --bias",
                               "128x768x768 --b-layout nk --bias",
                               "196x1024x512 --b-layout nk --bias",
                               "196x512x1024 --b-layout nk --bias",
                               "3136x128x256 --b-layout nk --bias",
                               "784x256x512 --b-layout nk --bias",
                               "784x512x256 --b-layout nk --bias",
                               "196x256x2304 --b-layout nk --bias",
                               "784x128x1152 --b-layout nk --bias",
                               "196x768x768 --b-layout nk --bias",
                               "197x768x768 --b-layout nk --bias",
                               "128x3072x768 --b-layout nk --bias",
                               "128x768x3072 --b-layout nk --bias",
                               "197x2304x768 --b-layout nk --bias",
                               "1024x768x768 --b-layout kn --bias"}) {
        targets.push_back({"ax01", std::string("gemm ") + kernel, {.least_share = .6, .aimed_share = .85}});
        targets.back().trials = 8;
    }
    return targets;
}

std::vector<Target> convolutions() {
    struct Layer {
        const char *name, *planes, *inside, *weight, *arguments;
        bool shared_on_ax01 = false;  // the order of weights that ./atalla compile takes
    };
    constexpr Layer layers[] = {
        {"ResNet-18 layer1", "1x64x56x56", "1x56x56x64", "64x64x3x3", "--padding 1"},
        {"ResNet-18 layer2", "1x128x28x28", "1x28x28x128", "128x128x3x3", "--padding 1"},
        {"ResNet-18 layer3", "1x256x14x14", "1x14x14x256", "256x256x3x3", "--padding 1"},
        {"ResNet-18 layer4", "1x512x7x7", "1x7x7x512", "512x512x3x3", "--padding 1"},
        {"ResNet-18 conv1", "1x3x224x224", nullptr, "64x3x7x7", "--stride 2 --padding 3", true},
        {"AlexNet conv1", "1x3x224x224", nullptr, "64x3x11x11", "--stride 4 --padding 2"},
        {"AlexNet conv2", "1x64x27x27", "1x27x27x64", "192x64x5x5", "--padding 2"},
        {"AlexNet conv3", "1x192x13x13", "1x13x13x192", "384x192x3x3", "--padding 1"},
        {"AlexNet conv4", "1x384x13x13", "1x13x13x384", "256x384x3x3", "--padding 1"},
        {"AlexNet conv5", "1x256x13x13", "1x13x13x256", "256x256x3x3", "--padding 1"},
    };
    std::vector<Target> targets;
    for (const std::string machine : {"ax01", "ax01-psum"})
        for (const Layer &layer : layers)
            for (const char *image : {layer.planes, layer.inside}) {
                if (!image) continue;
                const char *order = layer.shared_on_ax01 && machine == "ax01" ? "shared" : "packed";
                const std::string kernel = fmt::format("conv2d {},{} {} --weight-layout {}{}", image, layer.weight,
                                                       layer.arguments, order, image == layer.inside ? " --layout nhwc" : "");
                targets.push_back({machine, kernel, {.least_share = .45, .aimed_share = .75}, 0, layer.name, 10});
            }
    return targets;
}

std::vector<Target> attention() {
    std::vector<Target> targets;
    for (const int length : {128, 512, 1024})
        for (const char *mask : {"", " --is-causal"}) {
            const std::string kernel =
                fmt::format("scaled_dot_product_attention 1x1x{0}x64,1x1x{0}x64,1x1x{0}x64{1}", length, mask);
            targets.push_back({"ax01", kernel, {.least_share = .55, .aimed_share = .85}});
            targets.back().trials = 8;
        }
    return targets;
}

// Packets of kernels that upstream publishes.
std::vector<Target> kernels_of_upstream() {
    const auto at_most = [](const char *kernel, double most, double aimed, double upstream) {
        return Target{"fsim", kernel, {.most_cycles = most, .aimed_cycles = aimed}, upstream, kernel};
    };
    return {at_most("relu 1024", 80, 45, 243),
            at_most("softmax 1x32", 16, 13, 21),
            at_most("scaled_dot_product_attention 1x1x32x32,1x1x32x32,1x1x32x32", 450, 250, 1181),
            at_most("conv2d 1x3x8x8,4x3x3x3 --weight-layout banded", 350, 150, 752),
            at_most("conv2d 1x3x32x32,4x3x3x3 --weight-layout banded", 3600, 1400, 11762),
            at_most("conv2d 1x3x224x224,6x3x11x11 --stride 4 --padding 2 --weight-layout banded", 429133 / 4., 42913, 429133),
            at_most("conv2d 1x38x13x13,25x38x3x3 --padding 1 --weight-layout banded", 69409 / 4., 6940, 69409),
            at_most("gemm 1x409x900", 71444 / 4., 7144, 71444),
            at_most("gemm 1x409x409", 32132 / 4., 3213, 32132)};
}

std::vector<Family> families() {
    const Goal moved = {.least_share = .8, .aimed_share = .95}, computed = {.least_share = .65, .aimed_share = .9};
    return {
        {"products", products()},
        {"products of models", products_of_models(), .8, .95},
        {"convolutions", convolutions(), .7, .9},
        {"attention", attention()},
        {"elementwise", all({"relu 65536", "relu 100352", "relu 262144", "add 65536,65536", "add 100352,100352",
                             "add 1000x1000,1000", "add 12x197x197,1x197x197", "gelu 65536", "mul 512x768,512x1",
                             "mul 4x64x28x28,1x64x1x1", "mul 1x128x12x64,1x128x1x64", "mul 512x4096,4096"},
                            moved)},
        {"data movement",
         all({"permute 8x128x12x64 --dims 0,2,1,3", "slice 512x512 --dim 0 --start 64 --end 320",
              "slice 512x512 --dim 1 --start 64 --end 320", "cat 256x256,256x256", "cat 256x100,256x156 --dim 1",
              "pad 256x256 --pad=-1,-1,-1,-1", "pad 1x64x56x56 --pad 1,1,1,1", "roll 256x256 --shifts 3 --dims 0",
              "slice 128x1536 --dim 1 --start 768", "permute 64x64x32 --dims 1,0,2", "expand 1x512 --size 256,512",
              "expand 256x1 --size 256,512", "transpose 512x256 --dim0 0 --dim1 1", "transpose 1024x1024 --dim0 0 --dim1 1",
              "permute 1x128x28x28 --dims 0,2,3,1", "permute 197x768 --dims 1,0"},
             moved)},
        {"rows", all({"softmax 1024x128", "softmax 128x512", "softmax 256x1024", "softmax 128x2048", "softmax 64x1000",
                      "layer_norm 512x768,768,768", "layer_norm 64x1000,1000,1000", "layer_norm 128x2048,2048,2048",
                      "layer_norm 64x4096,4096,4096", "rms_norm 64x1000,1000", "rms_norm 1024x768,768",
                      "rms_norm 128x2048,2048", "rms_norm 64x4096,4096"},
                     computed)},
        {"reductions", all({"sum 512x1024 --dim 1", "sum 512x1024 --dim 0", "sum 40x3000 --dim 1", "sum 8x12x50x64 --dim 1,3",
                            "mean 8x512x768 --dim 1", "mean 12x197x197 --dim 2", "var 8x12x50x64 --dim 1,3",
                            "amax 512x1024 --dim 1", "amax 512x128 --dim 1", "amax 64x2048 --dim 1", "amax 40x3000 --dim 1",
                            "amax 8x12x50x64 --dim 1,3", "amax 512x1024 --dim 0", "amax 8x128x256 --dim 1"},
                           computed)},
        {"pooling", all({"max_pool2d 1x112x112x64 --kernel-size 3 --stride 2 --padding 1 --layout nhwc",
                         "max_pool2d 1x64x56x56 --kernel-size 3 --stride 2", "avg_pool2d 1x64x56x56 --kernel-size 2 --stride 2",
                         "avg_pool2d 1x512x14x14 --kernel-size 2 --stride 2",
                         "avg_pool2d 1x192x35x35 --kernel-size 3 --stride 1 --padding 1",
                         "max_pool2d 1x192x28x28 --kernel-size 3 --stride 1 --padding 1",
                         "max_pool2d 1x480x14x14 --kernel-size 3 --stride 2 --ceil-mode",
                         "adaptive_avg_pool2d 1x256x20x20 --output-size 6,6"},
                        computed)},
        {"kernels of upstream", kernels_of_upstream()},
    };
}

// The operator and what its workload takes, of "gemm 64x64x64 --b-layout nk --bias".
std::shared_ptr<const Workload> workload_of(const std::string &kernel) {
    std::istringstream words(kernel);
    std::string op, shape, word, name;
    words >> op >> shape;
    WorkloadArguments arguments = {{"shape", shape}};
    while (words >> word) {
        if (!word.starts_with("--")) {
            arguments[name] = word;
            continue;
        }
        const size_t equals = word.find('=');
        name = word.substr(2, equals - 2);
        arguments[name] = equals == std::string::npos ? "true" : word.substr(equals + 1);
    }
    return find_operator(op).workload(arguments);
}

// Best share by machine and layer.
using Shares = std::map<std::string, std::map<std::string, double>>;

// One run without a database is the measurement: simulated cycles repeat exactly.
void tuned(benchmark::State &state, const Target &target, Shares &shares) {
    for (auto _ : state) {
        try {
            const auto evaluator = std::make_shared<const Evaluator>(workload_of(target.kernel), find_machine(target.machine));
            TuneOptions options;
            options.max_trials = target.trials;
            options.progress = ProgressMode::Quiet;
            const Operator &op = find_operator(target.kernel.substr(0, target.kernel.find(' ')));
            const TuneResult result = tune(tuning_task(op, evaluator), nullptr, options);
            if (!result.found || !result.verified) {
                state.SkipWithError(result.notes.empty() ? "no verified schedule" : result.notes.front().c_str());
                continue;
            }
            const auto cycles = static_cast<double>(result.cycles),
                       bound = static_cast<double>(evaluator->workload().bound(evaluator->machine()).cycles),
                       share = bound / cycles;
            double &best = shares[target.machine][target.layer];
            best = std::max(best, share);
            const Goal &goal = target.goal;
            state.counters["cycles"] = cycles;
            state.counters["bound"] = bound;
            state.counters["bound_share"] = share;
            const std::pair<const char *, double> asked[] = {{"upstream", target.upstream},
                                                             {"least_share", goal.least_share},
                                                             {"aimed_share", goal.aimed_share},
                                                             {"most_cycles", goal.most_cycles},
                                                             {"aimed_cycles", goal.aimed_cycles}};
            for (const auto &[name, value] : asked)
                if (value > 0) state.counters[name] = value;
            state.counters["reached"] = share >= goal.least_share && (goal.most_cycles == 0 || cycles <= goal.most_cycles);
            state.SetLabel(result.best.assignments());
        } catch (const std::exception &error) {
            state.SkipWithError(error.what());
        }
    }
}

// Of what was measured of the family, which a filter may have left out in part.
void mean(benchmark::State &state, const Family &family, const std::map<std::string, double> &shares) {
    double logarithms = 0, worst = 1;
    for (const auto &[layer, share] : shares) {
        logarithms += std::log(share);
        worst = std::min(worst, share);
    }
    for (auto _ : state)
        if (shares.empty()) state.SkipWithError("no kernel of the family was measured");
    if (shares.empty()) return;
    const double mean = std::exp(logarithms / static_cast<double>(shares.size()));
    state.counters["kernels"] = static_cast<double>(shares.size());
    state.counters["bound_share"] = mean;
    state.counters["worst_share"] = worst;
    state.counters["least_share"] = family.least_mean;
    state.counters["aimed_share"] = family.aimed_mean;
    state.counters["reached"] = mean >= family.least_mean;
}

}  // namespace
}  // namespace atalla

int main(int argc, char **argv) {
    using namespace atalla;
    const std::vector<Family> families = atalla::families();
    std::map<std::string, Shares> shares;  // by family
    const auto once = [](const std::string &name, const auto &run) {
        benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();
    };
    for (const Family &family : families) {
        Shares &measured = shares[family.name];
        for (const Target &target : family.targets) {
            measured[target.machine];
            once(family.name + "/" + target.machine + "/" + target.kernel,
                 [&](benchmark::State &state) { tuned(state, target, measured); });
        }
        if (family.least_mean > 0)
            for (const auto &[machine, layers] : measured)
                once(family.name + "/" + machine + "/mean",
                     [&family, &layers](benchmark::State &state) { mean(state, family, layers); });
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
