// What cannot be imported is refused with one sentence that says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "graph_import/archive.h"
#include "isa/error.h"
#include "tests/graph_import/fixtures.h"
#include "tests/support/error_of.h"
#include "tests/support/zip.h"

namespace atalla {
namespace {

using testing_zip::Entries;
using testing_zip::zipped;

// The entries of a .pt2 file, to be changed and zipped again.
Entries entries_of(const std::string &bytes) {
    const Archive archive = Archive::of_bytes(std::as_bytes(std::span(bytes)), "original");
    Entries entries;
    for (const std::string &name : archive.entries()) entries[name] = archive.read_text(name, 1 << 26);
    return entries;
}

ImportedModel import_bytes(const std::string &bytes) { return import_model(std::as_bytes(std::span(bytes)), "model.pt2"); }

std::string message(const std::string &bytes) {
    return error_of([&] { import_bytes(bytes); });
}

class ImportErrors : public testing::Test {
protected:
    static const Entries &original() {
        static const Entries entries = entries_of(Fixtures("models").file("mlp"));
        return entries;
    }
    static constexpr const char *program = "archive/models/model.json";

    static std::string with(const std::function<void(Entries &)> &change) {
        Entries entries = original();
        change(entries);
        return message(zipped(entries));
    }
    static std::string with_program(const std::string &from, const std::string &to) {
        return with([&](Entries &entries) {
            std::string &json = entries[program];
            const size_t at = json.find(from);
            ASSERT_NE(at, json.npos) << from;
            json.replace(at, from.size(), to);
        });
    }
};

TEST_F(ImportErrors, UnchangedIsRead) {
    EXPECT_EQ(with([](Entries &) {}), "no error");
    EXPECT_EQ(message(zipped(original(), true)), "no error") << "deflated";
    EXPECT_EQ(with([](Entries &entries) {
                  Entries flat;
                  for (auto &[name, data] : entries) flat[name.substr(name.find('/') + 1)] = data;
                  entries = flat;
              }),
              "no error")
        << "without a root folder";
}

TEST_F(ImportErrors, RangesOfSymbolsThatNoSizeHasAreNotRead) {
    Entries entries = original();
    std::string &json = entries[program];
    const std::string empty = R"("range_constraints": {})";
    ASSERT_NE(json.find(empty), json.npos);
    json.replace(json.find(empty), empty.size(), R"("range_constraints": {"s48": {"min_val": 2, "max_val": 9}})");
    EXPECT_TRUE(import_bytes(zipped(entries)).graph.symbols.empty());
}

TEST_F(ImportErrors, OtherFiles) {
    EXPECT_THAT(message(""), testing::HasSubstr("the file is empty"));
    EXPECT_THAT(message("hello"), testing::HasSubstr("what torch.export.save writes"));
    EXPECT_THAT(message(zipped({{"a.txt", "b"}})), testing::HasSubstr("not one that torch.export.save wrote"));
    EXPECT_THAT(message(zipped({{"x/data.pkl", "b"}})), testing::HasSubstr("torch.save or torch.jit.save"));
    EXPECT_THAT(message(zipped({{"serialized_exported_program.json", "{}"}, {"version", "8.2"}})),
                testing::HasSubstr("PyTorch 2.7 or older"));
    EXPECT_THROW(import_model("/does/not/exist.pt2"), Error);
    EXPECT_THROW(import_model("/"), Error);
}

TEST_F(ImportErrors, TruncatedAnywhere) {
    const std::string bytes = Fixtures("models").file("mlp");
    for (size_t size = 0; size < bytes.size(); size += 97) EXPECT_NE(message(bytes.substr(0, size)), "no error") << size;
}

TEST_F(ImportErrors, HostileArchives) {
    EXPECT_THAT(message(zipped({{"../evil", "x"}})), testing::HasSubstr("leaves the archive"));
    EXPECT_THAT(message(zipped({{"a/../../evil", "x"}})), testing::HasSubstr("leaves the archive"));
    EXPECT_THAT(message(zipped({{"a\\b", "x"}})), testing::HasSubstr("leaves the archive"));
    EXPECT_THAT(message(zipped({{"bomb", std::string(size_t{300} << 20, '\0')}}, true)), testing::HasSubstr("would expand"));

    // A stored payload whose bytes were changed.
    std::string bytes = zipped(original());
    const std::string &weight = original().at("archive/data/weights/weight_0");
    const size_t at = bytes.find(weight);
    ASSERT_NE(at, bytes.npos);
    bytes[at + 3] ^= 1;
    EXPECT_THAT(message(bytes), testing::HasSubstr("checksum"));
}

TEST_F(ImportErrors, OverlappingEntries) {
    // Both entries of the directory point to the first one's data.
    std::string bytes = zipped({{"a", std::string(100, 'x')}, {"b", std::string(100, 'x')}});
    const size_t first = bytes.find("PK\x01\x02"), second = bytes.find("PK\x01\x02", first + 1);
    ASSERT_NE(second, bytes.npos);
    bytes.replace(second + 42, 4, bytes.substr(first + 42, 4));
    EXPECT_THAT(message(bytes), testing::AnyOf(testing::HasSubstr("overlap"), testing::HasSubstr("damaged")));
}

TEST_F(ImportErrors, Versions) {
    EXPECT_THAT(with_program("\"major\": 8", "\"major\": 9"), testing::HasSubstr("schema version 9."));
    EXPECT_EQ(with_program("\"minor\": 20", "\"minor\": 99, \"new_field\": [1]"), "no error");
}

TEST_F(ImportErrors, WrongJson) {
    EXPECT_THAT(with([](Entries &e) { e[program].resize(1); }), testing::HasSubstr("not JSON"));
    EXPECT_THAT(with([](Entries &e) { e[program] = std::string(100000, '['); }), testing::HasSubstr("nested more than"));
    EXPECT_THAT(with([](Entries &e) { e[program] = std::string("[]"); }), testing::HasSubstr("an object is expected"));
    EXPECT_THAT(with_program("\"dtype\": 7", "\"dtype\": \"x\""), testing::HasSubstr("an integer is expected"));
    EXPECT_THAT(with_program("\"dtype\": 7", "\"dtype\": 77"), testing::HasSubstr("element type number 77"));
    EXPECT_THAT(with_program("\"layout\": 7", "\"layout\": 2"), testing::HasSubstr("sparse"));
    EXPECT_THAT(with_program("\"nodes\":", "\"knots\":"), testing::HasSubstr("field nodes is missing"));
    EXPECT_THAT(with_program("{\"as_int\": 12}", "{\"as_int\": -12}"), testing::Not(testing::IsEmpty()));
    EXPECT_THAT(with_program("{\"as_tensor\": {\"name\": \"linear\"}}", "{\"as_tensor\": {\"name\": \"nobody\"}}"),
                testing::HasSubstr("nobody"));
}

TEST_F(ImportErrors, Weights) {
    EXPECT_THAT(with([](Entries &e) { e.erase("archive/data/weights/weight_0"); }), testing::HasSubstr("weight_0' is missing"));
    EXPECT_THAT(with([](Entries &e) { e["archive/data/weights/weight_0"].resize(8); }),
                testing::HasSubstr("reach outside its 8 bytes"));
    EXPECT_THAT(with([](Entries &e) { e.erase("archive/data/weights/model_weights_config.json"); }),
                testing::HasSubstr("the archive has no data of"));
    EXPECT_THAT(with([](Entries &e) { e["archive/byteorder"] = "middle"; }), testing::HasSubstr("byte order 'middle'"));
    // Saved with fake tensors: the graph is there, the data is not.
    Entries entries = original();
    for (auto &[name, data] : entries) {
        if (name.find("/weight_") != name.npos) data.clear();
    }
    const ImportedModel model = import_bytes(zipped(entries));
    EXPECT_FALSE(model.graph.inputs[0].data);
    EXPECT_THAT(model.graph.inputs[0].missing, testing::HasSubstr("fake tensors"));
}

TEST_F(ImportErrors, SeveralModels) {
    Entries entries = original();
    entries["archive/models/second.json"] = entries[program];
    EXPECT_EQ(message(zipped(entries)), "no error") << "the one called model";
    entries["archive/models/first.json"] = entries[program];
    entries.erase(program);
    EXPECT_THAT(message(zipped(entries)), testing::HasSubstr("choose one of first, second"));
}

TEST_F(ImportErrors, BigEndianWeightsAreSwapped) {
    Entries entries = original();
    entries["archive/byteorder"] = "big";
    const HostTensor swapped = *import_bytes(zipped(entries)).graph.inputs[0].data;
    const HostTensor plain = *import_bytes(zipped(original())).graph.inputs[0].data;
    for (int i = 0; i < 4; i++) EXPECT_EQ(swapped.begin()[i], plain.begin()[3 - i]);
}

TEST_F(ImportErrors, WeightsOfAFileAreMappedAndOutliveTheArchive) {
    const std::filesystem::path file = std::filesystem::temp_directory_path() / "atalla_mapped_weights.pt2";
    std::ofstream(file, std::ios::binary) << Fixtures("models").file("tied");
    HostTensor embedding, head;
    {
        const ImportedModel model = import_model(file);
        for (const GraphInput &input : model.graph.inputs) {
            if (input.name == "embedding.weight") embedding = *input.data;
            if (input.name == "head.weight") head = *input.data;
            if (input.name == "mix") {
                EXPECT_EQ(input.data->strides, (std::vector<int64_t>{1, 6}));
            }
            if (input.name == "scale") {
                EXPECT_EQ(input.data->offset, 2);
            }
        }
    }
    std::filesystem::remove(file);
    EXPECT_EQ(embedding.storage->data, head.storage->data);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(embedding.begin()) % 64, 0u) << "the payload in the file is aligned";
    EXPECT_TRUE(std::isfinite(element_as_double(embedding, 5)));
}

}  // namespace
}  // namespace atalla
