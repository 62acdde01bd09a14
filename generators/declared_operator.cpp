#include "generators/declared_operator.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generators/number_words.h"
#include "isa/error.h"

namespace atalla {

namespace {

// Elements of a tensor: what the generated loops count with 32 bits.
constexpr int64_t largest_tensor = (int64_t{1} << 31) - 1;

std::string with_dashes(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
}

std::string suggestion(std::string_view word, const std::vector<std::string> &names) {
    const std::string nearest = nearest_name(word, names);
    return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

// A word of a command line: true, a number, a list 1,2 or [1,2], otherwise itself.
nlohmann::json value_of(const std::string &text) {
    nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    if (value.is_discarded() && text.find(',') != std::string::npos)
        value = nlohmann::json::parse(fmt::format("[{}]", text), nullptr, false);
    return value.is_discarded() ? number_of_word(text) : value;
}

const char *type_word(const nlohmann::json &value) {
    if (value.is_boolean()) return "true or false";
    if (value.is_number_integer()) return "a whole number";
    if (value.is_number()) return "a number";
    if (value.is_array()) return "a list of whole numbers, such as 1,2";
    return "a word";
}

bool is_integer_list(const nlohmann::json &value) {
    return value.is_array() &&
           std::all_of(value.begin(), value.end(), [](const nlohmann::json &one) { return one.is_number_integer(); });
}

}  // namespace

bool WorkloadRequest::has(std::string_view tensor) const {
    return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor &one) { return one.name == tensor; });
}

const Shape &WorkloadRequest::shape(std::string_view tensor) const {
    for (const Tensor &one : tensors)
        if (one.name == tensor) return one.shape;
    throw Error(fmt::format("{}: tensor {} is missing", op, tensor));
}

std::vector<Shape> WorkloadRequest::shapes(std::string_view tensor) const {
    std::vector<Shape> found;
    for (const Tensor &one : tensors)
        if (one.name == tensor) found.push_back(one.shape);
    return found;
}

int64_t WorkloadRequest::integer(const std::string &attribute) const {
    const nlohmann::json &value = attributes.at(attribute);
    if (!value.is_number_integer())
        throw Error(fmt::format("{}: {} must be a whole number, not {}", op, with_dashes(attribute), value.dump()));
    return value.get<int64_t>();
}

double WorkloadRequest::number(const std::string &attribute) const {
    const nlohmann::json &value = attributes.at(attribute);
    if (!value.is_number())
        throw Error(fmt::format("{}: {} must be a number, not {}", op, with_dashes(attribute), value.dump()));
    return value.get<double>();
}

std::string shape_text(const Shape &shape) { return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x")); }

std::vector<std::optional<Shape>> parse_shapes(std::string_view text) {
    std::vector<std::optional<Shape>> shapes;
    const auto wrong = [&](std::string_view part) {
        return Error(
            fmt::format("'{}' is not a shape: sizes stand with x between them, tensors with commas, such as 128x64,64; "
                        "'scalar' has no dimensions",
                        part));
    };
    for (;;) {
        const size_t comma = text.find(',');
        std::string_view part = text.substr(0, comma);
        if (part == "-")
            shapes.push_back(std::nullopt);
        else if (part == "scalar")
            shapes.push_back(Shape{});
        else {
            Shape shape;
            for (std::string_view rest = part;;) {
                const size_t cross = rest.find('x');
                const std::string_view digits = rest.substr(0, cross);
                int64_t size = 0;
                const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
                if (failure != std::errc() || end != digits.data() + digits.size()) throw wrong(part);
                if (size < 0) throw Error(fmt::format("shape '{}' has the negative size {}", part, size));
                shape.push_back(size);
                if (cross == std::string_view::npos) break;
                rest.remove_prefix(cross + 1);
            }
            shapes.push_back(std::move(shape));
        }
        if (comma == std::string_view::npos) return shapes;
        text.remove_prefix(comma + 1);
    }
}

int64_t element_count(const Shape &shape) {
    int64_t count = 1;
    for (int64_t size : shape) count = size == 0 ? 0 : count > largest_tensor ? count : count * size;
    return std::find(shape.begin(), shape.end(), 0) != shape.end() ? 0 : count;
}

int64_t wrap_dim(const std::string &op, int64_t dim, int64_t rank) {
    const int64_t least = -std::max<int64_t>(rank, 1), most = std::max<int64_t>(rank, 1) - 1;
    if (dim < least || dim > most)
        throw Error(
            fmt::format("{}: dimension out of range (expected to be in range of [{}, {}], but got {})", op, least, most, dim));
    return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim;
}

Shape broadcast_shape(const std::string &op, const std::vector<Shape> &shapes) {
    Shape result;
    for (const Shape &shape : shapes) {
        if (shape.size() > result.size()) result.insert(result.begin(), shape.size() - result.size(), 1);
        for (size_t back = 1; back <= shape.size(); back++) {
            int64_t &size = result[result.size() - back];
            const int64_t other = shape[shape.size() - back];
            if (size == other || other == 1) continue;
            if (size != 1) {
                std::vector<std::string> texts;
                for (const Shape &one : shapes) texts.push_back(shape_text(one));
                throw Error(fmt::format(
                    "{}: shapes {} do not broadcast: the size {} must match the size {} at dimension {} from the end, or be 1",
                    op, fmt::join(texts, " and "), other, size, back));
            }
            size = other;
        }
    }
    return result;
}

// ---- the operator

const Attribute *DeclaredOperator::find_attribute(std::string_view name) const {
    for (const Attribute &one : row_.attributes)
        if (one.name == name || with_dashes(one.name) == name) return &one;
    return nullptr;
}

nlohmann::json DeclaredOperator::checked(const Attribute &attribute, nlohmann::json value) const {
    const nlohmann::json &like = attribute.fallback;
    if (!like.is_string()) value = number_of_word(value);
    if (like.is_null()) return value;
    if (value.is_null()) return like;  // None stands for what PyTorch takes then
    if (like.is_array() && value.is_number_integer()) value = nlohmann::json::array({value});
    if (like.is_string() && value.is_number()) value = value.dump();
    const bool fits = like.is_boolean()          ? value.is_boolean()
                      : like.is_number_integer() ? value.is_number_integer()
                      : like.is_number()         ? value.is_number()
                      : like.is_array()          ? is_integer_list(value)
                                                 : value.is_string();
    if (!fits)
        throw Error(
            fmt::format("{}: {} must be {}, not {}", row_.name, with_dashes(attribute.name), type_word(like), value.dump()));
    if (like.is_number_float()) value = value.get<double>();
    return value;
}

nlohmann::json DeclaredOperator::attributes(const WorkloadArguments &given) const {
    nlohmann::json result = nlohmann::json::object();
    for (const Attribute &one : row_.attributes) result[one.name] = one.fallback;
    for (const auto &[name, text] : given) {
        if (name == "shape") continue;
        const Attribute *attribute = find_attribute(name);
        if (attribute == nullptr) {
            std::vector<std::string> names = {"shape"};
            for (const Attribute &one : row_.attributes) names.push_back(with_dashes(one.name));
            throw Error(fmt::format("{} has no argument '{}'{}", row_.name, name, suggestion(name, names)));
        }
        result[attribute->name] = checked(*attribute, attribute->fallback.is_string() ? nlohmann::json(text) : value_of(text));
    }
    return result;
}

std::vector<WorkloadArgument> DeclaredOperator::arguments() const {
    std::vector<WorkloadArgument> list;
    for (const Attribute &one : row_.attributes) {
        WorkloadArgument argument;
        argument.name = with_dashes(one.name);
        argument.help = one.help;
        argument.flag = one.fallback == nlohmann::json(false);
        argument.fallback = one.fallback;
        list.push_back(std::move(argument));
    }
    return list;
}

void DeclaredOperator::describe(WorkloadRequest &request) const {
    nlohmann::json tensors = nlohmann::json::array(), attributes = nlohmann::json::object();
    for (const WorkloadRequest::Tensor &tensor : request.tensors) {
        tensors.push_back({tensor.name, tensor.shape});
        request.title += fmt::format("{}{}", request.title.empty() ? "" : ",", shape_text(tensor.shape));
    }
    for (const Attribute &one : row_.attributes) {
        const nlohmann::json value = word_of_number(request.attributes.at(one.name));
        if (value == one.fallback) continue;
        attributes[one.name] = value;
        request.title +=
            fmt::format(", {} {}", with_dashes(one.name), value.is_string() ? value.get<std::string>() : value.dump());
    }
    request.text = nlohmann::json{{"tensors", tensors}, {"attributes", attributes}, {"type", "bf16"}}.dump();
}

std::unique_ptr<Workload> DeclaredOperator::make(WorkloadRequest request) const {
    request.op = request.reader = row_.name;
    for (const Attribute &one : row_.attributes)
        if (one.required && request.attributes.at(one.name) == one.fallback)
            throw Error(fmt::format("{} needs {}: {}", row_.name, with_dashes(one.name), one.help));
    for (const DeclaredTensor &tensor : row_.tensors)
        if (tensor.required && !request.has(tensor.name))
            throw Error(fmt::format("{} needs the shape of {}: {}", row_.name, tensor.name, tensor.help));
    for (const WorkloadRequest::Tensor &tensor : request.tensors)
        if (element_count(tensor.shape) > largest_tensor)
            throw Error(fmt::format("{}: {} of {} has more than {} elements", row_.name, tensor.name, shape_text(tensor.shape),
                                    largest_tensor));
    describe(request);
    return row_.make(request);
}

std::unique_ptr<Workload> DeclaredOperator::workload(const WorkloadArguments &asked) const {
    const WorkloadArguments &given = asked.empty() ? row_.example : asked;
    WorkloadRequest request;
    request.attributes = attributes(given);
    const auto found = given.find("shape");
    std::vector<std::optional<Shape>> shapes = parse_shapes(found != given.end() ? found->second : row_.example.at("shape"));
    size_t at = 0;
    for (const DeclaredTensor &tensor : row_.tensors) {
        const size_t end = tensor.several ? shapes.size() : std::min(at + 1, shapes.size());
        for (; at < end; at++)
            if (shapes[at]) request.tensors.push_back({tensor.name, *shapes[at]});
    }
    if (at < shapes.size())
        throw Error(
            fmt::format("{} takes at most {} tensors, but --shape has {}", row_.name, row_.tensors.size(), shapes.size()));
    return make(std::move(request));
}

std::unique_ptr<Workload> DeclaredOperator::parse(std::string_view text) const {
    const auto wrong = [&](const std::string &why) {
        return Error(fmt::format("'{}' is not the text of a workload of {}: {}", text, row_.name, why));
    };
    std::unique_ptr<Workload> workload;
    try {
        const nlohmann::json json = nlohmann::json::parse(text);
        WorkloadRequest request;
        request.attributes = attributes({});
        for (const auto &[name, value] : json.at("attributes").items()) {
            const Attribute *attribute = find_attribute(name);
            if (attribute == nullptr) throw Error(fmt::format("there is no argument '{}'", name));
            request.attributes[attribute->name] = checked(*attribute, value);
        }
        for (const nlohmann::json &tensor : json.at("tensors"))
            request.tensors.push_back({tensor.at(0), tensor.at(1).get<Shape>()});
        workload = make(std::move(request));
    } catch (const std::exception &error) {
        throw wrong(error.what());
    }
    if (workload->text() != text) throw wrong(fmt::format("its text would be {}", workload->text()));
    return workload;
}

std::vector<OperatorTensor> DeclaredOperator::tensors() const {
    std::vector<OperatorTensor> list;
    for (const DeclaredTensor &tensor : row_.tensors) {
        OperatorTensor one;
        one.name = tensor.name;
        one.help = tensor.help;
        one.required = tensor.required;
        one.several = tensor.several;
        list.push_back(std::move(one));
    }
    return list;
}

std::unique_ptr<Workload> DeclaredOperator::workload_of(const TensorList &tensors, const WorkloadArguments &given) const {
    WorkloadRequest request;
    request.attributes = attributes(given);
    for (const DeclaredTensor &tensor : row_.tensors)
        for (const auto &[name, shape] : tensors)
            if (name == tensor.name) request.tensors.push_back({name, shape});
    return make(std::move(request));
}

Resolution DeclaredOperator::resolve(const AtenCall &call) const {
    Resolution result;
    result.op = this;
    try {
        WorkloadRequest request;
        request.attributes = attributes({});
        std::vector<std::pair<size_t, size_t>> found;  // declared tensor, position in the call
        size_t position = 0;
        for (const AtenArgument &argument : call.arguments) {
            if (!argument.tensors.empty()) {
                const auto declared = std::find_if(row_.tensors.begin(), row_.tensors.end(), [&](const DeclaredTensor &one) {
                    return std::find(one.aten.begin(), one.aten.end(), argument.name) != one.aten.end();
                });
                if (declared == row_.tensors.end())
                    throw Error(fmt::format("{}: a tensor for '{}' is not supported", row_.name, argument.name));
                for (const TensorMeta &tensor : argument.tensors) {
                    if (!is_floating(tensor.type))
                        throw Error(fmt::format("{}: '{}' is {}, but the accelerator computes in bf16", row_.name,
                                                argument.name, element_type_name(tensor.type)));
                    found.emplace_back(declared - row_.tensors.begin(), position++);
                    request.tensors.push_back({declared->name, tensor.shape});
                }
                continue;
            }
            if (std::find(row_.ignored.begin(), row_.ignored.end(), argument.name) != row_.ignored.end()) continue;
            const Attribute *attribute = find_attribute(argument.name);
            // A number may stand for a tensor.
            for (const DeclaredTensor &tensor : row_.tensors)
                if (attribute == nullptr &&
                    std::find(tensor.aten.begin(), tensor.aten.end(), argument.name) != tensor.aten.end())
                    attribute = find_attribute(tensor.name);
            if (attribute != nullptr)
                request.attributes[attribute->name] = checked(*attribute, argument.value);
            else if (!argument.value.is_null())
                throw Error(fmt::format("{}: the argument '{}' = {} is not supported", row_.name, argument.name,
                                        argument.value.dump()));
        }
        // The schema's order may differ from the kernel's.
        std::vector<size_t> order(found.size());
        for (size_t i = 0; i < order.size(); i++) order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return found[a].first < found[b].first; });
        std::vector<WorkloadRequest::Tensor> sorted;
        for (size_t i : order) {
            sorted.push_back(request.tensors[i]);
            result.inputs.push_back(found[i].second);
        }
        request.tensors = std::move(sorted);
        result.workload = make(std::move(request));
        result.place = Resolution::Accelerator;
    } catch (const Error &error) {
        result.inputs.clear();
        result.reason = error.what();
    }
    return result;
}

std::vector<const Operator *> declared(std::vector<OperatorDeclaration> rows) {
    static std::vector<std::unique_ptr<const Operator>> kept;
    std::vector<const Operator *> list;
    for (OperatorDeclaration &row : rows) {
        kept.push_back(std::make_unique<DeclaredOperator>(std::move(row)));
        list.push_back(kept.back().get());
    }
    return list;
}

}  // namespace atalla
