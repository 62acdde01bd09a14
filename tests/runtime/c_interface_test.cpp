// The C interface: what programs see of models and contexts, and how their mistakes are reported.
#include "runtime/include/atalla.h"

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
    atalla_tensor tensor(float *data, const int64_t *strides = nullptr) const { return {data, ATALLA_FLOAT32, 2, sizes_, strides}; }

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
    const atalla_tensor input = tensor(x + 5, backwards);   // -1 2 -3 4 -5 6
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
    refused(atalla_set_input(context_, 0, &input), "99");
    input = tensor(x);
    input.dtype = ATALLA_INT64;
    refused(atalla_set_input(context_, 0, &input), "input 'x' holds int64");
    atalla_model *missing = nullptr;
    EXPECT_EQ(atalla_model_load("/nonexistent.atl", &missing), ATALLA_FAILED);
    EXPECT_EQ(missing, nullptr);
    EXPECT_THAT(atalla_last_error(), testing::HasSubstr("/nonexistent.atl: No such file"));
    EXPECT_EQ(atalla_run(context_), ATALLA_FAILED);
    EXPECT_THAT(atalla_last_error(), testing::HasSubstr("input 'x' is not set"));
    atalla_model_release(nullptr);
    atalla_context_release(nullptr);
}

atalla_status doubled(atalla_call *call, void *user) {
    atalla_tensor in, out;
    if (atalla_call_operand(call, "self", &in) != ATALLA_OK || atalla_call_result(call, 0, &out) != ATALLA_OK) return ATALLA_FAILED;
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
