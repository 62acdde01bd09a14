// The C interface: what programs see of models and contexts, and how their mistakes are reported.
#include "runtime/include/atalla.h"

#include <atomic>
#include <climits>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/small_model.h"

namespace {

class CInterface : public testing::Test {
protected:
    void SetUp() override {
        const std::vector<uint8_t> bytes = atalla::loadable_bytes(atalla::small_model());
        ASSERT_EQ(atalla_model_load_memory(bytes.data(), bytes.size(), &model_), ATALLA_OK) << atalla_last_error();
        ASSERT_EQ(atalla_context_create(model_, 0, &context_), ATALLA_OK) << atalla_last_error();
    }
    void TearDown() override {
        atalla_context_release(context_);
        atalla_model_release(model_);
    }
    atalla_tensor tensor(float *data, const int64_t *strides = nullptr) const {
        return {data, ATALLA_FLOAT32, 2, sizes_, strides};
    }

    const int64_t sizes_[2] = {2, 3};
    atalla_model *model_ = nullptr;
    atalla_context *context_ = nullptr;
};

TEST_F(CInterface, DescribesTheModel) {
    EXPECT_EQ(atalla_model_inputs(model_), 1u);
    EXPECT_EQ(atalla_model_outputs(model_), 2u);
    const char *name = nullptr;
    int32_t dtype = 0, rank = 0;
    int64_t sizes[ATALLA_MAX_RANK];
    ASSERT_EQ(atalla_model_input(model_, 0, &name, &dtype, &rank, sizes), ATALLA_OK);
    EXPECT_STREQ(name, "x");
    EXPECT_EQ(dtype, ATALLA_FLOAT32);
    EXPECT_EQ(rank, 2);
    EXPECT_EQ(sizes[1], 3);
    EXPECT_EQ(atalla_model_output(model_, 1, &name, nullptr, nullptr, nullptr), ATALLA_OK);
    EXPECT_STREQ(name, "count");
    EXPECT_EQ(atalla_model_input(model_, 1, &name, nullptr, nullptr, nullptr), ATALLA_INVALID_ARGUMENT);
    EXPECT_THAT(atalla_last_error(), testing::HasSubstr("there is no 1, only 1"));
    EXPECT_THAT(atalla_model_json(model_), testing::HasSubstr("\"machine\":\"ax01\""));
    EXPECT_STRNE(atalla_version(), "");
}

TEST_F(CInterface, Runs) {
    float x[6] = {6, -5, 4, -3, 2, -1};
    const int64_t backwards[2] = {-3, -1};
    const atalla_tensor input = tensor(x + 5, backwards);  // -1 2 -3 4 -5 6
    ASSERT_EQ(atalla_set_input(context_, 0, &input), ATALLA_OK) << atalla_last_error();
    ASSERT_EQ(atalla_run(context_), ATALLA_OK) << atalla_last_error();
    atalla_tensor output;
    ASSERT_EQ(atalla_get_output(context_, 0, &output), ATALLA_OK);
    const auto *y = static_cast<const float *>(output.data);
    EXPECT_THAT(std::vector<float>(y, y + 6), testing::ElementsAre(10, 22, 30, 14, 20, 36));
    float columns[6] = {};
    const int64_t transposed[2] = {1, 2};
    const atalla_tensor target = tensor(columns, transposed);
    ASSERT_EQ(atalla_copy_output(context_, 0, &target), ATALLA_OK);
    EXPECT_THAT(columns, testing::ElementsAre(10, 14, 22, 20, 30, 36));
    atalla_counters counters;
    ASSERT_EQ(atalla_get_counters(context_, &counters), ATALLA_OK);
    EXPECT_EQ(counters.runs, 1u);
    EXPECT_EQ(counters.host_calls, 3u);
    EXPECT_THAT(atalla_profile_json(context_), testing::HasSubstr("aten::relu"));
    EXPECT_EQ(atalla_run_traced(context_, "small.pftrace"), ATALLA_FAILED);
    EXPECT_STREQ(atalla_last_error(), "nothing of the model runs on the accelerator, so there is nothing to trace");
}

TEST_F(CInterface, ReportsMistakes) {
    const auto refused = [](atalla_status status, const char *text) {
        EXPECT_EQ(status, ATALLA_INVALID_ARGUMENT) << text;
        EXPECT_THAT(atalla_last_error(), testing::HasSubstr(text));
    };
    float x[6] = {};
    atalla_tensor input = tensor(x);
    refused(atalla_set_input(nullptr, 0, &input), "atalla_set_input: a null pointer");
    refused(atalla_set_input(context_, 0, nullptr), "atalla_set_input: a null pointer");
    refused(atalla_set_input(context_, 3, &input), "there is no input 3");
    refused(atalla_run(nullptr), "a null pointer");
    refused(atalla_run_traced(context_, nullptr), "atalla_run_traced: a null pointer");
    refused(atalla_context_create(nullptr, 0, &context_), "a null pointer");
    refused(atalla_model_load("m.atl", nullptr), "a null pointer");
    input.data = nullptr;
    refused(atalla_set_input(context_, 0, &input), "a null pointer");
    input = tensor(x);
    input.sizes = nullptr;
    refused(atalla_set_input(context_, 0, &input), "a null pointer");
    input = tensor(x);
    input.rank = 65;
    refused(atalla_set_input(context_, 0, &input), "a tensor of rank 65");
    input = tensor(x);
    input.dtype = 99;
    refused(atalla_set_input(context_, 0, &input), "atalla_set_input: 99 is no element type, see atalla_dtype");
    input = tensor(x);
    input.dtype = ATALLA_INT64;
    refused(atalla_set_input(context_, 0, &input), "input 'x' holds int64");
    atalla_model *missing = nullptr;
    EXPECT_EQ(atalla_model_load("/nonexistent.atl", &missing), ATALLA_FAILED);
    EXPECT_EQ(missing, nullptr);
    EXPECT_THAT(atalla_last_error(), testing::HasSubstr("/nonexistent.atl: cannot be read: No such file"));
    EXPECT_EQ(atalla_run(context_), ATALLA_FAILED);
    EXPECT_THAT(atalla_last_error(), testing::HasSubstr("input 'x' is not set"));
    atalla_model_release(nullptr);
    atalla_context_release(nullptr);
}

// Every pointer of every function that must not be null.
TEST_F(CInterface, RefusesNullPointers) {
    const auto refused = [](atalla_status status, const char *function) {
        EXPECT_EQ(status, ATALLA_INVALID_ARGUMENT) << function;
        EXPECT_EQ(atalla_last_error(), std::string(function) + ": a null pointer");
    };
    float x[6] = {};
    const atalla_tensor input = tensor(x);
    atalla_tensor view;
    atalla_counters counters;
    atalla_model *model = nullptr;
    const char *name = nullptr;
    refused(atalla_model_load(nullptr, &model), "atalla_model_load");
    refused(atalla_model_load("m.atl", nullptr), "atalla_model_load");
    refused(atalla_model_load_memory(nullptr, 8, &model), "atalla_model_load_memory");
    refused(atalla_model_load_memory("ATLA", 4, nullptr), "atalla_model_load_memory");
    refused(atalla_model_input(nullptr, 0, &name, nullptr, nullptr, nullptr), "atalla_model_input");
    refused(atalla_model_output(nullptr, 0, &name, nullptr, nullptr, nullptr), "atalla_model_output");
    refused(atalla_context_create(nullptr, 0, &context_), "atalla_context_create");
    refused(atalla_context_create(model_, 0, nullptr), "atalla_context_create");
    refused(atalla_set_input(nullptr, 0, &input), "atalla_set_input");
    refused(atalla_set_input(context_, 0, nullptr), "atalla_set_input");
    refused(atalla_run(nullptr), "atalla_run");
    refused(atalla_run_traced(nullptr, "t.pftrace"), "atalla_run_traced");
    refused(atalla_run_traced(context_, nullptr), "atalla_run_traced");
    refused(atalla_get_output(nullptr, 0, &view), "atalla_get_output");
    refused(atalla_get_output(context_, 0, nullptr), "atalla_get_output");
    refused(atalla_copy_output(nullptr, 0, &input), "atalla_copy_output");
    refused(atalla_copy_output(context_, 0, nullptr), "atalla_copy_output");
    refused(atalla_reset_states(nullptr), "atalla_reset_states");
    refused(atalla_take_states(nullptr, context_), "atalla_take_states");
    refused(atalla_take_states(context_, nullptr), "atalla_take_states");
    refused(atalla_get_counters(nullptr, &counters), "atalla_get_counters");
    refused(atalla_get_counters(context_, nullptr), "atalla_get_counters");
    refused(atalla_register_kernel(nullptr, nullptr, nullptr), "atalla_register_kernel");
    refused(atalla_register_kernel("test::none", nullptr, nullptr), "atalla_register_kernel");
    refused(atalla_call_operand(nullptr, "self", &view), "atalla_call_operand");
    refused(atalla_call_integer(nullptr, "dim", nullptr), "atalla_call_integer");
    refused(atalla_call_number(nullptr, "alpha", nullptr), "atalla_call_number");
    refused(atalla_call_result(nullptr, 0, &view), "atalla_call_result");
    const auto nothing = [](bool is_nothing, const char *function) {
        EXPECT_TRUE(is_nothing) << function;
        EXPECT_EQ(atalla_last_error(), std::string(function) + ": a null pointer");
    };
    nothing(atalla_model_inputs(nullptr) == 0, "atalla_model_inputs");
    nothing(atalla_model_outputs(nullptr) == 0, "atalla_model_outputs");
    nothing(*atalla_model_json(nullptr) == '\0', "atalla_model_json");
    nothing(*atalla_profile_json(nullptr) == '\0', "atalla_profile_json");
    nothing(atalla_call_results(nullptr) == 0, "atalla_call_results");
    EXPECT_EQ(atalla_call_fail(nullptr, nullptr), ATALLA_FAILED);
}

TEST_F(CInterface, RefusesTensorsThatCannotBe) {
    const auto refused = [&](const atalla_tensor &input, const std::string &text) {
        EXPECT_EQ(atalla_set_input(context_, 0, &input), ATALLA_INVALID_ARGUMENT) << text;
        EXPECT_THAT(atalla_last_error(), testing::HasSubstr(text));
        EXPECT_EQ(atalla_copy_output(context_, 0, &input), ATALLA_INVALID_ARGUMENT) << text;
        EXPECT_STRNE(atalla_last_error(), "");
    };
    float x[6] = {1, 2, 3, 4, 5, 6};
    atalla_tensor good = tensor(x);
    ASSERT_EQ(atalla_set_input(context_, 0, &good), ATALLA_OK);
    ASSERT_EQ(atalla_run(context_), ATALLA_OK);
    const auto sized = [&](std::vector<int64_t> &sizes, const std::vector<int64_t> *strides = nullptr) {
        return atalla_tensor{x, ATALLA_FLOAT32, static_cast<int32_t>(sizes.size()), sizes.data(),
                             strides == nullptr ? nullptr : strides->data()};
    };
    std::vector<int64_t> sizes = {2, -3};
    refused(sized(sizes), "a size of -3");
    sizes = {int64_t{1} << 62, 3};
    refused(sized(sizes), "a size of 4611686018427387904");
    sizes = {int64_t{1} << 40, int64_t{1} << 40};
    refused(sized(sizes), "a tensor of too many elements");
    sizes = {0, int64_t{1} << 40, int64_t{1} << 40};
    refused(sized(sizes), "a tensor of too many elements");
    sizes = {2, 3};
    for (const int64_t stride : {INT64_MAX, INT64_MIN, int64_t{1} << 60, -(int64_t{1} << 50), INT64_MAX / 2}) {
        const std::vector<int64_t> strides = {stride, 1}, both = {1, stride};
        refused(sized(sizes, &strides), "a stride of " + std::to_string(stride) + " leads out of the memory");
        refused(sized(sizes, &both), "a stride of " + std::to_string(stride) + " leads out of the memory");
    }
    // Nothing is made room for that no call takes, such as one element everywhere.
    sizes = {int64_t{1} << 20, int64_t{1} << 20};
    const std::vector<int64_t> nowhere = {0, 0};
    refused(sized(sizes, &nowhere), "input 'x' has sizes [1048576, 1048576], but the model is compiled for [2, 3]");
    for (const int32_t rank : {-1, 65, INT32_MAX, INT32_MIN}) {
        atalla_tensor bad = good;
        bad.rank = rank;
        refused(bad, "a tensor of rank " + std::to_string(rank));
    }
    for (const int32_t dtype : {0, 11, 14, -1, INT32_MAX, INT32_MIN}) {
        atalla_tensor bad = good;
        bad.dtype = dtype;
        EXPECT_EQ(atalla_set_input(context_, 0, &bad), ATALLA_INVALID_ARGUMENT) << dtype;
        EXPECT_EQ(atalla_copy_output(context_, 0, &bad), ATALLA_INVALID_ARGUMENT) << dtype;
    }
    atalla_tensor view;
    EXPECT_EQ(atalla_get_output(context_, 2, &view), ATALLA_INVALID_ARGUMENT);
    EXPECT_STREQ(atalla_last_error(), "atalla_get_output: there is no output 2, only 2");
    EXPECT_EQ(atalla_copy_output(context_, SIZE_MAX, &good), ATALLA_INVALID_ARGUMENT);
    // What was set and computed before is still there.
    ASSERT_EQ(atalla_get_output(context_, 0, &view), ATALLA_OK);
    EXPECT_EQ(static_cast<const float *>(view.data)[5], 36);
}

TEST_F(CInterface, TakesAnyAddressAndStride) {
    // One element for all, and elements at odd addresses.
    float one[1] = {7};
    const int64_t everywhere[2] = {0, 0};
    const atalla_tensor same = tensor(one, everywhere);
    ASSERT_EQ(atalla_set_input(context_, 0, &same), ATALLA_OK) << atalla_last_error();
    ASSERT_EQ(atalla_run(context_), ATALLA_OK);
    alignas(8) unsigned char bytes[1 + 6 * sizeof(float)] = {};
    const float values[6] = {1, 2, 3, 4, 5, 6};
    std::memcpy(bytes + 1, values, sizeof values);
    const atalla_tensor odd = {bytes + 1, ATALLA_FLOAT32, 2, sizes_, nullptr};
    ASSERT_EQ(atalla_copy_output(context_, 0, &odd), ATALLA_OK) << atalla_last_error();
    float read[6];
    std::memcpy(read, bytes + 1, sizeof read);
    EXPECT_THAT(read, testing::ElementsAre(17, 27, 37, 17, 27, 37));
    ASSERT_EQ(atalla_set_input(context_, 0, &odd), ATALLA_OK);
    ASSERT_EQ(atalla_run(context_), ATALLA_OK);
    atalla_tensor view, again;
    ASSERT_EQ(atalla_get_output(context_, 0, &view), ATALLA_OK);
    EXPECT_EQ(static_cast<const float *>(view.data)[0], 27);
    // A second view leaves the first one valid; an output that lands in one place is the last element.
    ASSERT_EQ(atalla_get_output(context_, 0, &again), ATALLA_OK);
    EXPECT_EQ(view.data, again.data);
    EXPECT_EQ(view.sizes, again.sizes);
    const atalla_tensor target = tensor(one, everywhere);
    ASSERT_EQ(atalla_copy_output(context_, 0, &target), ATALLA_OK);
    EXPECT_EQ(one[0], 67);
}

TEST_F(CInterface, RefusesCallsInTheWrongOrder) {
    atalla_tensor view;
    EXPECT_EQ(atalla_get_output(context_, 0, &view), ATALLA_FAILED);
    EXPECT_STREQ(atalla_last_error(), "there are no outputs yet: run the model first");
    float x[6] = {};
    const atalla_tensor input = tensor(x);
    EXPECT_EQ(atalla_copy_output(context_, 0, &input), ATALLA_FAILED);
    EXPECT_STREQ(atalla_last_error(), "there are no outputs yet: run the model first");
    EXPECT_EQ(atalla_run(context_), ATALLA_FAILED);
    EXPECT_STREQ(atalla_last_error(), "input 'x' is not set");
    atalla_counters counters;
    EXPECT_EQ(atalla_get_counters(context_, &counters), ATALLA_OK);
    EXPECT_EQ(counters.runs, 0u);
    EXPECT_STRNE(atalla_profile_json(context_), "");
    EXPECT_EQ(atalla_reset_states(context_), ATALLA_OK);
    EXPECT_EQ(atalla_take_states(context_, context_), ATALLA_OK);
    // A context outlives the caller's handle of its model.
    atalla_model_release(model_);
    model_ = nullptr;
    ASSERT_EQ(atalla_set_input(context_, 0, &input), ATALLA_OK);
    EXPECT_EQ(atalla_run(context_), ATALLA_OK) << atalla_last_error();
}

// Asks its own context for everything.
atalla_status curious(atalla_call *, void *user) {
    atalla_context *context = *static_cast<atalla_context **>(user);
    float x[6] = {};
    const int64_t sizes[2] = {2, 3};
    const atalla_tensor input = {x, ATALLA_FLOAT32, 2, sizes, nullptr};
    atalla_tensor view;
    atalla_counters counters;
    const auto busy = [](atalla_status status) {
        EXPECT_EQ(status, ATALLA_INVALID_ARGUMENT);
        EXPECT_THAT(atalla_last_error(),
                    testing::HasSubstr("the context is busy: another thread uses it, or one of its own host kernels asks"));
    };
    busy(atalla_run(context));
    busy(atalla_run_traced(context, "t.pftrace"));
    busy(atalla_set_input(context, 0, &input));
    busy(atalla_get_output(context, 0, &view));
    busy(atalla_copy_output(context, 0, &input));
    busy(atalla_reset_states(context));
    busy(atalla_get_counters(context, &counters));
    EXPECT_STREQ(atalla_profile_json(context), "");
    throw 7;
}

TEST(CKernels, CannotUseTheirOwnContextAndMayThrow) {
    atalla::loadable::ModelT table = atalla::small_model();
    table.specializations[0]->steps[0] = atalla::host_step("test::curious", {0}, 2);
    const std::vector<uint8_t> bytes = atalla::loadable_bytes(table);
    atalla_model *model = nullptr;
    atalla_context *context = nullptr;
    ASSERT_EQ(atalla_model_load_memory(bytes.data(), bytes.size(), &model), ATALLA_OK);
    ASSERT_EQ(atalla_register_kernel("test::curious", curious, &context), ATALLA_OK);
    ASSERT_EQ(atalla_context_create(model, 0, &context), ATALLA_OK);
    float x[6] = {};
    const int64_t sizes[2] = {2, 3};
    const atalla_tensor input = {x, ATALLA_FLOAT32, 2, sizes, nullptr};
    ASSERT_EQ(atalla_set_input(context, 0, &input), ATALLA_OK);
    EXPECT_EQ(atalla_run(context), ATALLA_FAILED);
    EXPECT_STREQ(atalla_last_error(), "a host kernel threw something that is no std::exception");
    // The context is free again.
    EXPECT_EQ(atalla_reset_states(context), ATALLA_OK);
    atalla_context_release(context);
    atalla_model_release(model);
}

// Threads share a model and have contexts; errors are each thread's own.
TEST_F(CInterface, ServesThreads) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([this, t] {
            for (int round = 0; round < 20; round++) {
                atalla_context *context = nullptr;
                ASSERT_EQ(atalla_context_create(model_, 0, &context), ATALLA_OK);
                EXPECT_EQ(atalla_get_output(context, static_cast<size_t>(2 + t), nullptr), ATALLA_INVALID_ARGUMENT);
                float x[6] = {static_cast<float>(t)};
                const atalla_tensor input = tensor(x);
                ASSERT_EQ(atalla_set_input(context, 0, &input), ATALLA_OK);
                EXPECT_EQ(atalla_set_input(context, static_cast<size_t>(2 + t), &input), ATALLA_INVALID_ARGUMENT);
                ASSERT_EQ(atalla_run(context), ATALLA_OK);
                EXPECT_THAT(atalla_last_error(), testing::HasSubstr("there is no input " + std::to_string(2 + t)));
                ASSERT_EQ(atalla_copy_output(context, 0, &input), ATALLA_OK);
                EXPECT_EQ(x[0], static_cast<float>(10 + t));
                atalla_context_release(context);
            }
        });
    for (std::thread &thread : threads) thread.join();
}

// One context that several threads use at once: each call runs or is refused.
TEST_F(CInterface, SurvivesThreadsThatShareAContext) {
    float x[6] = {};
    const atalla_tensor input = tensor(x);
    ASSERT_EQ(atalla_set_input(context_, 0, &input), ATALLA_OK);
    std::atomic<int> ran = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&] {
            for (int round = 0; round < 200; round++) {
                const atalla_status status = round % 3 == 0 ? atalla_set_input(context_, 0, &input) : atalla_run(context_);
                ran += status == ATALLA_OK;
                if (status != ATALLA_OK) {
                    EXPECT_THAT(atalla_last_error(), testing::HasSubstr("the context is busy"));
                }
            }
        });
    for (std::thread &thread : threads) thread.join();
    EXPECT_GT(ran, 0);
}

atalla_status doubled(atalla_call *call, void *user) {
    atalla_tensor in, out;
    if (atalla_call_operand(call, "self", &in) != ATALLA_OK || atalla_call_result(call, 0, &out) != ATALLA_OK)
        return ATALLA_FAILED;
    for (int i = 0; i < 6; i++) static_cast<float *>(out.data)[i] = 2 * static_cast<const float *>(in.data)[i];
    *static_cast<int *>(user) += 1;
    return ATALLA_OK;
}
atalla_status failing(atalla_call *call, void *) { return atalla_call_fail(call, "the moon is wrong"); }

TEST(CKernels, TakePrecedenceAndMayFail) {
    atalla::loadable::ModelT table = atalla::small_model();
    table.specializations[0]->steps[0] = atalla::host_step("test::double", {0}, 2);
    const std::vector<uint8_t> bytes = atalla::loadable_bytes(table);
    atalla_model *model = nullptr;
    ASSERT_EQ(atalla_model_load_memory(bytes.data(), bytes.size(), &model), ATALLA_OK);
    int calls = 0;
    ASSERT_EQ(atalla_register_kernel("test::double", doubled, &calls), ATALLA_OK);
    float x[6] = {1, 2, 3, 4, 5, 6};
    const int64_t sizes[2] = {2, 3};
    const atalla_tensor input = {x, ATALLA_FLOAT32, 2, sizes, nullptr};
    const auto run = [&] {
        atalla_context *context = nullptr;
        EXPECT_EQ(atalla_context_create(model, 0, &context), ATALLA_OK);
        EXPECT_EQ(atalla_set_input(context, 0, &input), ATALLA_OK);
        const atalla_status status = atalla_run(context);
        atalla_tensor output;
        if (status == ATALLA_OK) {
            EXPECT_EQ(atalla_get_output(context, 0, &output), ATALLA_OK);
            EXPECT_EQ(static_cast<const float *>(output.data)[5], 42);
        }
        atalla_context_release(context);
        return status;
    };
    EXPECT_EQ(run(), ATALLA_OK) << atalla_last_error();
    EXPECT_EQ(calls, 1);
    ASSERT_EQ(atalla_register_kernel("test::double", failing, nullptr), ATALLA_OK);
    EXPECT_EQ(run(), ATALLA_FAILED);
    EXPECT_STREQ(atalla_last_error(), "host kernel 'test::double' failed: the moon is wrong");
    EXPECT_EQ(atalla_register_kernel("test::double", nullptr, nullptr), ATALLA_INVALID_ARGUMENT);
    atalla_model_release(model);
}

}  // namespace
