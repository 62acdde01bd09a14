// Machine files: what the shipped ones say, and what is said about one that is wrong.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "isa/error.h"
#include "isa/machine_parameters.h"
#include "tests/support/error_of.h"
#include "tests/timing/rig.h"

namespace atalla {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::filesystem::path shipped_file(const std::string &name) { return source_path("machines/" + name + ".json"); }

TEST(MachineFile, ShippedMachinesAreFoundByName) {
    EXPECT_THAT(shipped_machines(), ElementsAre("atalla-sim", "ax01", "ax01-measured", "ax01-psum", "fsim"));
    for (const std::string &name : shipped_machines()) {
        EXPECT_EQ(find_machine(name).name, name);
        EXPECT_EQ(find_machine(shipped_file(name).string()).fingerprint(), find_machine(name).fingerprint());
    }
}

TEST(MachineFile, ShippedMachinesDifferWhereTheyShould) {
    const Machine ax01 = find_machine("ax01"), psum = find_machine("ax01-psum"), fsim = find_machine("fsim");
    EXPECT_EQ(ax01.model, MachineModel::Hardware);
    EXPECT_FALSE(ax01.sa.psum_in);
    EXPECT_EQ(ax01.pad.count, 4);
    EXPECT_EQ(ax01.pad_rows(), 8192);
    EXPECT_EQ(ax01.memory.bytes, int64_t{1} << 30);
    EXPECT_TRUE(psum.timed());
    EXPECT_EQ(fsim.model, MachineModel::Functional);
    EXPECT_FALSE(fsim.timed());
    EXPECT_EQ(fsim.pad.count, 2);
    EXPECT_EQ(fsim.pad_rows(), 32);
    EXPECT_EQ(fsim.sa.switch_spacing, 0);
    // Nothing else than the partial-sum input.
    for (const ParameterEntry &entry : parameter_table()) {
        EXPECT_EQ(entry.get(psum), entry.key == "sa.psum_in" ? 1 : entry.get(ax01)) << entry.key;
    }
}

TEST(MachineFile, FingerprintsCoverValuesAndModelOnly) {
    const Machine ax01 = find_machine("ax01");
    EXPECT_EQ(ax01.fingerprint().size(), 16u);
    Machine renamed = ax01;
    renamed.name = "other";
    EXPECT_EQ(renamed.fingerprint(), ax01.fingerprint());
    Machine functional = ax01;
    functional.model = MachineModel::Functional;
    EXPECT_NE(functional.fingerprint(), ax01.fingerprint());
    for (const ParameterEntry &entry : parameter_table()) {
        Machine changed = ax01;
        entry.set(changed, entry.flag ? 1 - entry.get(ax01) : entry.get(ax01) + 1);
        EXPECT_NE(changed.fingerprint(), ax01.fingerprint()) << entry.key;
    }
}

TEST(MachineFile, ParametersKeepTheirProvenance) {
    const std::vector<MachineParameter> parameters = machine_parameters(shipped_file("ax01-psum"));
    ASSERT_EQ(parameters.size(), parameter_table().size());
    const Machine machine = find_machine("ax01-psum");
    for (size_t index = 0; index < parameters.size(); index++) {
        const ParameterEntry &entry = parameter_table()[index];
        EXPECT_EQ(parameters[index].key, entry.key);
        EXPECT_EQ(parameters[index].value, entry.get(machine));
        EXPECT_EQ(parameters[index].unit, entry.unit);
        EXPECT_THAT(parameters[index].meaning, Not(IsEmpty()));
        EXPECT_THAT(parameters[index].source, Not(IsEmpty()));
        EXPECT_THAT(std::string("MRDTX"), HasSubstr(parameters[index].confidence));
    }
    EXPECT_EQ(parameters.back().key, "sa.psum_in");
    EXPECT_EQ(parameters.back().confidence, "T");
    EXPECT_EQ(parameters.front().confidence, "D");
}

TEST(MachineFile, SetParameterNamesTheNearestKeyOrTheRange) {
    Machine machine = find_machine("ax01");
    set_parameter(machine, "vec.ii", 2);
    EXPECT_EQ(machine.vec.ii, 2);
    set_parameter(machine, "sa.psum_in", 1);
    EXPECT_TRUE(machine.sa.psum_in);
    const auto message = [&machine](const std::string &key, int64_t value) -> std::string {
        return error_of([&] { set_parameter(machine, key, value); });
    };
    EXPECT_EQ(message("vec.iii", 2), "vec.iii is not a machine parameter; did you mean vec.ii?");
    EXPECT_EQ(message("something.else", 2), "something.else is not a machine parameter");
    EXPECT_EQ(message("vec.ii", 0), "vec.ii cannot be 0: it must be 1..4096 cycles");
    EXPECT_EQ(message("sa.psum_in", 2), "sa.psum_in cannot be 2: it must be true or false");
    EXPECT_EQ(message("vec.vl", 16), "vec.vl cannot be 16: it must be 32 elements");
}

TEST(MachineFile, UnknownMachinesNameTheNearest) {
    try {
        find_machine("ax02");
        FAIL();
    } catch (const Error &error) {
        EXPECT_STREQ(error.what(),
                     "there is no machine \"ax02\" among atalla-sim, ax01, ax01-measured, ax01-psum, fsim; did you mean ax01?");
    }
    EXPECT_THROW(find_machine("folder/ax01"), Error);
}

TEST(MachineFile, AFolderMayBeChosen) {
    const TemporaryFolder folder;
    std::filesystem::copy(shipped_file("ax01"), folder.path() / "ax01.json");
    std::ofstream(folder.path() / "mine.json")
        << R"({"name": "mine", "based_on": "ax01", "parameters": {"vec": {"ii": {"value": 2, "source": "a guess", "confidence": "X"}}}})";
    setenv("ATALLA_MACHINES", folder.path().c_str(), 1);
    EXPECT_EQ(find_machine("mine").vec.ii, 2);
    EXPECT_THAT(shipped_machines(), ElementsAre("atalla-sim", "ax01", "ax01-measured", "ax01-psum", "fsim", "mine"));
    unsetenv("ATALLA_MACHINES");
    EXPECT_THROW(find_machine("mine"), Error);
}

// A file that differs from ax01.json in one place.
class WrongFile : public testing::Test {
protected:
    WrongFile() : json_(ordered_json::parse(read_text(shipped_file("ax01")))) {}

    std::string message() {
        std::ofstream(file_) << json_;
        return load_message();
    }
    std::string message_of_text(const std::string &text) {
        std::ofstream(file_) << text;
        return load_message();
    }
    ordered_json &parameter(const std::string &group, const std::string &member) { return json_["parameters"][group][member]; }

    // Without the folder, which every message begins with.
    std::string load_message() {
        try {
            load_machine(file_);
        } catch (const Error &error) {
            const std::string text = error.what(), prefix = file_.string() + ": ";
            EXPECT_TRUE(text.starts_with(prefix)) << text;
            return text.substr(prefix.size());
        }
        return "no error";
    }

    TemporaryFolder folder_;
    std::filesystem::path file_ = folder_.path() / "wrong.json";
    ordered_json json_;
};

TEST_F(WrongFile, Unchanged) { EXPECT_EQ(message(), "no error"); }

TEST_F(WrongFile, NotReadable) { EXPECT_EQ(load_message(), "cannot be read: No such file or directory"); }

TEST_F(WrongFile, NotJson) {
    EXPECT_EQ(message_of_text("{\"name\": \"x\","), "not valid JSON near byte 14");
    EXPECT_EQ(message_of_text(""), "not valid JSON near byte 1");
    EXPECT_EQ(message_of_text("{\"name\": 1e400}"), "not valid JSON: it holds a number that is too large");
    EXPECT_EQ(message_of_text("[]"), "a machine file must be a JSON object");
}

TEST_F(WrongFile, TopLevel) {
    EXPECT_EQ(message_of_text("{}"), "name is missing");
    EXPECT_EQ(message_of_text(R"({"nam": "x"})"), "nam is not a key of a machine file; did you mean name?");
    EXPECT_EQ(message_of_text(R"({"name": 3})"), "name must be a text");
    EXPECT_EQ(message_of_text(R"({"name": "x", "model": "magic"})"),
              "model is \"magic\", but it must be \"hardware\" or \"functional\"");
    EXPECT_EQ(message_of_text(R"({"name": "x", "model": "hardware"})"), "it has no object \"parameters\"");
    EXPECT_EQ(message_of_text(R"({"name": "x", "model": "hardware", "parameters": {"vec": 3}})"),
              "parameters.vec must be an object of parameters");
}

TEST_F(WrongFile, UnknownKey) {
    json_["parameters"]["vec"]["add_l"] = json_["parameters"]["vec"]["add_L"];
    EXPECT_EQ(message(), "vec.add_l is not a machine parameter; did you mean vec.add_L?");
}

TEST_F(WrongFile, UnknownField) {
    parameter("vec", "ii")["valu"] = 3;
    EXPECT_EQ(message(), "vec.ii.valu is not a key of a machine file; did you mean value?");
}

TEST_F(WrongFile, MissingKey) {
    json_["parameters"]["vec"].erase("ii");
    EXPECT_EQ(message(), "vec.ii is missing; a machine file gives every parameter or names another in \"based_on\"");
}

TEST_F(WrongFile, MissingUnit) {
    json_["parameters"].erase("sdma");
    EXPECT_EQ(message(), "the unit sdma is missing; a machine file gives every parameter or names another in \"based_on\"");
}

TEST_F(WrongFile, MissingFields) {
    parameter("vec", "ii").erase("value");
    EXPECT_EQ(message(), "vec.ii has no value");
    parameter("vec", "ii")["value"] = 3;
    parameter("vec", "ii").erase("source");
    EXPECT_EQ(message(), "vec.ii.source is missing");
    parameter("vec", "ii") = 3;
    EXPECT_EQ(message(), "vec.ii must be an object with value, unit, meaning, source and confidence");
}

TEST_F(WrongFile, WrongTypes) {
    parameter("vec", "ii")["value"] = "three";
    EXPECT_EQ(message(), "vec.ii is \"three\", but it must be a whole number of cycles");
    parameter("vec", "ii")["value"] = 2.5;
    EXPECT_EQ(message(), "vec.ii is 2.5, but it must be a whole number of cycles");
    parameter("vec", "ii")["value"] = UINT64_MAX;
    EXPECT_EQ(message(), "vec.ii is 18446744073709551615, but it must be a whole number of cycles");
    parameter("vec", "ii")["value"] = true;
    EXPECT_EQ(message(), "vec.ii is true, but it must be a whole number of cycles");
    parameter("vec", "ii")["value"] = 3;
    parameter("sa", "psum_in")["value"] = 1;
    EXPECT_EQ(message(), "sa.psum_in is 1, but it must be true or false");
    parameter("sa", "psum_in")["value"] = false;
    parameter("sa", "psum_in")["confidence"] = "sure";
    EXPECT_EQ(message(), "sa.psum_in.confidence is \"sure\", but it must be M, R, D, T or X");
    parameter("sa", "psum_in")["confidence"] = "R";
    parameter("vec", "ii")["unit"] = "ns";
    EXPECT_EQ(message(), "vec.ii is counted in \"cycles\", not in \"ns\"");
}

TEST_F(WrongFile, ImpossibleValues) {
    parameter("vec", "ii")["value"] = 0;
    EXPECT_EQ(message(), "vec.ii is 0, but it must be 1..4096 cycles");
    parameter("vec", "ii")["value"] = -3;
    EXPECT_EQ(message(), "vec.ii is -3, but it must be 1..4096 cycles");
}

TEST_F(WrongFile, Contradictions) {
    const auto with = [this](const std::string &group, const std::string &member, int64_t value) {
        json_ = ordered_json::parse(read_text(shipped_file("ax01")));
        parameter(group, member)["value"] = value;
        return message();
    };
    EXPECT_EQ(with("pad", "bytes", 100), "machine ax01: pad.bytes must be a multiple of pad.row_bytes");
    EXPECT_EQ(with("pad", "bytes", 192), "machine ax01: pad.bytes is 192, but it must be a power of two");
    EXPECT_EQ(with("sdma", "beat", 24), "machine ax01: sdma.beat is 24, but it must be a power of two");
    EXPECT_EQ(with("icache", "sector", 128), "machine ax01: icache.line must be a multiple of icache.sector");
    EXPECT_EQ(with("icache", "line", 4096), "no error");
    EXPECT_EQ(with("icache", "bytes", 128), "no error");
    EXPECT_EQ(with("dcache", "beat", 128), "machine ax01: dcache.line must be a multiple of dcache.beat");
    EXPECT_EQ(with("dcache", "bytes", 128), "machine ax01: dcache.bytes must be a multiple of dcache.line times dcache.ways");
    EXPECT_EQ(with("dram", "banks", 1), "machine ax01: dram.banks must be a multiple of dram.groups");
    EXPECT_EQ(with("dram", "refresh", 6239),
              "machine ax01: dram.refresh_interval must leave more than 38 cycles after dram.refresh, "
              "or no beat is ever served");
}

TEST_F(WrongFile, Inheritance) {
    EXPECT_EQ(message_of_text(R"({"name": "x", "based_on": "ax01", "parameters": {}})"), "no error") << "a shipped one";
    EXPECT_EQ(message_of_text(R"({"name": "x", "based_on": "ax02", "parameters": {}})"),
              "it is based on \"ax02\", but there is no ax02.json beside it and no machine of that name");
    EXPECT_EQ(message_of_text(R"({"name": "x", "based_on": "../ax01", "parameters": {}})"),
              "\"based_on\" is \"../ax01\", but it must be a name, not a path");
    EXPECT_EQ(message_of_text(R"({"name": "x", "based_on": "wrong", "parameters": {}})"),
              "\"based_on\" leads through more than 8 files");
}

TEST(MachineDocument, TheTableOfFidelityHasEveryParameter) {
    const std::string page = read_text(source_path("docs/fidelity.md"));
    for (const ParameterEntry &entry : parameter_table()) {
        EXPECT_NE(page.find("\n| `" + std::string(entry.key) + "` | "), std::string::npos)
            << entry.key << " is missing: run docs/figures/sensitivity.py";
    }
}

// docs/machine.md is written anew by this test with ATALLA_WRITE_DOCS=1 in the environment.
TEST(MachineDocument, IsTheFileInDocs) {
    const std::string page = describe_machine_markdown(shipped_file("ax01"));
    if (std::getenv("ATALLA_WRITE_DOCS") != nullptr) {
        std::ofstream(source_path("docs/machine.md")) << page;
    }
    EXPECT_EQ(read_text(source_path("docs/machine.md")), page)
        << "docs/machine.md is out of date: run this test with ATALLA_WRITE_DOCS=1 in the environment";
    EXPECT_THAT(page, AllOf(HasSubstr("## vec"), HasSubstr("| `vec.ii` | 3 | cycles | 1..4096 | 2 | R |"),
                            HasSubstr("| `sa.psum_in` | false | true or false | true, false | true | R |"),
                            HasSubstr("| `vec.vl` | 32 | elements | fixed |  | R |")));
}

}  // namespace
}  // namespace atalla
