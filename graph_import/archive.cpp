#include "graph_import/archive.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "isa/error.h"
#include "isa/read_file.h"

namespace atalla {

namespace {

constexpr zip_int64_t most_entries = 200'000;
constexpr int64_t always_allowed = int64_t{256} << 20;  // bytes of expanded entries
constexpr int64_t largest_ratio = 20;

// A window on bytes that remembers where libzip read last. Opening an entry makes libzip read its local header, and the
// first read of its raw data then tells where they are: libzip has no call that does.
struct Window {
    const std::byte *data;
    int64_t size;
    int64_t position = 0;
    int64_t last_read = 0;
    zip_error_t error{};
};

zip_int64_t serve(void *state, void *buffer, zip_uint64_t length, zip_source_cmd_t command) {
    Window &window = *static_cast<Window *>(state);
    switch (command) {
        case ZIP_SOURCE_OPEN:
            window.position = 0;
            return 0;
        case ZIP_SOURCE_CLOSE:
        case ZIP_SOURCE_FREE:
            return 0;
        case ZIP_SOURCE_READ: {
            const int64_t count = std::min<int64_t>(static_cast<int64_t>(length), window.size - window.position);
            std::memcpy(buffer, window.data + window.position, count);
            window.last_read = window.position;
            window.position += count;
            return count;
        }
        case ZIP_SOURCE_SEEK: {
            const zip_int64_t to = zip_source_seek_compute_offset(window.position, window.size, buffer, length, &window.error);
            if (to < 0) return -1;
            window.position = to;
            return 0;
        }
        case ZIP_SOURCE_TELL:
            return window.position;
        case ZIP_SOURCE_STAT: {
            auto *stat = static_cast<zip_stat_t *>(buffer);
            zip_stat_init(stat);
            stat->size = window.size;
            stat->valid |= ZIP_STAT_SIZE;
            return sizeof *stat;
        }
        case ZIP_SOURCE_ERROR:
            return zip_error_to_data(&window.error, buffer, length);
        case ZIP_SOURCE_SUPPORTS:
            return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                                  ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                                  ZIP_SOURCE_SUPPORTS, -1);
        default:
            return -1;
    }
}

std::shared_ptr<const Storage> map_file(const std::filesystem::path &file) {
    const auto fail = [&](int error) { throw Error(unreadable(file, error)); };
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail(errno);
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || S_ISDIR(status.st_mode)) {
        const int error = S_ISDIR(status.st_mode) ? EISDIR : errno;
        ::close(descriptor);
        fail(error);
    }
    const auto size = static_cast<size_t>(status.st_size);
    if (size == 0) {  // cannot be mapped
        ::close(descriptor);
        return std::make_shared<Storage>();
    }
    void *memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int error = errno;
    ::close(descriptor);
    if (memory == MAP_FAILED) fail(error);
    std::shared_ptr<const void> owner(memory, [size](const void *p) { ::munmap(const_cast<void *>(p), size); });
    return std::make_shared<Storage>(Storage{owner, static_cast<const std::byte *>(memory), static_cast<int64_t>(size)});
}

bool leaves_archive(std::string_view name) {
    if (name.empty() || name[0] == '/' || name.find('\\') != name.npos) return true;
    for (size_t start = 0; start <= name.size();) {
        const size_t end = std::min(name.find('/', start), name.size());
        if (name.substr(start, end - start) == "..") return true;
        start = end + 1;
    }
    return false;
}

// Names from outside, for messages.
std::string printable(std::string_view name) {
    std::string result;
    for (char c : name.substr(0, 100)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    return result;
}

}  // namespace

struct Archive::State {
    struct Entry {
        zip_uint64_t index = 0;
        int64_t offset = 0, stored_bytes = 0, bytes = 0;
        uint32_t checksum = 0;
        bool deflated = false;
    };

    std::string name;
    std::shared_ptr<const Storage> file;
    Window window{};
    zip_t *zip = nullptr;
    std::vector<std::string> order;
    std::unordered_map<std::string, Entry> entries;

    ~State() {
        if (zip) zip_discard(zip);
    }

    [[noreturn]] void fail(const std::string &what) const { throw Error(fmt::format("{}: {}", name, what)); }

    void open() {
        if (file->bytes == 0) fail("the file is empty");
        window = {file->data, file->bytes};
        zip_error_t error;
        zip_error_init(&error);
        zip_source_t *source = zip_source_function_create(serve, &window, &error);
        if (!source) fail(fmt::format("cannot be read: {}", zip_error_strerror(&error)));
        zip = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
        if (!zip) {
            const std::string reason = zip_error_strerror(&error);
            zip_source_free(source);
            zip_error_fini(&error);
            fail(fmt::format(
                "not a zip archive, or a damaged or truncated one ({}); a .pt2 file is what torch.export.save writes", reason));
        }
        const zip_int64_t count = zip_get_num_entries(zip, 0);
        if (count > most_entries) fail(fmt::format("{} entries are more than a model has", count));
        int64_t expanded = 0;
        for (zip_int64_t i = 0; i < count; i++) expanded += add(i);
        if (expanded > always_allowed && expanded / largest_ratio > file->bytes) {
            fail(fmt::format("refused: {} bytes of file would expand to {}", file->bytes, expanded));
        }
        require_disjoint();
    }

    // Returns the expanded bytes.
    int64_t add(zip_int64_t index) {
        zip_stat_t stat;
        zip_stat_init(&stat);
        if (zip_stat_index(zip, index, 0, &stat) != 0) fail(fmt::format("entry {} cannot be read", index));
        constexpr zip_uint64_t needed =
            ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_CRC;
        if ((stat.valid & needed) != needed) fail(fmt::format("entry {} is incomplete", index));
        const std::string entry = stat.name;
        if (leaves_archive(entry)) fail(fmt::format("entry '{}' has a name that leaves the archive", printable(entry)));
        if (entry.back() == '/') return 0;
        if (stat.valid & ZIP_STAT_ENCRYPTION_METHOD && stat.encryption_method != ZIP_EM_NONE) {
            fail(fmt::format("entry '{}' is encrypted", printable(entry)));
        }
        if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
            fail(fmt::format("entry '{}' has compression method {}; stored and deflated entries can be read", printable(entry),
                             stat.comp_method));
        }
        constexpr zip_uint64_t absurd = zip_uint64_t{1} << 46;
        if (stat.size > absurd || stat.comp_size > absurd) fail(fmt::format("entry '{}' has an absurd size", printable(entry)));
        Entry found{static_cast<zip_uint64_t>(index), 0,        static_cast<int64_t>(stat.comp_size),
                    static_cast<int64_t>(stat.size),  stat.crc, stat.comp_method == ZIP_CM_DEFLATE};
        if (!found.deflated && found.bytes != found.stored_bytes) {
            fail(fmt::format("entry '{}' is stored, but its two sizes differ", printable(entry)));
        }
        if (!entries.emplace(entry, found).second) fail(fmt::format("entry '{}' is there twice", printable(entry)));
        order.push_back(entry);
        entries[entry].offset = offset_of(index, entry, found.stored_bytes);
        return found.bytes;
    }

    int64_t offset_of(zip_int64_t index, const std::string &entry, int64_t stored_bytes) {
        if (stored_bytes == 0) return 0;
        zip_file_t *opened = zip_fopen_index(zip, index, ZIP_FL_COMPRESSED);
        if (!opened) fail(fmt::format("entry '{}' cannot be read: {}", printable(entry), zip_strerror(zip)));
        char first = 0;
        const zip_int64_t count = zip_fread(opened, &first, 1);
        zip_fclose(opened);
        if (count != 1 || window.last_read < 0 || stored_bytes > file->bytes - window.last_read) {
            fail(fmt::format("entry '{}' reaches beyond the end of the file, which is truncated or damaged", printable(entry)));
        }
        return window.last_read;
    }

    void require_disjoint() const {
        std::vector<std::pair<int64_t, const std::string *>> starts;
        for (const std::string &entry : order) {
            if (entries.at(entry).stored_bytes > 0) starts.emplace_back(entries.at(entry).offset, &entry);
        }
        std::sort(starts.begin(), starts.end());
        for (size_t i = 1; i < starts.size(); i++) {
            if (starts[i - 1].first + entries.at(*starts[i - 1].second).stored_bytes > starts[i].first) {
                fail(fmt::format("entries '{}' and '{}' overlap", printable(*starts[i - 1].second),
                                 printable(*starts[i].second)));
            }
        }
    }

    const Entry &find(std::string_view entry) const {
        const auto found = entries.find(std::string(entry));
        if (found == entries.end()) fail(fmt::format("entry '{}' is missing", printable(entry)));
        return found->second;
    }

    std::shared_ptr<const Storage> inflate(const Entry &entry, const std::string &what) const {
        std::shared_ptr<std::byte[]> memory(new std::byte[std::max<int64_t>(entry.bytes, 1)]);
        zip_file_t *opened = zip_fopen_index(zip, entry.index, 0);
        if (!opened) fail(fmt::format("entry '{}' cannot be read: {}", what, zip_strerror(zip)));
        int64_t done = 0;
        while (done < entry.bytes) {
            const zip_int64_t count = zip_fread(opened, memory.get() + done, entry.bytes - done);
            if (count <= 0) break;
            done += count;
        }
        char more = 0;
        const bool longer = zip_fread(opened, &more, 1) != 0;
        zip_fclose(opened);
        if (done != entry.bytes || longer)
            fail(fmt::format("entry '{}' is damaged: it does not expand to what it should", what));
        return std::make_shared<Storage>(Storage{memory, memory.get(), entry.bytes});
    }
};

Archive::Archive(std::unique_ptr<State> state) : state_(std::move(state)) {}
Archive::Archive(Archive &&) noexcept = default;
Archive &Archive::operator=(Archive &&) noexcept = default;
Archive::~Archive() = default;

Archive Archive::open(const std::filesystem::path &file) {
    auto state = std::make_unique<State>();
    state->name = file.string();
    state->file = map_file(file);
    state->open();
    return Archive(std::move(state));
}

Archive Archive::of_bytes(std::span<const std::byte> bytes, std::string_view name) {
    auto state = std::make_unique<State>();
    state->name = name;
    std::shared_ptr<std::byte[]> memory(new std::byte[std::max<size_t>(bytes.size(), 1)]);
    std::copy(bytes.begin(), bytes.end(), memory.get());
    state->file = std::make_shared<Storage>(Storage{memory, memory.get(), static_cast<int64_t>(bytes.size())});
    state->open();
    return Archive(std::move(state));
}

const std::string &Archive::name() const { return state_->name; }
const std::vector<std::string> &Archive::entries() const { return state_->order; }
bool Archive::has(std::string_view entry) const { return state_->entries.contains(std::string(entry)); }
int64_t Archive::bytes(std::string_view entry) const { return state_->find(entry).bytes; }

std::shared_ptr<const Storage> Archive::read(std::string_view name, bool check) const {
    const State::Entry &entry = state_->find(name);
    if (entry.deflated) return state_->inflate(entry, printable(name));
    auto storage = std::make_shared<Storage>(Storage{state_->file->owner, state_->file->data + entry.offset, entry.bytes});
    if (check) {
        const auto *data = reinterpret_cast<const Bytef *>(storage->data);
        if (crc32_z(0, data, static_cast<size_t>(entry.bytes)) != entry.checksum) {
            state_->fail(fmt::format("entry '{}' is damaged: its checksum is wrong", printable(name)));
        }
    }
    return storage;
}

std::string Archive::read_text(std::string_view name, int64_t most_bytes) const {
    if (bytes(name) > most_bytes) {
        state_->fail(
            fmt::format("entry '{}' has {} bytes, more than the {} that are read", printable(name), bytes(name), most_bytes));
    }
    const auto storage = read(name);
    return std::string(reinterpret_cast<const char *>(storage->data), storage->bytes);
}

}  // namespace atalla
