#include "graph_import/json_view.h"

#include <fmt/format.h>

#include <cmath>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr int deepest = 256;

// Checks the depth, since freeing and walking a document takes stack; returns whether Python's words for non-finite
// numbers stand anywhere outside strings.
bool scan(std::string_view text, std::string_view what) {
    int depth = 0;
    bool quoted = false, words = false;
    for (size_t i = 0; i < text.size(); i++) {
        const char c = text[i];
        if (quoted) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                quoted = false;
            }
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > deepest) throw Error(fmt::format("{}: JSON is nested more than {} deep", what, deepest));
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == 'I' || c == 'N') {
            words = true;
        }
    }
    return words;
}

std::string with_words_quoted(std::string_view text) {
    std::string result;
    bool quoted = false;
    for (size_t i = 0; i < text.size(); i++) {
        if (!quoted) {
            for (std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
                if (text.substr(i, word.size()) == word) {
                    result += fmt::format("\"{}\"", word);
                    i += word.size();
                    break;
                }
            }
            if (i >= text.size()) break;
        }
        result += text[i];
        if (quoted && text[i] == '\\' && i + 1 < text.size()) {
            result += text[++i];
        } else if (text[i] == '"') {
            quoted = !quoted;
        }
    }
    return result;
}

}  // namespace

nlohmann::json parse_foreign_json(std::string_view text, std::string_view what) {
    try {
        return scan(text, what) ? nlohmann::json::parse(with_words_quoted(text)) : nlohmann::json::parse(text);
    } catch (const nlohmann::json::exception &error) {
        throw Error(fmt::format("{}: not JSON: {}", what, error.what()));
    }
}

std::string JsonView::path() const {
    if (!parent_) return std::string(key_);
    const std::string parent = parent_->path();
    if (key_.empty()) return fmt::format("{}[{}]", parent, index_);
    return parent_->parent_ ? fmt::format("{}.{}", parent, key_) : fmt::format("{}: {}", parent, key_);
}

void JsonView::fail(std::string_view wanted) const { throw Error(fmt::format("{}: {}", path(), wanted)); }

JsonView JsonView::operator[](std::string_view key) const {
    if (!value_->is_object()) fail("an object is expected");
    const auto found = value_->find(key);
    if (found == value_->end()) fail(fmt::format("field {} is missing", key));
    return JsonView(*found, this, key, 0);
}

bool JsonView::has(std::string_view key) const {
    if (!value_->is_object()) return false;
    const auto found = value_->find(key);
    return found != value_->end() && !found->is_null();
}

size_t JsonView::size() const {
    if (!value_->is_array()) fail("a list is expected");
    return value_->size();
}

JsonView JsonView::element(size_t index) const {
    if (index >= size()) fail(fmt::format("{} elements are expected", index + 1));
    return JsonView((*value_)[index], this, {}, index);
}

void JsonView::each(const std::function<void(const JsonView &)> &visit) const {
    for (size_t i = 0, count = size(); i < count; i++) visit(element(i));
}

void JsonView::each_field(const std::function<void(const std::string &, const JsonView &)> &visit) const {
    if (!value_->is_object()) fail("an object is expected");
    for (const auto &[key, value] : value_->items()) visit(key, JsonView(value, this, key, 0));
}

std::pair<std::string, JsonView> JsonView::only_field() const {
    if (!value_->is_object() || value_->size() != 1) fail("an object with one field is expected");
    const auto field = value_->begin();
    return {field.key(), JsonView(field.value(), this, field.key(), 0)};
}

const std::string &JsonView::string() const {
    if (!value_->is_string()) fail("a string is expected");
    return value_->get_ref<const std::string &>();
}

int64_t JsonView::integer() const {
    if (!value_->is_number_integer()) fail("an integer is expected");
    if (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        fail("the integer is too large");
    return value_->get<int64_t>();
}

double JsonView::number() const {
    if (value_->is_number()) return value_->get<double>();
    if (value_->is_string()) {
        const std::string &word = string();
        if (word == "Infinity") return INFINITY;
        if (word == "-Infinity") return -INFINITY;
        if (word == "NaN") return NAN;
    }
    fail("a number is expected");
}

bool JsonView::boolean() const {
    if (!value_->is_boolean()) fail("true or false is expected");
    return value_->get<bool>();
}

}  // namespace atalla
