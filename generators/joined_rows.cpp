#include "generators/joined_rows.h"

#include <numeric>

#include "isa/vectors.h"

namespace atalla {

using namespace Halide;

namespace {

// More operations in straight-line code would take longer to fetch, and to schedule, than they save.
constexpr int64_t most_straight = 220;

// Rows of whole vectors that are longer come and go in parts.
constexpr int64_t longest_whole = 1024;

int constant(int64_t value) { return static_cast<int>(value); }

}  // namespace

int64_t JoinedRows::vectors() const { return elements * rows / lanes; }

bool JoinedRows::suits() const {
    return elements >= lanes && (elements % lanes != 0 || elements > longest_whole) && elements * rows % lanes == 0;
}

Chunks::Chunks(const JoinedRows &run, int64_t vectors) : run_(run), vectors_(vectors) {
    const int64_t length = vectors * lanes, both = std::lcm(length, run.elements);
    period_ = both / length;
    rows_ = both / run.elements;
    if (vectors == 0 || run.vectors() % vectors != 0 || run.rows % rows_ != 0) return;
    const auto first_row = [&](int64_t vector) { return vector * lanes / run_.elements; };
    const auto is_whole = [&](int64_t vector) { return first_row(vector) == (vector * lanes + lanes - 1) / run_.elements; };
    for (int64_t i = 0; i < vectors; i++) {
        bool same = i > 0;
        for (int64_t chunk = 0; same && chunk < period_; chunk++) {
            const int64_t at = chunk * vectors + i;
            same = is_whole(at - 1) && is_whole(at) && first_row(at - 1) == first_row(at);
        }
        if (!same) starts_.push_back(i);
    }
    // A load for each row, a store for each vector of numbers, and a choice for one of two rows.
    constexpr int64_t choice = 2;
    suits_ = run.numbers * (rows_ + of_period() + choice * (rows_ - 1)) <= most_straight;
}

// Sums of conditions rather than a table: code in which the vector is known has a constant for each.
Expr Chunks::row_of(const Expr &element) const {
    const Expr vector = element / lanes % constant(vectors_);
    Expr row = 0;
    if (of_chunk() == vectors_)
        row = vector;
    else
        for (size_t i = 1; i < starts_.size(); i++) row += select(vector < constant(starts_[i]), 0, 1);
    return element / constant(vectors_ * lanes) * constant(of_chunk()) + row;
}

Expr Chunks::value(const Func &number, const Expr &lane, const Expr &at, const Expr &first) const {
    const Expr of_chunk_at = at % constant(of_chunk());
    Expr vector = 0;
    if (of_chunk() == vectors_)
        vector = of_chunk_at;
    else
        for (size_t i = 1; i < starts_.size(); i++)
            vector += select(of_chunk_at < constant(static_cast<int64_t>(i)), 0, constant(starts_[i] - starts_[i - 1]));
    const Expr element = (at / constant(of_chunk()) * constant(vectors_) + vector) * lanes;
    const Expr row = element / constant(run_.elements), last = (element + (lanes - 1)) / constant(run_.elements);
    const Expr own = (row + 1) * constant(run_.elements) - element;
    return select(row == last || lane < own, number(lane, first + row), number(lane, first + last));
}

}  // namespace atalla
