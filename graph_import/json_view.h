// JSON from outside, read with errors that say where: "graph.nodes[3].target: a string is expected".
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace atalla {

// Error if the text is not JSON, or is nested more than 256 deep. The words Infinity, -Infinity and NaN, which Python
// writes, are read as strings.
nlohmann::json parse_foreign_json(std::string_view text, std::string_view what);

// A value and where it is. Views of parts point to the view they were taken from, which must live longer.
class JsonView {
public:
    // `what` names the document.
    JsonView(const nlohmann::json &value, std::string_view what) : value_(&value), key_(what) {}

    const nlohmann::json &json() const { return *value_; }
    [[noreturn]] void fail(std::string_view wanted) const;

    // Error unless it is an object with this field.
    JsonView operator[](std::string_view key) const;
    bool has(std::string_view key) const;  // a field that is there and not null
    JsonView element(size_t index) const;  // Error unless an array that long
    size_t size() const;                   // Error unless an array
    void each(const std::function<void(const JsonView &)> &visit) const;
    void each_field(const std::function<void(const std::string &, const JsonView &)> &visit) const;
    // The only field of an object that stands for a union.
    std::pair<std::string, JsonView> only_field() const;

    const std::string &string() const;
    int64_t integer() const;
    double number() const;  // also "Infinity", "-Infinity", "NaN"
    bool boolean() const;
    bool is_null() const { return value_->is_null(); }

private:
    JsonView(const nlohmann::json &value, const JsonView *parent, std::string_view key, size_t index)
        : value_(&value), parent_(parent), key_(key), index_(index) {}
    std::string path() const;

    const nlohmann::json *value_;
    const JsonView *parent_ = nullptr;
    std::string_view key_;
    size_t index_ = 0;
};

}  // namespace atalla
