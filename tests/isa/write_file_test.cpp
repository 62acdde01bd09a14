// Files that are written whole or not at all, and what must stay what it is.
#include "isa/write_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>

#include "isa/error.h"
#include "tests/isa/test_paths.h"

namespace atalla {
namespace {

void write_text(const std::filesystem::path &file, const std::string &text) {
    write_file(file, [&](std::ostream &out) { out << text; });
}

TEST(WriteFile, TakesThePlaceWhenItIsWhole) {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "x";
    write_text(file, "one");
    EXPECT_THROW(write_file(file, [](std::ostream &) { throw Error("no"); }), Error);
    EXPECT_EQ(read_text(file), "one");
    write_text(file, "two");
    EXPECT_EQ(read_text(file), "two");
    EXPECT_FALSE(std::filesystem::exists(unfinished_of(file)));
}

// A link to a device stands for the device: root may replace that.
TEST(WriteFile, DevicesStayDevices) {
    const TemporaryFolder folder;
    const std::filesystem::path nothing = folder.path() / "null", full = folder.path() / "full";
    std::filesystem::create_symlink("/dev/null", nothing);
    std::filesystem::create_symlink("/dev/full", full);
    write_text(nothing, "gone");
    EXPECT_THROW(write_text(full, "too much"), Error);
    for (const std::filesystem::path &device : {nothing, full}) {
        EXPECT_TRUE(std::filesystem::is_symlink(device));
        EXPECT_TRUE(std::filesystem::is_character_file(device));
        discard_unfinished(device);
        EXPECT_TRUE(std::filesystem::is_symlink(device));
    }
}

}  // namespace
}  // namespace atalla
