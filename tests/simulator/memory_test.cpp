#include "simulator/memory.h"

#include <gtest/gtest.h>

#include "simulator/tensor_places.h"

#include <map>
#include <numeric>
#include <random>

namespace atalla {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(ByteMemory, StartsAsZeroAndAllocatesOnWrite) {
    ByteMemory memory(uint64_t{1} << 40);
    EXPECT_EQ(memory.size(), uint64_t{1} << 40);
    EXPECT_EQ(memory.read32(0xFFFFFFFFFF - 3), 0u);
    EXPECT_EQ(memory.resident(), 0u);
    memory.write32(0x12345678, 0xDEADBEEF);
    EXPECT_EQ(memory.resident(), 65536u);
    EXPECT_EQ(memory.read32(0x12345678), 0xDEADBEEFu);
    EXPECT_EQ(memory.read16(0x1234567A), 0xDEADu);
    EXPECT_EQ(memory.read32(0x12345679), 0x00DEADBEu);
    EXPECT_EQ(memory.resident(), 65536u);
}

TEST(ByteMemory, ContainsRanges) {
    const ByteMemory memory(100);
    EXPECT_TRUE(memory.contains(0, 100));
    EXPECT_TRUE(memory.contains(96, 4));
    EXPECT_TRUE(memory.contains(100, 0));
    EXPECT_FALSE(memory.contains(97, 4));
    EXPECT_FALSE(memory.contains(0, 101));
    EXPECT_FALSE(memory.contains(~uint64_t{0}, 4));
}

TEST(ByteMemory, AccessesCrossPages) {
    ByteMemory memory;
    for (const uint64_t at : {65535u, 65534u, 65533u}) {
        memory.write32(at, 0x44332211);
        EXPECT_EQ(memory.read32(at), 0x44332211u) << at;
        EXPECT_EQ(memory.read16(at + 1), 0x3322u) << at;
    }
    memory.write16(131071, 0x6655);
    EXPECT_EQ(memory.read16(131071), 0x6655u);

    Bytes in(200000), out(in.size());
    std::iota(in.begin(), in.end(), uint8_t{1});
    memory.write(1000, in);
    memory.read(1000, out);
    EXPECT_EQ(in, out);
    memory.read(1000 + in.size(), out);  // past the last page: zero
    EXPECT_EQ(out, Bytes(out.size()));
}

TEST(ByteMemory, ChangedWordsAreThoseSinceTheMark) {
    ByteMemory memory;
    memory.write32(0x100, 7);
    memory.write32(0x104, 8);
    EXPECT_EQ(memory.changed_words(), (ChangedWords{{0x100, 7}, {0x104, 8}}));
    memory.mark();
    EXPECT_TRUE(memory.changed_words().empty());
    memory.write16(0x106, 1);
    memory.write32(0x100, 7);     // written, not changed
    memory.write32(0x200000, 5);  // a new page
    memory.write32(0x200004, 0);
    EXPECT_EQ(memory.changed_words(), (ChangedWords{{0x104, 0x00010008}, {0x200000, 5}}));
    memory.mark();
    memory.write32(0x104, 0);
    EXPECT_EQ(memory.changed_words(), (ChangedWords{{0x104, 0}}));
}

TEST(WordMemory, KeysAreIndependent) {
    WordMemory memory;
    memory.write(0x1000, 0x11111111);
    memory.write(0x1001, 0x22222222);
    memory.write(-1, 0x33333333);
    memory.write(int64_t{1} << 33, 0x44444444);
    EXPECT_EQ(memory.read(0x1000), 0x11111111u);
    EXPECT_EQ(memory.read(0x1001), 0x22222222u);
    EXPECT_EQ(memory.read(0x1002), 0u);
    EXPECT_EQ(memory.read(-1), 0x33333333u);
    EXPECT_EQ(memory.read(int64_t{1} << 33), 0x44444444u);
    EXPECT_FALSE(memory.exists(0x1002));
    EXPECT_FALSE(memory.exists(0));
    memory.write(0x1002, 0);
    EXPECT_TRUE(memory.exists(0x1002));
}

TEST(WordMemory, HalvesBelongToTheAlignedWordIfItExists) {
    WordMemory memory;
    memory.write(0x1002, 0xAAAABBBB);
    EXPECT_EQ(memory.read_half(0x1002), 0xBBBB);  // the aligned word is missing: the entry itself
    EXPECT_EQ(memory.read_half(0x1000), 0);
    memory.write(0x1000, 0x12345678);
    EXPECT_EQ(memory.read_half(0x1000), 0x5678);
    EXPECT_EQ(memory.read_half(0x1002), 0x1234);
    memory.write_half(0x1002, 0x9999);
    EXPECT_EQ(memory.read(0x1000), 0x99995678u);
    EXPECT_EQ(memory.read(0x1002), 0xAAAABBBBu);
    memory.write_half(0x2002, 0x7777);  // created, the other half zero
    EXPECT_EQ(memory.read(0x2000), 0x77770000u);
    EXPECT_FALSE(memory.exists(0x2002));
}

// Rows are copied in runs; the definition is element by element.
TEST(WordMemory, RowsEqualSingleHalves) {
    std::mt19937 random(3);
    WordMemory memory;
    for (int i = 0; i < 3000; i++) {
        memory.write(static_cast<int64_t>(0xF00 + random() % 0x500), static_cast<uint32_t>(random()));
    }
    for (uint32_t address = 0x1200; address < 0x1400; address += 4) {
        memory.write(address, static_cast<uint32_t>(random()));
    }
    for (uint32_t address = 0xEF0; address < 0x1410; address++) {
        for (const size_t count : {1u, 2u, 5u, 32u}) {
            std::vector<uint16_t> row(count);
            memory.read_halves(address, row);
            for (size_t i = 0; i < count; i++) {
                ASSERT_EQ(row[i], memory.read_half(address + 2 * static_cast<uint32_t>(i))) << address << " " << i;
            }
        }
    }
}

TEST(WordMemory, WrittenRowsEqualSingleHalves) {
    for (uint32_t address = 0xFC0; address < 0x1010; address++) {
        for (const size_t count : {1u, 2u, 31u, 32u}) {
            WordMemory rows, halves;
            rows.write(0x1000, 0xABCDABCD);
            halves.write(0x1000, 0xABCDABCD);
            std::vector<uint16_t> values(count);
            std::iota(values.begin(), values.end(), uint16_t{1});
            rows.write_halves(address, values);
            for (size_t i = 0; i < count; i++) {
                halves.write_half(address + 2 * static_cast<uint32_t>(i), values[i]);
            }
            ASSERT_EQ(rows.changed_words(), halves.changed_words()) << address << " " << count;
        }
    }
}

TEST(WordMemory, RowsWrapAt32Bits) {
    WordMemory memory;
    memory.write_halves(0xFFFFFFFC, std::vector<uint16_t>{1, 2, 3, 4});
    EXPECT_EQ(memory.changed_words(), (ChangedWords{{0, 0x00040003}, {0xFFFFFFFC, 0x00020001}}));
    std::vector<uint16_t> row(4);
    memory.read_halves(0xFFFFFFFC, row);
    EXPECT_EQ(row, (std::vector<uint16_t>{1, 2, 3, 4}));
}

TEST(WordMemory, BytesLieInAlignedWords) {
    WordMemory memory;
    const Bytes in = {1, 2, 3, 4, 5, 6, 7};
    memory.write_bytes(0x1001, in);
    EXPECT_EQ(memory.read(0x1000), 0x03020100u);
    EXPECT_EQ(memory.read(0x1004), 0x07060504u);
    EXPECT_FALSE(memory.exists(0x1002));
    Bytes out(9);
    memory.read_bytes(0x1000, out);
    EXPECT_EQ(out, (Bytes{0, 1, 2, 3, 4, 5, 6, 7, 0}));
}

TEST(WordMemory, ChangedWordsAreThoseSinceTheMark) {
    WordMemory memory;
    memory.write(0x1000, 7);
    memory.write(0x1004, 8);
    memory.mark();
    EXPECT_TRUE(memory.changed_words().empty());
    memory.write(0x1000, 7);  // written, not changed
    memory.write(0x1004, 9);
    memory.write(0x1008, 0);  // created
    memory.write(-8, 0);
    EXPECT_EQ(memory.changed_words(), (ChangedWords{{-8, 0}, {0x1004, 9}, {0x1008, 0}}));
    memory.mark();
    memory.write(0x1004, 8);
    EXPECT_EQ(memory.changed_words(), (ChangedWords{{0x1004, 8}}));
    EXPECT_EQ(memory.read(0x1008), 0u);
}

// The page caches must not outlive what they cache: many pages share a place in them.
// What an earlier run changed on a page, keys of other alignments included, is no change of the next one.
TEST(WordMemory, EachMarkForgetsTheRunBefore) {
    WordMemory memory;
    memory.write(0x100, 1);
    for (uint32_t run = 0; run < 3; run++) {
        memory.mark();
        memory.write(0x100, 1);                  // written, not changed
        memory.write(0x201 + 4 * run, 10);       // created on a page that was there
        memory.write(0x5000 + 0x1000 * run, 3);  // on a page of its own
        EXPECT_EQ(memory.changed_words(), (ChangedWords{{0x201 + 4 * run, 10}, {0x5000 + 0x1000 * run, 3}}));
    }
    memory.mark();
    memory.write(0x201, 11);
    memory.write(0x205, 10);
    EXPECT_EQ(memory.changed_words(), (ChangedWords{{0x201, 11}}));
}

TEST(WordMemory, ManyPages) {
    WordMemory memory;
    std::map<int64_t, uint32_t> model;
    std::mt19937 random(5);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2000; i++) {
            const int64_t key = static_cast<int64_t>(random() % 100) * 4096 * 16 + random() % 8 - 0x10000;
            const uint32_t value = static_cast<uint32_t>(random());
            EXPECT_EQ(memory.exists(key), model.contains(key));
            memory.write(key, value);
            model[key] = value;
            EXPECT_EQ(memory.read(key), value);
        }
        for (const auto &[key, value] : model) {
            ASSERT_EQ(memory.read(key), value);
        }
        memory.mark();
        EXPECT_TRUE(memory.changed_words().empty());
    }
}

// Tensors of a page or more begin in the middle of one; larger ones, of which a kernel reads and writes several, in the same
// bank group.
TEST(TensorPlaces, LargeTensorsBeginInTheSameBankGroup) {
    const Machine machine = find_machine("ax01");
    const auto page = static_cast<uint64_t>(machine.dram.row_bytes);
    const std::vector<uint64_t> bytes = {page - 2, page, 8 * page, 9 * page, 24 * page + 100, 9 * page};
    const std::vector<uint64_t> places = place_tensors(bytes, machine);
    for (size_t i = 0; i < bytes.size(); i++) {
        EXPECT_EQ(places[i] % 2048, 0u) << i;
        if (bytes[i] >= page) {
            EXPECT_EQ(places[i] % page, page / 2) << i;
        }
        if (bytes[i] > 8 * page) {
            EXPECT_EQ(places[i] / page % 2, 0u) << i;
        }
        if (i > 0) {
            EXPECT_GE(places[i], places[i - 1] + bytes[i - 1] + tensor_guard_bytes) << i;
        }
    }
}

}  // namespace
}  // namespace atalla
