// Contexts: inputs of any stride, states, kernels of the caller, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "isa/error.h"
#include "runtime/context.h"
#include "tests/runtime/small_model.h"

namespace atalla {
namespace {

std::shared_ptr<const Model> loaded(const loadable::ModelT &model) {
    return Model::from_bytes(loadable_bytes(model), "small.atl");
}

HostTensor floats(std::vector<int64_t> sizes, const std::vector<float> &values) {
    return tensor_of_values(ResultType{DType::Float32, std::move(sizes)}, values);
}
std::vector<float> values(const HostTensor &tensor) { return values_of<float>(tensor); }

TEST(Context, RunsAndKeepsItsStates) {
    Context context(loaded(small_model()));
    context.set_input(0, floats({2, 3}, {-1, 2, -3, 4, -5, 6}));
    for (float call : {1.0f, 2.0f, 3.0f}) {
        context.run();
        EXPECT_THAT(values(context.output(0)), testing::ElementsAre(10, 22, 30, 14, 20, 36));
        EXPECT_THAT(values(context.output(1)), testing::ElementsAre(call));
    }
    context.reset_states();
    context.run();
    EXPECT_THAT(values(context.output(1)), testing::ElementsAre(1));
    EXPECT_EQ(context.counters().runs, 4u);
    EXPECT_EQ(context.counters().host_calls, 3u);
    EXPECT_EQ(context.profile().size(), 3u);
}

TEST(Context, TakesTheStatesOfAnother) {
    const std::shared_ptr<const Model> model = loaded(small_model());
    Context first(model), second(model);
    for (Context *context : {&first, &second}) context->set_input(0, floats({2, 3}, {-1, 2, -3, 4, -5, 6}));
    first.run();
    first.run();
    second.take_states(first);
    second.run();
    EXPECT_THAT(values(second.output(1)), testing::ElementsAre(3));
    first.run();
    EXPECT_THAT(values(first.output(1)), testing::ElementsAre(3)) << "the states of the two are apart again";
    loadable::ModelT other = small_model();
    other.states.clear();
    other.specializations[0]->mutations.clear();
    for (auto &value : other.specializations[0]->values) value->state = -1;
    EXPECT_THROW(second.take_states(Context(loaded(other))), Error);
}

TEST(Context, TakesInputsOfAnyStride) {
    Context context(loaded(small_model()));
    HostTensor transposed = floats({3, 2}, {-1, 4, 2, -5, -3, 6});
    transposed.sizes = {2, 3};
    transposed.strides = {1, 2};
    context.set_input(0, transposed);
    context.run();
    EXPECT_THAT(values(context.output(0)), testing::ElementsAre(10, 22, 30, 14, 20, 36));
    HostTensor broadcast = floats({1}, {5});
    broadcast.sizes = {2, 3};
    broadcast.strides = {0, 0};
    context.set_input(0, broadcast);
    context.run();
    EXPECT_THAT(values(context.output(0)), testing::ElementsAre(15, 25, 35, 15, 25, 35));
}

TEST(Context, ThreadsShareAModel) {
    const std::shared_ptr<const Model> model = loaded(small_model());
    std::vector<std::thread> threads;
    std::vector<std::vector<float>> counts(4);
    for (size_t t = 0; t < counts.size(); t++)
        threads.emplace_back([&, t] {
            Context context(model);
            context.set_input(0, floats({2, 3}, std::vector<float>(6, static_cast<float>(t))));
            for (size_t i = 0; i <= t; i++) context.run();
            counts[t] = values(context.output(1));
            counts[t].push_back(values(context.output(0))[0]);
        });
    for (std::thread &thread : threads) thread.join();
    for (size_t t = 0; t < counts.size(); t++)
        EXPECT_THAT(counts[t], testing::ElementsAre(static_cast<float>(t + 1), static_cast<float>(10 + t)));
}

TEST(Context, RefusesWhatDoesNotFit) {
    Context context(loaded(small_model()));
    const auto message = [](const std::string &text) { return testing::ThrowsMessage<Error>(testing::HasSubstr(text)); };
    EXPECT_THAT([&] { context.run(); }, message("input 'x' is not set"));
    EXPECT_THAT([&] { context.output(0); }, message("there are no outputs yet: run the model first"));
    EXPECT_THAT([&] { context.output(7); }, message("there is no output 7: the model has 2"));
    EXPECT_THAT([&] { context.set_input(1, floats({1}, {0})); }, message("there is no input 1: the model has 1"));
    EXPECT_THAT(
        [&] {
            context.set_input(0, make_tensor(DType::Int64, {2, 3}));
        },
        message("input 'x' holds int64, but the model takes float32"));
    EXPECT_THAT([&] { context.set_input(0, floats({6}, std::vector<float>(6))); },
                message("input 'x' has 1 dimensions, but the model takes 2"));
    context.set_input(0, floats({3, 2}, std::vector<float>(6)));
    EXPECT_THAT([&] { context.run(); }, message("input 'x' has sizes [3, 2], but the model is compiled for [2, 3]"));
}

TEST(Context, RunsKernelsOfTheCaller) {
    loadable::ModelT model = small_model();
    model.specializations[0]->steps[0] = host_step("mylib::negate", {0}, 2);
    const std::shared_ptr<const Model> shared = loaded(model);
    Context before(shared);
    before.set_input(0, floats({2, 3}, std::vector<float>(6, 1)));
    EXPECT_THAT([&] { before.run(); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("there is no host kernel 'mylib::negate'")));

    register_host_kernel("mylib::negate", [](const UserCall &call) {
        std::vector<float> x = values_of<float>(call.tensor("self"));
        for (float &value : x) value = -value;
        return std::vector{tensor_of_values(call.result(), x)};
    });
    Context after(shared);
    after.set_input(0, floats({2, 3}, std::vector<float>(6, 1)));
    after.run();
    EXPECT_THAT(values(after.output(0)), testing::ElementsAre(9, 19, 29, 9, 19, 29));

    register_host_kernel("mylib::negate", [](const UserCall &) { return std::vector{make_tensor(DType::Float32, {1})}; });
    Context wrong(shared);
    wrong.set_input(0, floats({2, 3}, std::vector<float>(6, 1)));
    EXPECT_THAT([&] { wrong.run(); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("gave result 0 with another type or other sizes")));
}

}  // namespace
}  // namespace atalla
