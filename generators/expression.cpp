#include "generators/expression.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

namespace {

class Reader {
public:
    explicit Reader(std::string_view text) : text_(text) {}

    ExpressionNode all() {
        ExpressionNode node = expression();
        skip();
        if (at_ < text_.size()) fail("nothing may follow");
        return node;
    }

private:
    static constexpr int deepest = 200;

    ExpressionNode expression() {
        if (++depth_ > deepest) fail(fmt::format("expressions are at most {} calls deep", deepest));
        skip();
        ExpressionNode node = starts_number() ? ExpressionNode::of_number(number()) : named();
        depth_--;
        return node;
    }

    ExpressionNode named() {
        const std::string name = word();
        if (name == "inf" || name == "nan") return ExpressionNode::of_number(name == "inf" ? INFINITY : NAN);
        if (!take('(')) return ExpressionNode::input(name);
        ExpressionNode node = ExpressionNode::call(name, {});
        if (take(')')) return node;
        do {
            skip();
            const size_t before = at_;
            if (!starts_number()) {
                const std::string keyword = word();
                if (take('=')) {
                    skip();
                    if (!node.keywords.emplace(keyword, starts_number() ? literal() : next_is('[') ? list() : word()).second)
                        fail(fmt::format("'{}' is given twice", keyword));
                    continue;
                }
                at_ = before;
            }
            if (!node.keywords.empty()) fail("an operand stands behind a keyword argument");
            node.arguments.push_back(expression());
        } while (take(','));
        if (!take(')')) fail("',' or ')' is missing");
        return node;
    }

    bool starts_number() const {
        const auto digit = [&](size_t i) {
            return i < text_.size() && std::isdigit(static_cast<unsigned char>(text_[i])) != 0;
        };
        const size_t first = at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+') ? at_ + 1 : at_;
        if (first > at_ && text_.substr(first, 3) == "inf") return true;
        return digit(first) || (first < text_.size() && text_[first] == '.' && digit(first + 1));
    }
    std::string literal() {
        const std::string rest(text_.substr(at_));
        char *end = nullptr;
        std::strtod(rest.c_str(), &end);
        const auto length = static_cast<size_t>(end - rest.c_str());
        at_ += length;
        return rest.substr(0, length);
    }
    // Of numbers, without blanks.
    std::string list() {
        std::string text;
        take('[');
        do {
            skip();
            if (!starts_number()) fail("a number is missing");
            text += (text.empty() ? "[" : ",") + literal();
        } while (take(','));
        if (!take(']')) fail("',' or ']' is missing");
        return text + "]";
    }
    double number() { return std::strtod(literal().c_str(), nullptr); }

    std::string word() {
        skip();
        const size_t first = at_;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) at_++;
        if (first == at_) fail("a name or a number is missing");
        return std::string(text_.substr(first, at_ - first));
    }
    bool next_is(char c) {
        skip();
        return at_ < text_.size() && text_[at_] == c;
    }
    bool take(char c) {
        if (!next_is(c)) return false;
        at_++;
        return true;
    }
    void skip() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) at_++;
    }
    [[noreturn]] void fail(const std::string &why) const {
        throw Error(fmt::format("the expression '{}' is wrong after '{}': {}; an example: gelu(add(x, y))", text_,
                                text_.substr(0, at_), why));
    }

    std::string_view text_;
    size_t at_ = 0;
    int depth_ = 0;
};

void collect(const ExpressionNode &node, std::vector<std::string> &names) {
    if (node.kind == ExpressionNode::Input && std::find(names.begin(), names.end(), node.name) == names.end())
        names.push_back(node.name);
    for (const ExpressionNode &argument : node.arguments) collect(argument, names);
}

}  // namespace

ExpressionNode ExpressionNode::input(std::string name) {
    ExpressionNode node;
    node.kind = Input;
    node.name = std::move(name);
    return node;
}

ExpressionNode ExpressionNode::of_number(double value) {
    ExpressionNode node;
    node.number = value;
    return node;
}

ExpressionNode ExpressionNode::call(std::string name, std::vector<ExpressionNode> arguments,
                                    std::map<std::string, std::string> keywords) {
    ExpressionNode node;
    node.kind = Call;
    node.name = std::move(name);
    node.arguments = std::move(arguments);
    node.keywords = std::move(keywords);
    return node;
}

std::string ExpressionNode::text() const {
    if (kind == Input) return name;
    if (kind == Number) return fmt::format("{}", number);
    std::string inside;
    for (const ExpressionNode &argument : arguments) inside += fmt::format("{}{}", inside.empty() ? "" : ", ", argument.text());
    for (const auto &[keyword, value] : keywords) inside += fmt::format("{}{}={}", inside.empty() ? "" : ", ", keyword, value);
    return fmt::format("{}({})", name, inside);
}

ExpressionNode ExpressionNode::with(const std::map<std::string, ExpressionNode> &values) const {
    if (kind == Input) {
        const auto found = values.find(name);
        return found == values.end() ? *this : found->second;
    }
    ExpressionNode node = *this;
    for (ExpressionNode &argument : node.arguments) argument = argument.with(values);
    return node;
}

int ExpressionNode::calls() const {
    int count = kind == Call;
    for (const ExpressionNode &argument : arguments) count += argument.calls();
    return count;
}

std::vector<std::string> ExpressionNode::inputs() const {
    std::vector<std::string> names;
    collect(*this, names);
    return names;
}

ExpressionNode parse_expression(std::string_view text) { return Reader(text).all(); }

}  // namespace atalla
