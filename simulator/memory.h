// Data memory. Two views of the same idea: flat bytes for the hardware machines, and upstream's map of 32-bit values keyed
// by exact byte address for the functional machine (isa reference section 1.3). Both remember what a run changed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "simulator/numerics.h"

namespace atalla {

// A word that a run created or changed: the key is a byte address.
using ChangedWords = std::map<int64_t, uint32_t>;

// Sparse, demand-zeroed bytes; pages are allocated when written. Every address range must lie inside size().
class ByteMemory {
public:
    explicit ByteMemory(uint64_t bytes = uint64_t{1} << 32) : limit_(bytes) {}
    uint64_t size() const { return limit_; }
    bool contains(uint64_t address, uint64_t bytes) const { return bytes <= limit_ && address <= limit_ - bytes; }

    void read(uint64_t address, std::span<uint8_t> out) const;
    void write(uint64_t address, std::span<const uint8_t> in);

    uint16_t read16(uint64_t address) const { return read_value<uint16_t>(address); }
    uint32_t read32(uint64_t address) const { return read_value<uint32_t>(address); }
    void write16(uint64_t address, uint16_t value) { write_value(address, value); }
    void write32(uint64_t address, uint32_t value) { write_value(address, value); }

    // As it was at first.
    void clear() { entries_.clear(); }

    // From here on, changed_words() tells what differs from now.
    void mark();
    // Aligned 32-bit words that differ from what they were at mark().
    ChangedWords changed_words() const;

    // Number of bytes in allocated pages.
    uint64_t resident() const;

private:
    static constexpr uint64_t page_bits = 16, page_size = 1 << page_bits, page_mask = page_size - 1;
    struct Page {
        alignas(64) uint8_t bytes[page_size];
    };
    struct Entry {
        std::unique_ptr<Page> page;
        std::unique_ptr<Page> original;  // room for the page at mark(), kept at the first write after it
        bool writable = false;           // false: the next write must create the page or keep the original
        bool created = false;            // since mark(): there is no original
    };

    template <class T>
    T read_value(uint64_t address) const {
        T value;
        const uint64_t offset = address & page_mask;
        if (offset + sizeof(T) > page_size) {
            read(address, {reinterpret_cast<uint8_t *>(&value), sizeof(T)});
            return value;
        }
        const uint8_t *page = find(address);
        if (page == nullptr) {
            return 0;
        }
        std::memcpy(&value, page + offset, sizeof(T));
        return value;
    }
    template <class T>
    void write_value(uint64_t address, T value) {
        const uint64_t offset = address & page_mask;
        if (offset + sizeof(T) > page_size) {
            write(address, {reinterpret_cast<const uint8_t *>(&value), sizeof(T)});
        } else {
            std::memcpy(touch(address) + offset, &value, sizeof(T));
        }
    }
    const uint8_t *find(uint64_t address) const {
        const uint64_t index = address >> page_bits;
        return index < entries_.size() && entries_[index].page ? entries_[index].page->bytes : nullptr;
    }
    uint8_t *touch(uint64_t address) {
        const uint64_t index = address >> page_bits;
        if (index < entries_.size() && entries_[index].writable) {
            return entries_[index].page->bytes;
        }
        return make_writable(index);
    }
    uint8_t *make_writable(uint64_t index);

    uint64_t limit_;
    std::vector<Entry> entries_;  // by page number, as long as the highest page written
};

// Upstream's data memory: 32-bit values at exact keys. Neighbouring keys are independent; a key may be missing, negative or
// beyond 2^32 (isa reference 1.3, quirks 17 and 19).
class WordMemory {
public:
    // `most_bytes`: what the entries may take on the host; a write beyond it throws Refusal "memory".
    explicit WordMemory(uint64_t most_bytes = UINT64_MAX) : most_pages_(most_bytes / sizeof(Page)) {}

    // The entry with exactly this key, 0 if missing.
    uint32_t read(int64_t key) const {
        const Page *page = find(key);
        return page != nullptr ? page->value[key & 3][index_of(key)] : 0;
    }
    void write(int64_t key, uint32_t value) {
        Page &page = touch(key);
        page.value[key & 3][index_of(key)] = value;
        page.present[key & 3][index_of(key) / 64] |= uint64_t{1} << (index_of(key) % 64);
    }
    bool exists(int64_t key) const {
        const Page *page = find(key);
        return page != nullptr && page->has(key);
    }

    // A40's bf16 view: the half of the aligned word if that exists, else the low half of the entry itself, else 0.
    uint16_t read_half(uint32_t address) const;
    // Merges 16 bits into the aligned word, which is created as 0 if missing.
    void write_half(uint32_t address, uint16_t value);
    // `out.size()` consecutive bf16 elements; addresses wrap at 2^32.
    void read_halves(uint32_t address, std::span<uint16_t> out) const {
        // A row of 32 elements that lies in one page and in words that all exist.
        const size_t index = index_of(address);
        if (out.size() == 2 * row_words && (address & 3) == 0 && index <= static_cast<size_t>(words) - row_words) {
            const Page *page = find(address);
            if (page != nullptr && page->has_row(index)) [[likely]] {
                std::memcpy(out.data(), &page->value[0][index], 4 * row_words);
                return;
            }
        }
        read_halves_slow(address, out);
    }
    void write_halves(uint32_t address, std::span<const uint16_t> in);

    // Bytes, in and out by the same rule, for whoever places tensors.
    void read_bytes(uint32_t address, std::span<uint8_t> out) const;
    void write_bytes(uint32_t address, std::span<const uint8_t> in);

    // As it was at first.
    void clear();

    // From here on, changed_words() tells what differs from now.
    void mark();
    // Entries created since mark(), or whose value differs from what it was then.
    ChangedWords changed_words() const;

private:
    static constexpr int page_bits = 12;
    static constexpr int64_t words = (int64_t{1} << page_bits) / 4;
    static constexpr size_t row_words = 16;
    static size_t index_of(int64_t key) { return static_cast<size_t>(key >> 2) % words; }

    // Entries of 4096 consecutive keys. Keys with the same two low bits lie side by side, so that a row of bf16 elements in
    // aligned words is a run of bytes.
    struct alignas(64) Page {
        uint32_t value[4][words];
        uint64_t present[4][words / 64];
        // Whether the aligned words index .. index+row_words-1 exist.
        bool has_row(size_t index) const {
            constexpr uint64_t row = (uint64_t{1} << row_words) - 1;
            const uint64_t *bits = &present[0][index / 64];
            const size_t shift = index % 64;
            const uint64_t spill = shift > 64 - row_words ? bits[1] << (64 - shift) : 0;
            return ((bits[0] >> shift | spill) & row) == row;
        }
        // Copies the entries; what lies where there is none stays as it is.
        Page &operator=(const Page &other) {
            std::memcpy(present, other.present, sizeof(present));
            for (size_t low = 0; low < 4; low++) {
                if (std::ranges::any_of(present[low], [](uint64_t bits) { return bits != 0; })) {
                    std::memcpy(value[low], other.value[low], sizeof(value[low]));
                }
            }
            return *this;
        }
        bool has(int64_t key) const { return present[key & 3][index_of(key) / 64] >> (index_of(key) % 64) & 1; }
    };
    struct Entry {
        std::unique_ptr<Page> page;
        std::unique_ptr<Page> original;  // room for the page at mark(), kept at the first write after it
        bool writable = false;           // false: the next write must create the page or keep the original
        bool created = false;            // since mark(): there is no original
    };
    // The pages used last, by the low bits of their number.
    static constexpr size_t cache_size = 16;
    template <class P>
    struct Cached {
        int64_t number = INT64_MIN;
        P *page = nullptr;
    };

    void read_halves_slow(uint32_t address, std::span<uint16_t> out) const;
    const Page *find(int64_t key) const {
        const int64_t number = key >> page_bits;
        const Cached<const Page> &cached = read_cache_[static_cast<size_t>(number) % cache_size];
        return cached.number == number ? cached.page : find_slow(number);
    }
    Page &touch(int64_t key) {
        const int64_t number = key >> page_bits;
        const Cached<Page> &cached = write_cache_[static_cast<size_t>(number) % cache_size];
        return cached.number == number ? *cached.page : touch_slow(number);
    }
    const Page *find_slow(int64_t number) const;
    Page &touch_slow(int64_t number);

    size_t most_pages_;
    std::unordered_map<int64_t, Entry> entries_;
    mutable std::array<Cached<const Page>, cache_size> read_cache_{};
    std::array<Cached<Page>, cache_size> write_cache_{};  // holds writable pages only
};

}  // namespace atalla
