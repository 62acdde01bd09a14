// Numbers that JSON does not have, as words: the text of a workload tells infinities from each other and from what is left out.
#pragma once

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

namespace atalla {

inline nlohmann::json word_of_number(const nlohmann::json &value) {
    if (!value.is_number_float() || std::isfinite(value.get<double>())) return value;
    const auto number = value.get<double>();
    return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

// What is no such word stays as it is.
inline nlohmann::json number_of_word(const nlohmann::json &value) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (value == "inf") return infinity;
    if (value == "-inf") return -infinity;
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    return value;
}

}  // namespace atalla
