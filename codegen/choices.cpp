#include "codegen/choices.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "isa/error.h"

namespace atalla::codegen {

namespace {

constexpr std::array<const char *, choice_count> words_of = {
    "transfers start where they stand",
    "transfers of straight code start together",
    "first transfers from their loop",
    "fills before loads",
    "tiles in the order of memory",
    "full tiles",
    "transfers of outer loops start at once",
    "registers share their role's banks",
    "rows are loaded once",
    "code out of line near the end of its loop",
    "packets apart",
    "rows at uneven distances",
    "no idle stages",
    "idle stages wherever they can be",
    "no loops that turn",
    "ends of nests apart",
    "iterations overlap in pairs",
    "long iterations do not overlap",
    "straight code in few packets",
    "transfers as if all were short",
    "waits where loops begin",
    "code out of line with two iterations",
};

}  // namespace

Choices Choices::from_bits(int64_t bits) {
    if (bits < 0 || bits >> choice_count != 0)
        throw Error(
            fmt::format("{} is no set of the code generator's choices: it has {} of them, a bit each", bits, choice_count));
    Choices made;
    made.bits_ = bits;
    return made;
}

std::vector<Choice> Choices::list() const {
    std::vector<Choice> all;
    for (size_t choice = 0; choice < choice_count; choice++)
        if (contains(static_cast<Choice>(choice))) all.push_back(static_cast<Choice>(choice));
    return all;
}

std::string Choices::words() const {
    std::vector<const char *> all;
    for (const Choice choice : list()) all.push_back(words_of[static_cast<size_t>(choice)]);
    return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace atalla::codegen
