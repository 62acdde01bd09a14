#include <fmt/format.h>

#include <cmath>

#include "graph_import/emit.h"
#include "isa/error.h"

namespace atalla {

namespace {

constexpr int digits = 20;  // behind the point, in dc's arithmetic

// dc writes a minus as an underscore and has no exponents.
std::string number(double value) {
    if (!std::isfinite(value)) throw Error("RPN has no infinity and no NaN");
    std::string text = fmt::format("{:.{}f}", std::fabs(value), digits);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return value < 0 ? fmt::format("_{}", text) : text;
}

class Writer {
public:
    explicit Writer(const Graph &graph) : graph_(graph) {}

    std::string program() {
        text_ = fmt::format("{}k\n", digits);
        for (const GraphInput &input : graph_.inputs) {
            if (input.kind == GraphInput::Kind::Fixed) continue;
            require_number(input.value);
            if (input.kind == GraphInput::Kind::User) {
                text_ += fmt::format("? {}\n", kept(input.value));
            } else {
                if (!input.data) throw Error(fmt::format("{} has no value", input.name));
                text_ += fmt::format("{} {}\n", number(element_as_double(*input.data, 0)), kept(input.value));
            }
        }
        for (const Node &node : graph_.nodes) write(node);
        for (const GraphOutput &output : graph_.outputs) {
            if (output.kind == GraphOutput::Kind::Mutation) throw Error("RPN cannot keep a value for the next call");
            text_ += operand(output.value, "an output") + " p\n";
        }
        return text_;
    }

private:
    void require_number(ValueId id) const {
        const Value &value = graph_.value(id);
        const bool one =
            value.kind == Value::Kind::Tensor && is_constant(value.type.sizes) && element_count(value.type.sizes).value() == 1;
        if (!one)
            throw Error(fmt::format("RPN knows single numbers; {} is {}{}", value.name, dtype_name(value.type.dtype),
                                    text(value.type.sizes)));
    }

    // Pops into a register of its own; dc has one for each character.
    std::string kept(ValueId id) {
        constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        if (registers_.size() >= letters.size()) throw Error("RPN has registers for 52 values; this graph has more");
        const char letter = letters[registers_.size()];
        registers_[id] = letter;
        return fmt::format("s{}", letter);
    }

    std::string operand(const Argument &argument, std::string_view what) const {
        if (const auto *id = std::get_if<ValueId>(&argument)) {
            const auto found = registers_.find(*id);
            if (found != registers_.end()) return fmt::format("l{}", found->second);
        }
        if (const auto *size = std::get_if<SymInt>(&argument)) return number(static_cast<double>(size->value()));
        if (const auto *value = std::get_if<double>(&argument)) return number(*value);
        throw Error(fmt::format("RPN cannot say {}", what));
    }

    std::string operand(const Node &node, const char *name) const {
        const Argument *argument = node.find(name);
        if (!argument) throw Error(fmt::format("{}: argument {} is missing", node.target, name));
        return operand(*argument, fmt::format("argument {} of {}", name, node.target));
    }

    std::string alpha(const Node &node) const {
        return node.find("alpha") && node.number("alpha") != 1 ? fmt::format(" {} *", number(node.number("alpha"))) : "";
    }

    std::string expression(const Node &node) const {
        const std::string name = node.target.substr(0, node.target.find('.'));
        const auto two = [&](const char *sign) {
            return fmt::format("{} {}{} {}", operand(node, "self"), operand(node, "other"), alpha(node), sign);
        };
        if (name == "aten::add") return two("+");
        if (name == "aten::sub") return two("-");
        if (name == "aten::mul") return two("*");
        if (name == "aten::div" && node.is_none("rounding_mode")) return two("/");
        if (name == "aten::rsub") return fmt::format("{} {}{} -", operand(node, "other"), operand(node, "self"), alpha(node));
        if (name == "aten::neg") return fmt::format("0 {} -", operand(node, "self"));
        if (name == "aten::sqrt") return operand(node, "self") + " v";
        if (name == "aten::square") return operand(node, "self") + " 2 ^";
        if (name == "aten::reciprocal") return fmt::format("1 {} /", operand(node, "self"));
        if (node.target == "aten::pow.Tensor_Scalar") {
            const double exponent = node.number("exponent");
            if (exponent == std::floor(exponent) && std::fabs(exponent) < 1000) {
                return fmt::format("{} {} ^", operand(node, "self"), number(exponent));
            }
        }
        if (name == "aten::alias" || name == "aten::clone" || name == "aten::detach") return operand(node, "self");
        throw Error(fmt::format(
            "RPN cannot say {}; it has add, sub, mul, div, neg, pow with whole exponents, square, sqrt and reciprocal",
            node.target));
    }

    void write(const Node &node) {
        if (node.outputs.size() != 1) throw Error(fmt::format("RPN cannot say {}", node.target));
        require_number(node.outputs[0]);
        const std::string rpn = expression(node);
        text_ += fmt::format("{} {}\n", rpn, kept(node.outputs[0]));
    }

    const Graph &graph_;
    std::map<ValueId, char> registers_;
    std::string text_;
};

}  // namespace

std::string emit_rpn(const Graph &graph) { return Writer(graph).program(); }

}  // namespace atalla
