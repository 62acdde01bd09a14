// Loadables: damaged, foreign and contradictory ones are refused with a sentence, never run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "isa/error.h"
#include "runtime/context.h"
#include "runtime/describe.h"
#include "tests/runtime/small_model.h"

namespace atalla {
namespace {

testing::Matcher<std::function<void()>> refused(const std::string &text) {
    return testing::ThrowsMessage<Error>(testing::HasSubstr(text));
}

std::function<void()> opening(std::function<void(loadable::ModelT &)> change) {
    return [change] {
        loadable::ModelT model = small_model();
        change(model);
        Model::from_bytes(loadable_bytes(model), "m.atl");
    };
}

TEST(Loadable, IsMappedFromAFile) {
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "loadable_test.atl";
    const std::vector<uint8_t> bytes = loadable_bytes(small_model());
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    const std::shared_ptr<const Model> model = Model::load(file);
    EXPECT_EQ(model->table().name()->str(), "small");
    EXPECT_EQ(model->machine().fingerprint(), find_machine("ax01").fingerprint());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(model->constant(0).begin()) % 64, 0u);
    std::filesystem::remove(file);
}

TEST(Loadable, IsDescribed) {
    loadable::ModelT tables = small_model();
    for (const int64_t apart : {int64_t{50}, std::numeric_limits<int64_t>::max()}) {
        loadable::FusionT fusion;
        fusion.kernel = "relu(mm(x, y))";
        fusion.cycles = 40;
        fusion.apart = apart;
        fusion.calls = 2;
        fusion.chosen = true;
        tables.specializations[0]->fusions.push_back(std::make_unique<loadable::FusionT>(fusion));
    }
    const std::shared_ptr<const Model> model = Model::from_bytes(loadable_bytes(tables), "m.atl");
    const auto json = describe(*model);
    EXPECT_EQ(json["format"], "1.3");
    EXPECT_EQ(json["inputs"][0]["sizes"], nlohmann::json({2, 3}));
    EXPECT_EQ(json["specializations"][0]["steps"][1]["target"], "aten::add.Tensor");
    EXPECT_THAT(describe_text(*model),
                testing::AllOf(testing::HasSubstr("input   x float32[2, 3]"), testing::HasSubstr("state   count"),
                               testing::HasSubstr("host         aten::relu"),
                               testing::HasSubstr("fused   relu(mm(x, y)): 40 cycles, its parts 50; 2 times"),
                               testing::HasSubstr("fused   relu(mm(x, y)): 40 cycles, its parts have no kernel; 2 times")));
}

TEST(Loadable, RefusesOtherFiles) {
    EXPECT_THAT([] { Model::load("/nonexistent/m.atl"); }, refused("/nonexistent/m.atl: cannot be read: No such file"));
    EXPECT_THAT([] { Model::load("/"); }, refused("not a regular file"));
    EXPECT_THAT([] { Model::from_bytes({}, "m.atl"); }, refused("m.atl: this is not a loadable"));
    const std::vector<uint8_t> text(200, 'a');
    EXPECT_THAT([&] { Model::from_bytes(text, "m.atl"); }, refused("m.atl: this is not a loadable"));
    std::vector<uint8_t> half = loadable_bytes(small_model());
    half.resize(half.size() / 2);
    EXPECT_THAT([&] { Model::from_bytes(half, "m.atl"); }, refused("the loadable is damaged"));
}

TEST(Loadable, RefusesOtherVersionsAndMachines) {
    EXPECT_THAT(opening([](auto &m) {
                    m.major = 2;
                    m.minor = 3;
                }),
                refused("format version 2.3, but this runtime reads version 1; compile the model again"));
    EXPECT_THAT(opening([](auto &m) { m.parameters[0]->key = "vec.colour"; }),
                refused("with the parameter 'vec.colour', which this runtime does not know"));
    EXPECT_THAT(opening([](auto &m) { m.parameters.pop_back(); }), refused("which came after it; compile the model again"));
    EXPECT_THAT(opening([](auto &m) { m.machine_fingerprint = "0123456789abcdef"; }),
                refused("with fingerprint 0123456789abcdef, but its values have"));
    EXPECT_NO_THROW(opening([](auto &m) { m.minor = 9; })());
}

TEST(Loadable, RefusesContradictions) {
    EXPECT_THAT(opening([](auto &m) { m.specializations.clear(); }), refused("it has no specialization"));
    EXPECT_THAT(opening([](auto &m) { m.constants[0]->data.pop_back(); }), refused("constant c has 11 bytes"));
    EXPECT_THAT(opening([](auto &m) { m.constants[0]->sizes = {-3}; }), refused("c has size -3"));
    EXPECT_THAT(opening([](auto &m) { m.constants[0]->sizes = {int64_t{1} << 39, int64_t{1} << 39}; }), refused("c has size"));
    EXPECT_THAT(opening([](auto &m) { m.constants[0]->dtype = loadable::DType_None; }), refused("c has element type 0"));
    EXPECT_THAT(opening([](auto &m) { m.states[0]->initial = 9; }), refused("the initial value of a state is number 9 of 3"));
    const auto change = [](std::function<void(loadable::SpecializationT &)> f) {
        return opening([f](auto &m) { f(*m.specializations[0]); });
    };
    EXPECT_THAT(change([](auto &s) { s.inputs = {7}; }), refused("an input or output is number 7 of 7"));
    EXPECT_THAT(change([](auto &s) { s.inputs = {}; }), refused("another number of inputs"));
    EXPECT_THAT(change([](auto &s) { s.outputs = {3, 4, 6}; }), refused("another number of outputs"));
    EXPECT_THAT(change([](auto &s) { s.outputs = {6, 3}; }), refused("y has another type in a specialization"));
    EXPECT_THAT(change([](auto &s) { s.values[1]->constant = 3; }), refused("a value's constant is number 3 of 3"));
    EXPECT_THAT(change([](auto &s) { s.values[1]->sizes = {4}; }), refused("c and its constant have different sizes"));
    EXPECT_THAT(change([](auto &s) { s.values[2]->address = 1 << 20; }), refused("lies outside the device's memory"));
    EXPECT_THAT(change([](auto &s) { s.memory_bytes = uint64_t{1} << 40; }), refused("but machine 'ax01' has"));
    EXPECT_THAT(change([](auto &s) { s.mutations[0]->value = 3; }), refused("state count gets a value of another type"));
    EXPECT_THAT(change([](auto &s) { s.steps[0]->work.AsHostCall()->results = {12}; }), refused("a result is number 12 of 7"));
    EXPECT_THAT(change([](auto &s) { s.steps[0]->work.AsHostCall()->arguments[0]->ints = {-2}; }),
                refused("an argument is number -2 of 7"));
    EXPECT_THAT(change([](auto &s) { s.steps[0]->work.AsHostCall()->arguments[0]->ints = {}; }),
                refused("argument self has 0 values instead of one"));
    EXPECT_THAT(change([](auto &s) {
                    s.steps[0]->work.Reset();
                    s.steps[0]->work.Set(loadable::DeviceCallT());
                }),
                refused("a device call without code"));
    EXPECT_THAT(change([](auto &s) {
                    s.code = std::make_unique<loadable::CodeT>();
                    s.code->packets.assign(19, 0);
                }),
                refused("the code has 19 bytes, which are no packets"));
}

TEST(Loadable, RefusesNumbersThatAreNotAligned) {
    std::vector<uint8_t> bytes = loadable_bytes(small_model());
    const auto *value = loadable::GetModel(bytes.data())->specializations()->Get(0)->values()->Get(0);
    const auto *table = reinterpret_cast<const flatbuffers::Table *>(value);
    uint8_t *offset = bytes.data() + (table->GetAddressOf(loadable::Value::VT_SIZES) - bytes.data());
    flatbuffers::WriteScalar(offset,
                             flatbuffers::ReadScalar<flatbuffers::uoffset_t>(offset) + 4);  // the list begins a word later
    EXPECT_THAT([&] { Model::from_bytes(bytes, "m.atl"); }, refused("the loadable is damaged: numbers of x are not aligned"));
}

// A byte that a file would otherwise be taken with, such as a weight's, makes a difference.
TEST(Loadable, RefusesEveryBitThatFlips) {
    const std::vector<uint8_t> good = loadable_bytes(small_model());
    for (size_t bit = 0; bit < 8 * good.size(); bit++) {
        std::vector<uint8_t> bad = good;
        bad[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
        EXPECT_THROW(Model::from_bytes(bad, "m.atl"), Error) << "bit " << bit;
    }
    std::vector<uint8_t> weight = good;
    weight[static_cast<size_t>(loadable::GetModel(good.data())->constants()->Get(0)->data()->data() - good.data())] ^= 1;
    EXPECT_THAT([&] { Model::from_bytes(weight, "m.atl"); },
                refused("m.atl: the loadable is damaged: its bytes do not have its checksum; copy the file again"));
    std::vector<uint8_t> longer = good;
    longer.push_back(0);
    EXPECT_THAT([&] { Model::from_bytes(longer, "m.atl"); }, refused("its bytes do not have its checksum"));
}

// As a file without a checksum, so that damage gets as far as it can.
TEST(Loadable, SurvivesDamagedBytes) {
    loadable::ModelT tables = small_model();
    tables.minor = 2;
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(loadable::Model::Pack(builder, &tables), loadable::ModelIdentifier());
    const std::vector<uint8_t> good(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
    std::mt19937 random(5);
    int opened = 0;
    for (int i = 0; i < 3000; i++) {
        std::vector<uint8_t> bad = good;
        const int changes = 1 + static_cast<int>(random() % 4);
        for (int c = 0; c < changes; c++) bad[random() % bad.size()] = static_cast<uint8_t>(random());
        if (random() % 4 == 0) bad.resize(random() % bad.size());
        try {
            Context context(Model::from_bytes(bad, "m.atl"));
            opened++;
            context.set_input(0, make_tensor(DType::Float32, {2, 3}));
            context.run();
        } catch (const Error &error) {
            EXPECT_NE(std::string(error.what()), "");
        }
    }
    EXPECT_GT(opened, 100);  // names and values of constants may be anything
}

}  // namespace
}  // namespace atalla
