#include "simulator/tensor_places.h"

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr uint64_t first_address = 0x1000, alignment = 0x800, few_pages = 8;

uint64_t rounded_up(uint64_t at, uint64_t to) { return (at + to - 1) / to * to; }

}  // namespace

// Neighbouring pages of the DRAM are in different bank groups, which take turns at twice the rate of one. Transfers of a page
// of a tensor are under way together: where it begins in the middle of one of the DRAM, both groups have work. Of larger
// tensors those that a kernel reads and writes together begin in the same group, so that what it moves of all of them at a time
// is spread over both.
uint64_t tensor_start(uint64_t at, uint64_t bytes, const Machine &machine) {
    const auto page = static_cast<uint64_t>(machine.timed() ? machine.dram.row_bytes : 0);
    if (page < 2 * alignment || bytes < page) return rounded_up(at, alignment);
    const uint64_t step = bytes > few_pages * page ? 2 * page : page, before = step - page / 2;
    return rounded_up(at + before, step) - before;
}

std::vector<uint64_t> place_tensors(const std::vector<uint64_t> &bytes, const Machine &machine) {
    std::vector<uint64_t> addresses;
    uint64_t at = first_address;
    for (const uint64_t size : bytes) {
        addresses.push_back(tensor_start(at, size, machine));
        at = addresses.back() + size + 2 * tensor_guard_bytes;
    }
    if (at > static_cast<uint64_t>(machine.memory.bytes))
        throw Error(fmt::format("the tensors need {} bytes, but machine '{}' has {} bytes of memory", at, machine.name,
                                machine.memory.bytes));
    return addresses;
}

}  // namespace atalla
