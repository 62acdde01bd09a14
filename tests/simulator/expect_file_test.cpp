#include "simulator/expect_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "isa/error.h"
#include "tests/isa/test_paths.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::ElementsAre;

std::string vector_row(int number, const std::string &first) {
    std::string row = "v " + std::to_string(number) + " " + first;
    for (int lane = 1; lane < lanes; lane++) {
        row += " 00000000";
    }
    return row + "\n";
}
ExpectFile read(const std::string &text) {
    std::istringstream input(text);
    return read_expect(input, "test.expect");
}

TEST(ExpectFile, RoundTrip) {
    const std::string text = "x 2 00003000\nx 255 FFFFFFFF\nm 0 FFFFFFFF\n" + vector_row(7, "80000000") +
                             "d -0000004 00000001\nd 00001000 DEADBEEF\nd 100000004 00000000\npackets 145\n";
    const ExpectFile file = read(text);
    EXPECT_EQ(file.x.at(255), 0xFFFFFFFFu);
    EXPECT_EQ(file.v.at(7)[0], 0x80000000u);
    EXPECT_EQ(file.d.at(-4), 1u);
    EXPECT_EQ(file.d.at(0x100000004), 0u);
    EXPECT_EQ(file.packets, 145u);
    EXPECT_EQ(file.text(), text);
    EXPECT_EQ(read(file.text()), file);
}

TEST(ExpectFile, HoldsWhatIsNotZero) {
    Registers state;
    state.x[3] = 5;
    state.m[2] = 1;
    state.v[4][31] = -0.0f;
    const ExpectFile file = expect_of(state, {{0x1000, 0}}, 3);
    EXPECT_EQ(file.x, (std::map<int, uint32_t>{{3, 5}}));
    EXPECT_EQ(file.m, (std::map<int, uint32_t>{{0, 0xFFFFFFFF}, {2, 1}}));
    ASSERT_EQ(file.v.size(), 1u);
    EXPECT_EQ(file.v.at(4)[31], 0x80000000u);
    EXPECT_EQ(file.d.size(), 1u);
    EXPECT_EQ(file.packets, 3u);
}

TEST(ExpectFile, Differences) {
    const ExpectFile expected = read("x 1 00000001\nx 2 00000002\nd 00001000 00000001\npackets 3\n");
    const ExpectFile actual = read("x 1 00000001\nx 2 00000003\nx 4 00000001\npackets 4\n");
    EXPECT_THAT(differences(expected, actual),
                ElementsAre("expected 3 packets, found 4", "expected x 2 00000002, found x 2 00000003",
                            "unexpected x 4 00000001", "expected d 00001000 00000001, which is absent"));
    EXPECT_THAT(differences(expected, actual, 2), testing::SizeIs(2));
    EXPECT_THAT(differences(expected, expected), ElementsAre());
}

TEST(ExpectFile, RefusesWhatIsNotOne) {
    const auto message = [](const std::string &text) -> std::string { return error_of([&] { read(text); }); };
    EXPECT_EQ(message("packets 1\nq 1 2\n"), "test.expect:2: a row starts with x, m, v, d or packets, not 'q'");
    EXPECT_EQ(message("x 256 00000001\n"), "test.expect:1: register number 256 is not in 0..255");
    EXPECT_EQ(message("m 16 00000001\n"), "test.expect:1: register number 16 is not in 0..15");
    EXPECT_EQ(message("x 1\n"), "test.expect:1: the row ends too early");
    EXPECT_EQ(message("x 1 123456789\n"), "test.expect:1: 123456789 does not fit 32 bits");
    EXPECT_EQ(message("x 1 12G\n"), "test.expect:1: '12G' is not a number");
    EXPECT_EQ(message("x 1 1 1\n"), "test.expect:1: '1' after the end of the row");
    EXPECT_EQ(message("packets -1\n"), "test.expect:1: the number of packets is negative");
    EXPECT_THROW(read_expect(std::filesystem::path("no/such/file")), Error);
}

}  // namespace
}  // namespace atalla
