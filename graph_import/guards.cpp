#include "graph_import/guards.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr int deepest = 100;

// Python's expressions over L['x'].size()[i] and integers. Numbers are doubles: sizes are far below what they hold exactly.
class GuardParser {
public:
    GuardParser(std::string_view text, const std::map<std::string, std::vector<int64_t>> &sizes) : text_(text), sizes_(sizes) {}

    bool holds() {
        const double result = either();
        skip_space();
        if (at_ != text_.size()) fail();
        return result != 0;
    }

private:
    [[noreturn]] void fail() const {
        throw Error(fmt::format("the guard '{}' is not understood at character {}", text_, at_ + 1));
    }

    void skip_space() {
        while (at_ < text_.size() && text_[at_] == ' ') at_++;
    }

    bool take(std::string_view token) {
        skip_space();
        if (text_.substr(at_, token.size()) != token) return false;
        const bool word = std::isalpha(static_cast<unsigned char>(token.back()));
        const size_t end = at_ + token.size();
        if (word && end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_'))
            return false;
        at_ = end;
        return true;
    }

    double either() {
        double value = both();
        while (take("or")) value = (both() != 0) | (value != 0);
        return value;
    }

    double both() {
        double value = negated();
        while (take("and")) value = (negated() != 0) & (value != 0);
        return value;
    }

    double negated() {
        if (take("not")) return negated() == 0;
        return comparison();
    }

    double comparison() {
        double left = sum();
        bool holds = true, any = false;
        while (true) {
            double right = 0;
            bool now = false;
            if (take("==")) {
                right = sum();
                now = left == right;
            } else if (take("!=")) {
                right = sum();
                now = left != right;
            } else if (take("<=")) {
                right = sum();
                now = left <= right;
            } else if (take(">=")) {
                right = sum();
                now = left >= right;
            } else if (take("<")) {
                right = sum();
                now = left < right;
            } else if (take(">")) {
                right = sum();
                now = left > right;
            } else {
                return any ? holds : left;
            }
            any = true;
            holds = holds && now;
            left = right;
        }
    }

    double sum() {
        double value = product();
        while (true) {
            if (take("+")) {
                value += product();
            } else if (take("-")) {
                value -= product();
            } else {
                return value;
            }
        }
    }

    double product() {
        double value = unary();
        while (true) {
            if (take("//")) {
                value = std::floor(value / divisor());
            } else if (take("*")) {
                value *= unary();
            } else if (take("/")) {
                value /= divisor();
            } else if (take("%")) {
                const double by = divisor();
                value -= by * std::floor(value / by);
            } else {
                return value;
            }
        }
    }

    double divisor() {
        const double value = unary();
        if (value == 0) throw Error(fmt::format("the guard '{}' divides by zero", text_));
        return value;
    }

    double unary() {
        if (take("-")) return -unary();
        double base = atom();
        if (take("**")) base = std::pow(base, unary());
        return base;
    }

    double atom() {
        if (++depth_ > deepest) fail();
        const double value = atom_inside();
        depth_--;
        return value;
    }

    double atom_inside() {
        skip_space();
        if (take("(")) return closed();
        if (take("math.trunc(")) return std::trunc(closed());
        if (take("math.floor(")) return std::floor(closed());
        if (take("math.ceil(")) return std::ceil(closed());
        if (take("max(")) return call([](double a, double b) { return std::max(a, b); });
        if (take("min(")) return call([](double a, double b) { return std::min(a, b); });
        if (take("L[")) return size();
        if (take("True")) return 1;
        if (take("False")) return 0;
        double value = 0;
        const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
        if (error != std::errc{}) fail();
        at_ = end - text_.data();
        return value;
    }

    double closed() {
        const double value = either();
        if (!take(")")) fail();
        return value;
    }

    template <typename F>
    double call(F f) {
        double value = either();
        while (take(",")) value = f(value, either());
        if (!take(")")) fail();
        return value;
    }

    double size() {
        if (!take("'") && !take("\"")) fail();
        const size_t end = text_.find_first_of("'\"", at_);
        if (end == text_.npos) fail();
        std::string name(text_.substr(at_, end - at_));
        at_ = end + 1;
        if (!take("]")) fail();
        // A part of a list or dictionary: its input is called after the whole and the index or key.
        while (take("[")) {
            const bool quoted = take("'") || take("\"");
            const size_t stop = text_.find_first_of("'\"]", at_);
            if (stop == text_.npos) fail();
            name += fmt::format("_{}", text_.substr(at_, stop - at_));
            at_ = stop + quoted;
            if (!take("]")) fail();
        }
        const auto found = sizes_.find(name);
        if (found == sizes_.end())
            throw Error(fmt::format("the guard '{}' is about {}, which is no tensor input", text_, name));
        if (!take(".size()[")) fail();
        size_t index = 0;
        const auto [stop, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), index);
        if (error != std::errc{} || index >= found->second.size()) fail();
        at_ = stop - text_.data();
        if (!take("]")) fail();
        return static_cast<double>(found->second[index]);
    }

    std::string_view text_;
    const std::map<std::string, std::vector<int64_t>> &sizes_;
    size_t at_ = 0;
    int depth_ = 0;
};

// A size of an input that the caller gave.
struct Given {
    std::string place;  // "x.size()[0]", or the name of a number
    SymInt expected;
    int64_t value = 0;
};

std::vector<Given> match_inputs(const Graph &graph, const std::vector<std::vector<int64_t>> &input_sizes,
                                const std::vector<int64_t> &numbers) {
    std::vector<Given> given;
    size_t next = 0, next_number = 0, wanted = 0;
    for (const GraphInput &input : graph.inputs) wanted += input.kind == GraphInput::Kind::User;
    if (wanted != input_sizes.size()) {
        throw Error(fmt::format("the model takes {} inputs, {} are given", wanted, input_sizes.size()));
    }
    for (const GraphInput &input : graph.inputs) {
        if (input.kind != GraphInput::Kind::User) continue;
        const std::vector<int64_t> &sizes = input_sizes[next++];
        const Value &value = graph.value(input.value);
        if (value.kind != Value::Kind::Tensor) {
            if (next_number >= numbers.size()) throw Error(fmt::format("input {} is a number, which is not given", input.name));
            given.push_back({input.name, value.symbolic, numbers[next_number++]});
            continue;
        }
        if (sizes.size() != value.type.sizes.size()) {
            throw Error(fmt::format("input {} has {} dimensions; the model takes {}{}", input.name, sizes.size(),
                                    dtype_name(value.type.dtype), text(value.type.sizes)));
        }
        for (size_t d = 0; d < sizes.size(); d++) {
            given.push_back({fmt::format("{}.size()[{}]", input.name, d), value.type.sizes[d], sizes[d]});
        }
    }
    return given;
}

// Solves factor * symbol + rest == value for an expression that is linear in one unbound symbol.
bool solve(const Given &given, Bindings &bindings) {
    const SymInt expression = given.expected.substitute(bindings);
    std::set<std::string> open;
    expression.collect_symbols(open);
    if (open.size() != 1) return false;
    const std::string &name = *open.begin();
    const auto at = [&](int64_t x) { return expression.evaluate({{name, x}}); };
    const int64_t rest = at(0), factor = at(1) - rest;
    // Exactly linear, as far as a third and a fourth point tell.
    if (factor == 0 || at(2) != rest + 2 * factor || at(1000) != rest + 1000 * factor) return false;
    if ((given.value - rest) % factor != 0) {
        throw Error(
            fmt::format("{} is {}, but the model was exported for {}", given.place, given.value, given.expected.text()));
    }
    bindings[name] = (given.value - rest) / factor;
    return true;
}

}  // namespace

bool guard_holds(const std::string &guard, const std::map<std::string, std::vector<int64_t>> &sizes) {
    return GuardParser(guard, sizes).holds();
}

Bindings bind_symbols(const Graph &graph, const std::vector<std::vector<int64_t>> &input_sizes,
                      const std::vector<int64_t> &numbers) {
    const std::vector<Given> given = match_inputs(graph, input_sizes, numbers);
    Bindings bindings;
    std::map<std::string, std::string> bound_by;
    for (const Given &size : given) {
        if (size.expected.op() != SymInt::Op::Symbol) continue;
        const auto [known, fresh] = bindings.emplace(size.expected.name(), size.value);
        if (fresh) {
            bound_by[known->first] = size.place;
        } else if (known->second != size.value) {
            throw Error(fmt::format("{} is {}, but must be equal to {}, which is {}", size.place, size.value,
                                    bound_by[known->first], known->second));
        }
    }
    for (bool progress = true; progress;) {
        progress = false;
        for (const Given &size : given) {
            if (!size.expected.is_constant()) progress = solve(size, bindings) || progress;
        }
    }
    for (const auto &[name, value] : bindings) {
        const auto info = graph.symbols.find(name);
        if (info == graph.symbols.end()) continue;
        const auto &[least, most, hint] = info->second;
        if (value >= least && (!most || value <= *most)) continue;
        const std::string place = bound_by.contains(name) ? fmt::format("{} is {}", bound_by[name], value)
                                                          : fmt::format("{} would be {}", name, value);
        throw Error(most ? fmt::format("{}, but the model was exported for {} <= {} <= {}", place, least, name, *most)
                         : fmt::format("{}, but the model was exported for {} >= {}", place, name, least));
    }
    for (const Given &size : given) {
        if (size.expected.is_constant()) {
            if (size.expected.value() != size.value) {
                throw Error(fmt::format("{} is {}, but the model was exported for the constant size {}", size.place, size.value,
                                        size.expected.text()));
            }
            continue;
        }
        std::set<std::string> names;
        size.expected.collect_symbols(names);
        for (const std::string &name : names) {
            if (!bindings.contains(name)) throw Error(fmt::format("{}: no size of an input gives {}", size.place, name));
        }
        if (const int64_t expected = size.expected.evaluate(bindings); expected != size.value) {
            throw Error(fmt::format("{} is {}, but must be {} = {}", size.place, size.value, size.expected.text(), expected));
        }
    }
    std::map<std::string, std::vector<int64_t>> by_name;
    size_t next = 0;
    for (const GraphInput &input : graph.inputs) {
        if (input.kind == GraphInput::Kind::User) by_name[input.name] = input_sizes[next++];
    }
    for (const std::string &guard : graph.guards) {
        if (!guard_holds(guard, by_name)) {
            throw Error(fmt::format("these sizes break a condition that the model was exported under: {}", guard));
        }
    }
    return bindings;
}

}  // namespace atalla
