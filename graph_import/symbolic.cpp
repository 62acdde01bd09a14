#include "graph_import/symbolic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "isa/error.h"

namespace atalla {

struct SymInt::Expression {
    Op op;
    std::string name;  // of a symbol; the text of an unknown
    std::vector<SymInt> arguments;
    std::string text;
};

namespace {

using Op = SymInt::Op;

// Products of sums are multiplied out up to this many terms; a larger one stays a product.
constexpr size_t most_terms = 256;

[[noreturn]] void overflow(std::string_view what) { throw Error(fmt::format("{} overflows 64 bits", what)); }

int64_t checked_add(int64_t a, int64_t b) {
    int64_t result;
    if (__builtin_add_overflow(a, b, &result)) overflow(fmt::format("{} + {}", a, b));
    return result;
}

int64_t checked_multiply(int64_t a, int64_t b) {
    int64_t result;
    if (__builtin_mul_overflow(a, b, &result)) overflow(fmt::format("{} * {}", a, b));
    return result;
}

int64_t floor_divide(int64_t a, int64_t b) {
    if (b == 0) throw Error(fmt::format("{} // 0 in a size", a));
    if (b == -1) return checked_multiply(a, -1);
    const int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t modulo(int64_t a, int64_t b) {
    if (b == 0) throw Error(fmt::format("{} % 0 in a size", a));
    if (b == -1) return 0;
    const int64_t remainder = a % b;
    return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

int64_t compute(Op op, const std::vector<int64_t> &a) {
    switch (op) {
        case Op::Add: {
            int64_t sum = 0;
            for (int64_t x : a) sum = checked_add(sum, x);
            return sum;
        }
        case Op::Mul: {
            int64_t product = 1;
            for (int64_t x : a) product = checked_multiply(product, x);
            return product;
        }
        case Op::FloorDiv:
            return floor_divide(a[0], a[1]);
        case Op::Mod:
            return modulo(a[0], a[1]);
        case Op::Min:
            return *std::min_element(a.begin(), a.end());
        case Op::Max:
            return *std::max_element(a.begin(), a.end());
        case Op::Equal:
            return a[0] == a[1];
        case Op::Unequal:
            return a[0] != a[1];
        case Op::Less:
            return a[0] < a[1];
        case Op::LessEqual:
            return a[0] <= a[1];
        case Op::And:
            return std::all_of(a.begin(), a.end(), [](int64_t x) { return x != 0; });
        case Op::Or:
            return std::any_of(a.begin(), a.end(), [](int64_t x) { return x != 0; });
        case Op::Not:
            return a[0] == 0;
        default:
            throw Error("not a function of integers");
    }
}

bool arity_fits(Op op, size_t count) {
    switch (op) {
        case Op::FloorDiv:
        case Op::Mod:
        case Op::Equal:
        case Op::Unequal:
        case Op::Less:
        case Op::LessEqual:
            return count == 2;
        case Op::Not:
            return count == 1;
        case Op::Constant:
        case Op::Symbol:
        case Op::Unknown:
            return false;
        default:
            return count >= 1;
    }
}

// A sum as terms: the product's factors (sorted by text) with a coefficient. The empty product is the constant.
struct Term {
    std::vector<SymInt> factors;
    int64_t coefficient = 0;
};
using Terms = std::map<std::string, Term>;

std::string key_of(const std::vector<SymInt> &factors) {
    std::string key;
    for (const SymInt &factor : factors) key += factor.text() + "*";
    return key;
}

void add_term(Terms &terms, std::vector<SymInt> factors, int64_t coefficient) {
    std::sort(factors.begin(), factors.end(), [](const SymInt &a, const SymInt &b) { return a.text() < b.text(); });
    const std::string key = key_of(factors);
    Term &term = terms.try_emplace(key, Term{std::move(factors), 0}).first->second;
    term.coefficient = checked_add(term.coefficient, coefficient);
    if (term.coefficient == 0) terms.erase(key);
}

Terms terms_of(const SymInt &e) {
    Terms terms;
    if (auto constant = e.constant()) {
        if (*constant != 0) add_term(terms, {}, *constant);
    } else if (e.op() == Op::Add) {
        for (const SymInt &argument : e.arguments()) {
            for (const auto &[key, term] : terms_of(argument)) add_term(terms, term.factors, term.coefficient);
        }
    } else if (e.op() == Op::Mul) {
        int64_t coefficient = 1;
        std::vector<SymInt> factors;
        for (const SymInt &argument : e.arguments()) {
            if (auto c = argument.constant()) {
                coefficient = checked_multiply(coefficient, *c);
            } else {
                factors.push_back(argument);
            }
        }
        add_term(terms, std::move(factors), coefficient);
    } else {
        add_term(terms, {e}, 1);
    }
    return terms;
}

Terms multiply(const Terms &a, const Terms &b) {
    Terms product;
    for (const auto &[akey, x] : a) {
        for (const auto &[bkey, y] : b) {
            std::vector<SymInt> factors = x.factors;
            factors.insert(factors.end(), y.factors.begin(), y.factors.end());
            add_term(product, std::move(factors), checked_multiply(x.coefficient, y.coefficient));
        }
    }
    return product;
}

std::string operand_text(const SymInt &e) {
    const bool bare = e.is_constant() ? e.value() >= 0 : e.op() == Op::Symbol || e.op() == Op::Min || e.op() == Op::Max;
    return bare ? e.text() : fmt::format("({})", e.text());
}

std::string joined(const std::vector<SymInt> &arguments, std::string_view separator) {
    std::vector<std::string> texts;
    for (const SymInt &argument : arguments) texts.push_back(operand_text(argument));
    return fmt::format("{}", fmt::join(texts, separator));
}

std::string plain_list(const std::vector<SymInt> &arguments) {
    std::vector<std::string> texts;
    for (const SymInt &argument : arguments) texts.push_back(argument.text());
    return fmt::format("{}", fmt::join(texts, ", "));
}

std::string text_of(Op op, const std::vector<SymInt> &a) {
    std::string text;
    switch (op) {
        case Op::Add:
            for (const SymInt &term : a) {
                const std::string part = term.text();
                if (text.empty()) {
                    text = part;
                } else {
                    text += part[0] == '-' ? fmt::format(" - {}", part.substr(1)) : fmt::format(" + {}", part);
                }
            }
            return text;
        case Op::Mul:
            return joined(a, "*");
        case Op::FloorDiv:
            return joined(a, "//");
        case Op::Mod:
            return joined(a, " % ");
        case Op::Min:
            return fmt::format("min({})", plain_list(a));
        case Op::Max:
            return fmt::format("max({})", plain_list(a));
        case Op::Equal:
            return joined(a, " == ");
        case Op::Unequal:
            return joined(a, " != ");
        case Op::Less:
            return joined(a, " < ");
        case Op::LessEqual:
            return joined(a, " <= ");
        case Op::And:
            return joined(a, " and ");
        case Op::Or:
            return joined(a, " or ");
        case Op::Not:
            return "not " + operand_text(a[0]);
        default:
            return text;
    }
}

}  // namespace

SymInt::SymInt(int64_t value) : constant_(value) {}

SymInt SymInt::symbol(std::string name) { return SymInt(std::make_shared<Expression>(Expression{Op::Symbol, name, {}, name})); }

SymInt SymInt::unknown(std::string text) {
    return SymInt(std::make_shared<Expression>(Expression{Op::Unknown, text, {}, text}));
}

SymInt SymInt::make(Op op, std::vector<SymInt> arguments) {
    if (!arity_fits(op, arguments.size())) {
        throw Error(fmt::format("a function in a size is given {} arguments", arguments.size()));
    }
    if (std::all_of(arguments.begin(), arguments.end(), [](const SymInt &a) { return a.is_constant(); })) {
        std::vector<int64_t> values;
        for (const SymInt &argument : arguments) values.push_back(argument.constant_);
        return SymInt(compute(op, values));
    }
    const auto build = [](Op op, std::vector<SymInt> arguments) {
        std::string text = text_of(op, arguments);
        return SymInt(std::make_shared<Expression>(Expression{op, {}, std::move(arguments), std::move(text)}));
    };
    if (op == Op::Add || op == Op::Mul) {
        Terms terms = terms_of(op == Op::Add ? SymInt(0) : SymInt(1));
        for (const SymInt &argument : arguments) {
            const Terms more = terms_of(argument);
            if (op == Op::Add) {
                for (const auto &[key, term] : more) add_term(terms, term.factors, term.coefficient);
            } else if (terms.size() * more.size() <= most_terms) {
                terms = multiply(terms, more);
            } else {
                return build(op, std::move(arguments));
            }
        }
        std::vector<SymInt> sum;
        int64_t constant = 0;
        for (auto &[key, term] : terms) {
            if (term.factors.empty()) {
                constant = term.coefficient;
            } else if (term.coefficient == 1 && term.factors.size() == 1) {
                sum.push_back(term.factors[0]);
            } else {
                std::vector<SymInt> factors;
                if (term.coefficient != 1) factors.emplace_back(term.coefficient);
                factors.insert(factors.end(), term.factors.begin(), term.factors.end());
                sum.push_back(build(Op::Mul, std::move(factors)));
            }
        }
        if (sum.empty()) return SymInt(constant);
        if (constant != 0) sum.emplace_back(constant);
        return sum.size() == 1 ? sum[0] : build(Op::Add, std::move(sum));
    }
    if (op == Op::FloorDiv || op == Op::Mod) {
        if (arguments[1] == SymInt(1)) return op == Op::FloorDiv ? arguments[0] : SymInt(0);
        if (arguments[0] == arguments[1]) return op == Op::FloorDiv ? SymInt(1) : SymInt(0);
        // A sum all of whose coefficients the divisor divides.
        if (const auto divisor = arguments[1].constant(); divisor && *divisor > 1) {
            const Terms terms = terms_of(arguments[0]);
            if (std::all_of(terms.begin(), terms.end(), [&](auto &t) { return t.second.coefficient % *divisor == 0; })) {
                if (op == Op::Mod) return SymInt(0);
                std::vector<SymInt> sum;
                for (const auto &[key, term] : terms) {
                    std::vector<SymInt> factors = term.factors;
                    factors.emplace_back(term.coefficient / *divisor);
                    sum.push_back(make(Op::Mul, std::move(factors)));
                }
                return make(Op::Add, std::move(sum));
            }
        }
    }
    if (op == Op::Min || op == Op::Max || op == Op::And || op == Op::Or) {
        std::sort(arguments.begin(), arguments.end(), [](const SymInt &a, const SymInt &b) { return a.text() < b.text(); });
        arguments.erase(std::unique(arguments.begin(), arguments.end()), arguments.end());
        if (arguments.size() == 1) return arguments[0];
    }
    return build(op, std::move(arguments));
}

SymInt::Op SymInt::op() const { return expression_ ? expression_->op : Op::Constant; }

std::optional<int64_t> SymInt::constant() const {
    if (expression_) return std::nullopt;
    return constant_;
}

int64_t SymInt::value() const {
    if (expression_) throw Error(fmt::format("size {} is not a constant here", text()));
    return constant_;
}

const std::string &SymInt::name() const {
    static const std::string none;
    return expression_ ? expression_->name : none;
}

const std::vector<SymInt> &SymInt::arguments() const {
    static const std::vector<SymInt> none;
    return expression_ ? expression_->arguments : none;
}

std::string SymInt::text() const { return expression_ ? expression_->text : std::to_string(constant_); }

bool operator==(const SymInt &a, const SymInt &b) {
    if (a.is_constant() || b.is_constant()) return a.constant() == b.constant();
    return a.expression_ == b.expression_ || a.expression_->text == b.expression_->text;
}

void SymInt::collect_symbols(std::set<std::string> &names) const {
    if (op() == Op::Symbol) names.insert(name());
    for (const SymInt &argument : arguments()) argument.collect_symbols(names);
}

int64_t SymInt::evaluate(const Bindings &bindings) const {
    if (op() == Op::Constant) return constant_;
    if (op() == Op::Symbol) {
        const auto found = bindings.find(name());
        if (found == bindings.end()) throw Error(fmt::format("size {} has no value", name()));
        return found->second;
    }
    if (op() == Op::Unknown) throw Error(fmt::format("size {} uses a function that is not supported", text()));
    std::vector<int64_t> values;
    for (const SymInt &argument : arguments()) values.push_back(argument.evaluate(bindings));
    return compute(op(), values);
}

SymInt SymInt::substitute(const Bindings &bindings) const {
    if (op() == Op::Symbol) {
        const auto found = bindings.find(name());
        return found == bindings.end() ? *this : SymInt(found->second);
    }
    if (arguments().empty()) return *this;
    std::vector<SymInt> replaced;
    for (const SymInt &argument : arguments()) replaced.push_back(argument.substitute(bindings));
    return make(op(), std::move(replaced));
}

bool is_constant(const Sizes &sizes) {
    return std::all_of(sizes.begin(), sizes.end(), [](const SymInt &size) { return size.is_constant(); });
}

std::vector<int64_t> constant_sizes(const Sizes &sizes) {
    std::vector<int64_t> result;
    for (const SymInt &size : sizes) result.push_back(size.value());
    return result;
}

SymInt element_count(const Sizes &sizes) {
    SymInt product = 1;
    for (const SymInt &size : sizes) product = product * size;
    return product;
}

std::string text(const Sizes &sizes) {
    std::vector<std::string> texts;
    for (const SymInt &size : sizes) texts.push_back(size.text());
    return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace atalla
