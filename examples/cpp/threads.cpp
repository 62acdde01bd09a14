// Several threads share one compiled model, each with a context of its own, and count cycles. Every input is float32.
//   threads model.atl
#include <atalla.h>

#include <cstdio>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(atalla_status status) {
    if (status != ATALLA_OK) throw std::runtime_error(atalla_last_error());
}

struct Release {
    void operator()(atalla_model *model) const { atalla_model_release(model); }
    void operator()(atalla_context *context) const { atalla_context_release(context); }
};

std::unique_ptr<atalla_model, Release> load(const char *file) {
    atalla_model *model = nullptr;
    check(atalla_model_load(file, &model));
    return std::unique_ptr<atalla_model, Release>(model);
}

// Runs the model twice on inputs filled with `value`; the second run loads no program.
atalla_counters run(const atalla_model *model, float value) {
    atalla_context *made = nullptr;
    check(atalla_context_create(model, 0, &made));
    const std::unique_ptr<atalla_context, Release> context(made);
    for (size_t i = 0; i < atalla_model_inputs(model); i++) {
        const char *name = nullptr;
        int32_t rank = 0;
        int64_t sizes[ATALLA_MAX_RANK];
        check(atalla_model_input(model, i, &name, nullptr, &rank, sizes));
        int64_t elements = 1;
        for (int32_t d = 0; d < rank; d++) {
            if (sizes[d] < 0) throw std::runtime_error("the sizes of input " + std::string(name) + " differ from call to call");
            elements *= sizes[d];
        }
        std::vector<float> data(static_cast<size_t>(elements), value);
        const atalla_tensor tensor = {data.data(), ATALLA_FLOAT32, rank, sizes, nullptr};
        check(atalla_set_input(context.get(), i, &tensor));
    }
    check(atalla_run(context.get()));
    check(atalla_run(context.get()));
    atalla_counters counters = {};
    check(atalla_get_counters(context.get(), &counters));
    return counters;
}

}  // namespace

int main(int argc, char **argv) {
    try {
        if (argc != 2) throw std::runtime_error("usage: threads MODEL.atl");
        const auto model = load(argv[1]);
        std::vector<std::future<atalla_counters>> runs;
        for (int t = 0; t < 4; t++) runs.push_back(std::async(std::launch::async, run, model.get(), static_cast<float>(t)));
        for (std::future<atalla_counters> &one : runs) {
            const atalla_counters c = one.get();
            std::printf("%llu cycles, %llu runs, %llu programs loaded\n", static_cast<unsigned long long>(c.cycles),
                        static_cast<unsigned long long>(c.runs), static_cast<unsigned long long>(c.programs_loaded));
        }
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "threads: %s\n", error.what());
        return 1;
    }
}
