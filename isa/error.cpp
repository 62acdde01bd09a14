#include "isa/error.h"

#include <algorithm>
#include <numeric>

namespace atalla {

namespace {

// Insertions, deletions and substitutions that turn `from` into `to`.
size_t edit_distance(std::string_view from, std::string_view to) {
    std::vector<size_t> row(to.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t from_length = 1; from_length <= from.size(); from_length++) {
        size_t diagonal = row[0];
        row[0] = from_length;
        for (size_t to_length = 1; to_length <= to.size(); to_length++) {
            const size_t substituted = diagonal + (from[from_length - 1] != to[to_length - 1]);
            diagonal = row[to_length];
            row[to_length] = std::min({substituted, row[to_length] + 1, row[to_length - 1] + 1});
        }
    }
    return row[to.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string> &candidates) {
    // A suggestion helps while most of the word is right: one edit in a short word, a third of a long one.
    size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
    std::string best;
    for (const std::string &candidate : candidates) {
        const size_t distance = edit_distance(word, candidate);
        if (distance < best_distance) {
            best_distance = distance;
            best = candidate;
        }
    }
    return best;
}

}  // namespace atalla
