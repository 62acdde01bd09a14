#include "runtime/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "isa/error.h"
#include "isa/read_file.h"

namespace atalla {

MappedFile::MappedFile(const std::filesystem::path &file) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw Error(unreadable(file, errno));
    struct stat status = {};
    std::string failure;
    if (::fstat(descriptor, &status) != 0)
        failure = std::strerror(errno);
    else if (!S_ISREG(status.st_mode))
        failure = "not a regular file";
    size_ = static_cast<size_t>(status.st_size);
    if (failure.empty() && size_ > 0) {
        void *mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (mapped == MAP_FAILED)
            failure = std::strerror(errno);
        else
            data_ = static_cast<const uint8_t *>(mapped);
    }
    ::close(descriptor);
    if (!failure.empty()) throw Error(fmt::format("{}: {}", file.string(), failure));
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<uint8_t *>(data_), size_);
}

}  // namespace atalla
