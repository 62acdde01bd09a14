// Settings, sweeps and grids of machines: what they make and what they refuse.
#include "isa/machine_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::ElementsAre;

std::string setting_error(const std::string &text) {
    return error_of([&] { parse_setting(text); });
}
std::string sweep_error(const std::string &text) {
    return error_of([&] { parse_sweep(text); });
}
std::string grid_error(const std::vector<Setting> &fixed, const std::vector<Sweep> &sweeps) {
    return error_of([&] { machine_grid(find_machine("ax01"), fixed, sweeps); });
}

TEST(MachineGrid, ReadsSettings) {
    EXPECT_EQ(parse_setting("vec.ii=2").value, 2);
    EXPECT_EQ(parse_setting("sa.psum_in=true").value, 1);
    EXPECT_EQ(setting_text(parse_setting("sa.psum_in=true")), "sa.psum_in=true");
    EXPECT_EQ(setting_text(parse_setting("sa.psum_in=0")), "sa.psum_in=false");
}

TEST(MachineGrid, ReadsSweeps) {
    EXPECT_THAT(parse_sweep("pad.count=2,4").values, ElementsAre(2, 4));
    EXPECT_THAT(parse_sweep("vec.ii=1..4").values, ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(parse_sweep("sa.psum_in=false,true").values, ElementsAre(0, 1));
}

TEST(MachineGrid, SaysWhatIsWrong) {
    EXPECT_EQ(setting_error("vec.ij=2"), "vec.ij is not a machine parameter; did you mean vec.ii?");
    EXPECT_EQ(setting_error("vec.ii"), "'vec.ii' has no value: write it as vec.ii=2");
    EXPECT_EQ(setting_error("=2"), "'=2' names no machine parameter: write it as vec.ii=2");
    EXPECT_EQ(setting_error("vec.ii=0"), "vec.ii cannot be '0': it must be 1..4096 cycles");
    EXPECT_EQ(setting_error("vec.ii=2x"), "vec.ii cannot be '2x': it must be 1..4096 cycles");
    EXPECT_EQ(setting_error("sa.psum_in=yes"), "sa.psum_in cannot be 'yes': it must be true or false");
    EXPECT_EQ(sweep_error("sa.credit=1"), "sa.credit is not a machine parameter; did you mean sa.credits?");
    EXPECT_EQ(sweep_error("vec.ii="), "the sweep over vec.ii has no values: write it as vec.ii=1,2,3 or vec.ii=1..3");
    EXPECT_EQ(sweep_error("vec.ii=4..2"), "the sweep vec.ii=4..2 is empty: 4 is larger than 2");
    EXPECT_EQ(sweep_error("vec.ii=1,,2"), "vec.ii cannot be '': it must be 1..4096 cycles");
    EXPECT_EQ(grid_error({{"vec.ii", 2}}, {{"vec.ii", {1, 2}}}), "vec.ii is given twice");
    EXPECT_EQ(grid_error({}, {{"vec.ii", {}}}), "the sweep over vec.ii has no values");
    EXPECT_EQ(grid_error({}, {{"sdma.beat", {32, 24}}}),
              "machine ax01 sdma.beat=24: sdma.beat is 24, but it must be a power of two");
}

TEST(MachineGrid, HasEveryCombinationWithAFingerprintOfItsOwn) {
    const Machine base = find_machine("ax01");
    const auto grid = machine_grid(base, {{"branch.penalty", 2}}, {{"vec.ii", {2, 3}}, {"pad.count", {1, 2, 4}}});
    ASSERT_EQ(grid.size(), 6u);
    EXPECT_EQ(grid[0].machine.name, "ax01 branch.penalty=2 vec.ii=2 pad.count=1");
    EXPECT_EQ(grid[1].machine.pad.count, 2);
    EXPECT_EQ(grid[3].machine.vec.ii, 3);
    std::set<std::string> fingerprints = {base.fingerprint()};
    for (const MachineVariant &variant : grid) {
        EXPECT_EQ(variant.machine.branch.penalty, 2);
        EXPECT_EQ(variant.settings.size(), 2u);
        fingerprints.insert(variant.machine.fingerprint());
    }
    EXPECT_EQ(fingerprints.size(), 7u);
    EXPECT_EQ(machine_grid(base, {}, {}).front().machine.fingerprint(), base.fingerprint());
}

}  // namespace
}  // namespace atalla
