// Which pointer each access to the pads needs.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// What varies, in bytes, which of two copies (for the register banks), and for what.
struct PointerKey {
    int allocation = -1;
    std::map<int, int64_t> terms;  // atom -> bytes
    Reg slot;
    int copy = 0;
    bool stores = false;  // reads and writes that move with a loop: where iterations overlap, they are at different rows
    bool wraps = false;   // may be below zero: wrapped inside the pad
    int64_t window = 0;   // which of several ranges of constant rows, where one pointer for all would take many offsets
    auto operator<=>(const PointerKey &) const = default;
};

class PointerKeys {
public:
    // With `spread`, neighbouring accesses read different copies of base and offset, so that two of them fit a packet without a
    // bank conflict.
    PointerKeys(Kernel &kernel, bool spread);

    // Of an operation that has not moved since.
    PointerKey of(const Op &op) const;
    int64_t constant_row(const Op &op) const;
    // The pointers that accesses of a body need, and the lowest constant row that is used with each.
    void collect(const Body &body, std::map<PointerKey, int64_t> &keys) const;

    // What is left of a key outside of a loop.
    PointerKey without(PointerKey key, int loop) const;
    // Is an atom of a loop? Or of one inside it?
    bool depends_on(int atom, int loop) const { return kernel_.atoms[atom].loop == loop; }
    bool inside(int atom, int loop) const;

private:
    void choose_copies(Body &body, int loop);
    void choose_windows();
    void collect_rows(const Body &body, std::map<PointerKey, std::set<int64_t>> &rows) const;
    int64_t window_of(PointerKey key, int64_t row) const;
    bool may_be_below_zero(const PointerKey &key) const;

    Kernel &kernel_;
    size_t next_copy_ = 0;
    std::map<const Op *, int> copy_of_;
    std::set<const Op *> moving_stores_;
    std::map<PointerKey, std::vector<int64_t>> windows_;  // of pointers without regard to copies: the first row of each
};

}  // namespace atalla::codegen
