// The constructor form of expressions: Name(argument, ..., keyword=argument), quoted strings, integers.
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <unordered_map>

#include "graph_import/symbolic.h"
#include "isa/error.h"

namespace atalla {

namespace {

using Op = SymInt::Op;

constexpr int deepest = 200;
constexpr int64_t largest_exponent = 16;

const std::unordered_map<std::string_view, Op> functions = {{"Add", Op::Add},
                                                            {"Mul", Op::Mul},
                                                            {"FloorDiv", Op::FloorDiv},
                                                            {"CleanDiv", Op::FloorDiv},
                                                            {"Mod", Op::Mod},
                                                            {"PythonMod", Op::Mod},
                                                            {"Min", Op::Min},
                                                            {"Max", Op::Max},
                                                            {"Equality", Op::Equal},
                                                            {"Unequality", Op::Unequal},
                                                            {"StrictLessThan", Op::Less},
                                                            {"LessThan", Op::LessEqual},
                                                            {"And", Op::And},
                                                            {"Or", Op::Or},
                                                            {"Not", Op::Not}};

class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    SymInt whole() {
        SymInt result = expression(0);
        skip_space();
        if (at_ != text_.size()) fail("nothing more");
        return result;
    }

private:
    [[noreturn]] void fail(std::string_view wanted) const {
        constexpr size_t shown = 80;
        throw Error(fmt::format("size expression '{}{}': expected {} at character {}", text_.substr(0, shown),
                                text_.size() > shown ? "..." : "", wanted, at_ + 1));
    }

    void skip_space() {
        while (at_ < text_.size() && text_[at_] == ' ') at_++;
    }

    bool take(char c) {
        skip_space();
        if (at_ == text_.size() || text_[at_] != c) return false;
        at_++;
        return true;
    }

    void want(char c) {
        if (!take(c)) fail(fmt::format("'{}'", c));
    }

    std::string_view word() {
        skip_space();
        const size_t start = at_;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) at_++;
        if (at_ == start) fail("a name");
        return text_.substr(start, at_ - start);
    }

    int64_t integer() {
        skip_space();
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
        if (error != std::errc{}) fail("an integer");
        at_ = end - text_.data();
        return value;
    }

    std::string quoted() {
        skip_space();
        if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail("a quoted name");
        const char quote = text_[at_];
        const size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) fail("a closing quote");
        std::string name(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return name;
    }

    SymInt expression(int depth) {
        if (depth > deepest) throw Error(fmt::format("a size expression is nested more than {} deep", deepest));
        skip_space();
        const size_t start = at_;
        if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')) return integer();
        const std::string_view name = word();
        if (name == "Symbol") {
            want('(');
            std::string symbol = quoted();
            while (take(',')) {
                word();
                want('=');
                word();
            }
            want(')');
            if (symbol.empty()) fail("the name of a symbol");
            return SymInt::symbol(std::move(symbol));
        }
        if (name == "Integer") {
            want('(');
            const int64_t value = integer();
            want(')');
            return value;
        }
        if (name == "BooleanTrue" || name == "true" || name == "True") return truth(1);
        if (name == "BooleanFalse" || name == "false" || name == "False") return truth(0);
        if (name == "One" || name == "Zero" || name == "NegativeOne") {
            return truth(name == "One" ? 1 : name == "Zero" ? 0 : -1);
        }

        want('(');
        std::vector<SymInt> arguments;
        bool others = false;
        if (!take(')')) {
            do {
                skip_space();
                const char c = at_ < text_.size() ? text_[at_] : ' ';
                if (c == '\'' || c == '"') {  // Float('0.5', precision=53)
                    quoted();
                    others = true;
                } else if (is_keyword()) {
                    word();
                    want('=');
                    expression(depth + 1);
                } else {
                    arguments.push_back(expression(depth + 1));
                }
            } while (take(','));
            want(')');
        }
        const SymInt unknown = SymInt::unknown(std::string(text_.substr(start, at_ - start)));
        if (others) return unknown;
        return call(name, std::move(arguments), unknown);
    }

    SymInt truth(int64_t value) {
        if (take('(')) want(')');
        return value;
    }

    bool is_keyword() const {
        size_t end = at_;
        while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) end++;
        return end > at_ && end < text_.size() && text_[end] == '=';
    }

    SymInt call(std::string_view name, std::vector<SymInt> arguments, const SymInt &unknown) const {
        if (name == "GreaterThan" || name == "StrictGreaterThan") {
            if (arguments.size() != 2) fail("two arguments");
            std::swap(arguments[0], arguments[1]);
            return SymInt::make(name == "GreaterThan" ? Op::LessEqual : Op::Less, std::move(arguments));
        }
        if (name == "Pow" || name == "PowByNatural") {
            if (arguments.size() != 2) fail("two arguments");
            const auto exponent = arguments[1].constant();
            if (!exponent || *exponent < 0 || *exponent > largest_exponent) return unknown;
            SymInt power = 1;
            for (int64_t i = 0; i < *exponent; i++) power = power * arguments[0];
            return power;
        }
        const auto found = functions.find(name);
        if (found == functions.end()) return unknown;
        return SymInt::make(found->second, std::move(arguments));
    }

    std::string_view text_;
    size_t at_ = 0;
};

}  // namespace

SymInt parse_symbolic(std::string_view text) { return Parser(text).whole(); }

}  // namespace atalla
