#include "simulator/memory.h"

#include <algorithm>

#include "simulator/refusal.h"

namespace atalla {

namespace {

// Before the first write to a page since mark(). Where an earlier run kept an original, its room is used again.
template <class Entry>
void make_writable(Entry &entry) {
    using Page = typename decltype(entry.page)::element_type;
    entry.created = !entry.page;
    if (entry.created) {
        entry.page = std::make_unique<Page>();
    } else {
        if (!entry.original) {
            entry.original = std::make_unique_for_overwrite<Page>();
        }
        *entry.original = *entry.page;
    }
    entry.writable = true;
}

}  // namespace

// ByteMemory

void ByteMemory::read(uint64_t address, std::span<uint8_t> out) const {
    while (!out.empty()) {
        const uint64_t offset = address & page_mask;
        const size_t count = std::min<uint64_t>(out.size(), page_size - offset);
        if (const uint8_t *page = find(address)) {
            std::memcpy(out.data(), page + offset, count);
        } else {
            std::memset(out.data(), 0, count);
        }
        address += count;
        out = out.subspan(count);
    }
}

void ByteMemory::write(uint64_t address, std::span<const uint8_t> in) {
    while (!in.empty()) {
        const uint64_t offset = address & page_mask;
        const size_t count = std::min<uint64_t>(in.size(), page_size - offset);
        std::memcpy(touch(address) + offset, in.data(), count);
        address += count;
        in = in.subspan(count);
    }
}

uint8_t *ByteMemory::make_writable(uint64_t index) {
    if (index >= entries_.size()) {
        entries_.resize(index + 1);
    }
    Entry &entry = entries_[index];
    atalla::make_writable(entry);
    return entry.page->bytes;
}

void ByteMemory::mark() {
    for (Entry &entry : entries_) {
        entry.writable = false;
    }
}

ChangedWords ByteMemory::changed_words() const {
    ChangedWords changed;
    for (size_t number = 0; number < entries_.size(); number++) {
        const Entry &entry = entries_[number];
        if (!entry.writable) {
            continue;
        }
        for (uint64_t offset = 0; offset < page_size; offset += 4) {
            uint32_t now, before = 0;
            std::memcpy(&now, entry.page->bytes + offset, 4);
            if (!entry.created) {
                std::memcpy(&before, entry.original->bytes + offset, 4);
            }
            if (now != before) {
                changed[static_cast<int64_t>(number * page_size + offset)] = now;
            }
        }
    }
    return changed;
}

uint64_t ByteMemory::resident() const {
    return page_size * std::ranges::count_if(entries_, [](const Entry &entry) { return entry.page != nullptr; });
}

// WordMemory

namespace {

// True if bits first .. first + count - 1 are all set.
bool all_set(const uint64_t *bits, size_t first, size_t count) {
    for (size_t bit = first; bit < first + count;) {
        const size_t here = std::min<size_t>(64 - bit % 64, first + count - bit);
        const uint64_t wanted = (here == 64 ? ~uint64_t{0} : (uint64_t{1} << here) - 1) << (bit % 64);
        if ((bits[bit / 64] & wanted) != wanted) {
            return false;
        }
        bit += here;
    }
    return true;
}

void set_all(uint64_t *bits, size_t first, size_t count) {
    for (size_t bit = first; bit < first + count;) {
        const size_t here = std::min<size_t>(64 - bit % 64, first + count - bit);
        bits[bit / 64] |= (here == 64 ? ~uint64_t{0} : (uint64_t{1} << here) - 1) << (bit % 64);
        bit += here;
    }
}

}  // namespace

uint16_t WordMemory::read_half(uint32_t address) const {
    const int64_t word = address & ~3u;
    const Page *page = find(word);
    if (page == nullptr) {
        return 0;
    }
    if (page->has(word)) {
        return static_cast<uint16_t>(page->value[0][index_of(word)] >> (address & 2 ? 16 : 0));
    }
    return page->has(address) ? static_cast<uint16_t>(page->value[address & 3][index_of(address)]) : uint16_t{0};
}

void WordMemory::write_half(uint32_t address, uint16_t value) {
    const int64_t word = address & ~3u;
    const uint32_t old = read(word);
    write(word, address & 2 ? (old & 0x0000FFFF) | uint32_t{value} << 16 : (old & 0xFFFF0000) | value);
}

// Rows of elements mostly lie in aligned words that exist: those are copied as bytes, a page at a time.
void WordMemory::read_halves_slow(uint32_t address, std::span<uint16_t> out) const {
    while (!out.empty()) {
        const size_t index = index_of(address), count = std::min(out.size() / 2, static_cast<size_t>(words) - index);
        const Page *page = (address & 3) == 0 && count > 0 ? find(address) : nullptr;
        if (page != nullptr && all_set(page->present[0], index, count)) {
            std::memcpy(out.data(), &page->value[0][index], 4 * count);
            address += static_cast<uint32_t>(4 * count);
            out = out.subspan(2 * count);
        } else {
            // One element brings the next one onto an aligned word; a hole is passed element by element.
            out[0] = read_half(address);
            address += 2;
            out = out.subspan(1);
        }
    }
}

void WordMemory::write_halves(uint32_t address, std::span<const uint16_t> in) {
    while (!in.empty()) {
        const size_t index = index_of(address), count = std::min(in.size() / 2, static_cast<size_t>(words) - index);
        if ((address & 3) == 0 && count > 0) {
            Page &page = touch(address);
            std::memcpy(&page.value[0][index], in.data(), 4 * count);
            set_all(page.present[0], index, count);
            address += static_cast<uint32_t>(4 * count);
            in = in.subspan(2 * count);
        } else {
            write_half(address, in[0]);
            address += 2;
            in = in.subspan(1);
        }
    }
}

// Bytes in between whole elements go as elements, a piece at a time.
void WordMemory::read_bytes(uint32_t address, std::span<uint8_t> out) const {
    std::array<uint16_t, 2048> halves;
    while (!out.empty()) {
        const size_t skip = address & 1, count = std::min(out.size(), 2 * halves.size() - skip);
        read_halves(address & ~1u, std::span(halves).first((skip + count + 1) / 2));
        std::memcpy(out.data(), reinterpret_cast<const uint8_t *>(halves.data()) + skip, count);
        address += static_cast<uint32_t>(count);
        out = out.subspan(count);
    }
}

void WordMemory::write_bytes(uint32_t address, std::span<const uint8_t> in) {
    const auto write_one = [&] {
        const uint16_t old = read_half(address & ~1u);
        write_half(address & ~1u, static_cast<uint16_t>(address & 1 ? (old & 0x00FF) | in[0] << 8 : (old & 0xFF00) | in[0]));
        address++;
        in = in.subspan(1);
    };
    if (!in.empty() && (address & 1) != 0) {
        write_one();
    }
    std::array<uint16_t, 2048> halves;
    while (in.size() >= 2) {
        const size_t count = std::min(in.size() / 2, halves.size());
        std::memcpy(halves.data(), in.data(), 2 * count);
        write_halves(address, std::span(halves).first(count));
        address += static_cast<uint32_t>(2 * count);
        in = in.subspan(2 * count);
    }
    if (!in.empty()) {
        write_one();
    }
}

void WordMemory::clear() {
    entries_.clear();
    read_cache_ = {};
    write_cache_ = {};
}

void WordMemory::mark() {
    for (auto &[number, entry] : entries_) {
        entry.writable = false;
    }
    write_cache_ = {};
}

ChangedWords WordMemory::changed_words() const {
    ChangedWords changed;
    for (const auto &[number, entry] : entries_) {
        if (!entry.writable) {
            continue;
        }
        for (int64_t key = number << page_bits; key < (number + 1) << page_bits; key++) {
            if (!entry.page->has(key)) {
                continue;
            }
            const uint32_t now = entry.page->value[key & 3][index_of(key)];
            if (entry.created || !entry.original->has(key) || entry.original->value[key & 3][index_of(key)] != now) {
                changed[key] = now;
            }
        }
    }
    return changed;
}

const WordMemory::Page *WordMemory::find_slow(int64_t number) const {
    const auto found = entries_.find(number);
    if (found == entries_.end()) {
        return nullptr;
    }
    const Page *page = found->second.page.get();
    read_cache_[static_cast<size_t>(number) % cache_size] = {number, page};
    return page;
}

WordMemory::Page &WordMemory::touch_slow(int64_t number) {
    if (entries_.size() >= most_pages_ && !entries_.contains(number)) [[unlikely]] {
        refuse("memory", "the program writes to more different addresses than the memory of the machine can hold");
    }
    Entry &entry = entries_[number];
    if (!entry.writable) {
        make_writable(entry);
    }
    write_cache_[static_cast<size_t>(number) % cache_size] = {number, entry.page.get()};
    return *entry.page;
}

}  // namespace atalla
