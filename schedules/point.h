// A point of a schedule space: a value for every parameter, with one canonical text form that serves as a database key.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace atalla {

// A name is made of ASCII letters, digits, underscores and dots, so that every text form of a point is unambiguous.
bool is_parameter_name(std::string_view name);

// A parameter that no space has: it marks the point of the program that is generated without optimization.
constexpr std::string_view unoptimized_mark = "unoptimized";

// A parameter that points may have beside those of any space: which of the code generator's choices it makes, a bit each; 0, as
// without it: none.
constexpr std::string_view choices_parameter = "choices";

// The value of a parameter in a point. The characters of the name live as long as the process.
struct PointValue {
    std::string_view name;
    int64_t value = 0;
    bool operator==(const PointValue &) const = default;
    auto operator<=>(const PointValue &) const = default;
};

// Parameter name -> value, ordered by name. While a space is being enumerated a point may be partial. Drafting copies and asks
// points by the hundred thousand, so they are one array each, and names are kept once.
class Point {
public:
    using Values = std::vector<PointValue>;

    Point() = default;
    Point(std::initializer_list<PointValue> values);

    // The value of a parameter; Error naming the nearest parameter if it has none.
    int64_t operator[](std::string_view name) const;
    bool contains(std::string_view name) const { return find(name) != nullptr; }
    // Where its value stands, or nullptr.
    const int64_t *find(std::string_view name) const;
    void set(std::string_view name, int64_t value);
    void erase(std::string_view name);
    // The values of these parameters alone; Error if one is missing.
    Point only(const std::vector<std::string> &names) const;

    const Values &values() const { return values_; }
    bool empty() const { return values_.empty(); }

    // Canonical text: compact JSON with the names in order, {"tile_m":4,"tile_n":2}. Equal points have equal texts.
    std::string text() const;
    // The same for people and command lines: tile_m=4,tile_n=2.
    std::string assignments() const;
    // Reads either form. Error for anything else, and for a name that is not one or is given twice.
    static Point parse(std::string_view text);

    bool operator==(const Point &) const = default;
    auto operator<=>(const Point &) const = default;

private:
    Values values_;
};

// The value of choices_parameter; 0 without it.
int64_t choices_of(const Point &point);

// A JSON object of integers. Error if a value is not an integer that 64 bits hold.
void to_json(nlohmann::json &json, const Point &point);
void from_json(const nlohmann::json &json, Point &point);

}  // namespace atalla
