// Sizes that may depend on the sizes of a call: integer constants, or expressions over named symbols in a normal form.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace atalla {

// Values of symbols, by name ("s77").
using Bindings = std::map<std::string, int64_t>;

// An integer that is a constant or an expression. Equal expressions, up to order and expansion of sums and products, have
// equal texts. Immutable and cheap to copy.
class SymInt {
public:
    // clang-format off
    enum class Op {
        Constant, Symbol, Add, Mul, FloorDiv, Mod, Min, Max,
        Equal, Unequal, Less, LessEqual, And, Or, Not,   // 1 if true, else 0
        Unknown                                          // a function that this reader does not know
    };
    // clang-format on

    SymInt(int64_t value = 0);
    static SymInt symbol(std::string name);
    // Folded and normalized. Mod and FloorDiv round down, as Python does. Error if a sum or product of constants overflows.
    static SymInt make(Op op, std::vector<SymInt> arguments);
    // Evaluation fails with this text.
    static SymInt unknown(std::string text);

    Op op() const;
    bool is_constant() const { return op() == Op::Constant; }
    std::optional<int64_t> constant() const;
    // Error naming the expression unless it is a constant.
    int64_t value() const;
    // The name of a symbol.
    const std::string &name() const;
    const std::vector<SymInt> &arguments() const;

    // "4*s77 + 1".
    std::string text() const;
    void collect_symbols(std::set<std::string> &names) const;
    // Error naming a symbol without value, a division by zero or an overflow.
    int64_t evaluate(const Bindings &bindings) const;
    // With the bound symbols replaced by their values.
    SymInt substitute(const Bindings &bindings) const;

    friend SymInt operator+(const SymInt &a, const SymInt &b) { return make(Op::Add, {a, b}); }
    friend SymInt operator-(const SymInt &a, const SymInt &b) { return make(Op::Add, {a, make(Op::Mul, {SymInt(-1), b})}); }
    friend SymInt operator*(const SymInt &a, const SymInt &b) { return make(Op::Mul, {a, b}); }
    friend bool operator==(const SymInt &a, const SymInt &b);

private:
    struct Expression;
    explicit SymInt(std::shared_ptr<const Expression> expression) : expression_(std::move(expression)) {}
    std::shared_ptr<const Expression> expression_;  // null for a constant
    int64_t constant_ = 0;
};

// From the constructor form in which exported programs write expressions: "Add(Mul(Integer(4), Symbol('s0')), Integer(1))".
// Error if the text is malformed or nested more than 200 deep.
SymInt parse_symbolic(std::string_view text);

using Sizes = std::vector<SymInt>;

bool is_constant(const Sizes &sizes);
// Error naming the first that is not constant.
std::vector<int64_t> constant_sizes(const Sizes &sizes);
SymInt element_count(const Sizes &sizes);
// "[4, s77]".
std::string text(const Sizes &sizes);

}  // namespace atalla
