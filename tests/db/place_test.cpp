// Where the database is: the default file, and disks that would corrupt it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "db/default_path.h"
#include "db/local_disk.h"
#include "tests/db/fixtures.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

// Sets the three variables, or removes those that are empty, and puts everything back.
class Environment {
public:
    Environment(const char *file, const char *data, const char *home) : names_{"ATALLA_DB", "XDG_DATA_HOME", "HOME"} {
        const char *values[] = {file, data, home};
        for (int i = 0; i < 3; i++) {
            const char *value = std::getenv(names_[i]);
            before_[i] = value ? std::optional<std::string>(value) : std::nullopt;
            *values[i] ? setenv(names_[i], values[i], 1) : unsetenv(names_[i]);
        }
    }
    ~Environment() {
        for (int i = 0; i < 3; i++) {
            before_[i] ? setenv(names_[i], before_[i]->c_str(), 1) : unsetenv(names_[i]);
        }
    }

private:
    const char *names_[3];
    std::optional<std::string> before_[3];
};

std::string path_with(const char *file, const char *data, const char *home) {
    const Environment environment(file, data, home);
    return default_database_path().string();
}

TEST(DefaultPath, FollowsTheEnvironment) {
    EXPECT_EQ(path_with("here.db", "/data", "/home/me"), "here.db");
    EXPECT_EQ(path_with("", "/data", "/home/me"), "/data/atalla-tune/atalla.db");
    EXPECT_EQ(path_with("", "", "/home/me"), "/home/me/.local/share/atalla-tune/atalla.db");
    EXPECT_EQ(path_with("", "relative", "/home/me"), "/home/me/.local/share/atalla-tune/atalla.db");
    EXPECT_EQ(error_of([] { path_with("", "", ""); }),
              "no place for the tuning database: neither ATALLA_DB nor XDG_DATA_HOME nor HOME is set; name a file with --db");
}

TEST(LocalDisk, NetworkFileSystemsAreKnown) {
    EXPECT_TRUE(is_network_file_system(0x6969)) << "NFS";
    EXPECT_TRUE(is_network_file_system(0xFF534D42)) << "CIFS";
    EXPECT_FALSE(is_network_file_system(0xEF53)) << "ext4";
    EXPECT_FALSE(is_network_file_system(0x01021994)) << "tmpfs";
    EXPECT_FALSE(is_network_file_system(0x58465342)) << "XFS";
}

TEST(LocalDisk, TheTemporaryFolderIsLocal) {
    TemporaryFolder folder;
    EXPECT_EQ(error_of([&] { require_local_disk(folder.path()); }), "no error");
}

}  // namespace
}  // namespace atalla
