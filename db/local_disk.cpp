#include "db/local_disk.h"

#include <fmt/format.h>
#include <sys/vfs.h>
#include <algorithm>
#include <array>

#include "isa/error.h"

namespace atalla {

bool is_network_file_system(uint32_t magic) {
    constexpr std::array<uint32_t, 8> network = {
        0x6969,      // NFS
        0x517B,      // SMB
        0xFF534D42,  // CIFS
        0xFE534D42,  // SMB2
        0x5346414F,  // AFS
        0x73757245,  // Coda
        0x00C36400,  // Ceph
        0x0BD00BD0,  // Lustre
    };
    return std::find(network.begin(), network.end(), magic) != network.end();
}

void require_local_disk(const std::filesystem::path &folder) {
    struct statfs information {};
    const bool known = statfs(folder.c_str(), &information) == 0;
    if (known && is_network_file_system(static_cast<uint32_t>(information.f_type))) {
        throw Error(
            fmt::format("{} is on a network file system, where the database would be corrupted sooner or later; keep "
                        "it on a local disk and exchange rows with export and merge",
                        folder.string()));
    }
}

}  // namespace atalla
