// The one exception type that reaches a user: a sentence that says what was wrong, where, and what to do.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace atalla {

class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// The candidate closest to `word` by edit distance, for "did you mean"; empty if nothing is near.
std::string nearest_name(std::string_view word, const std::vector<std::string> &candidates);

}  // namespace atalla
