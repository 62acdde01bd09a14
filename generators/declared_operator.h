// Operators as declarations: a row of names, tensors, attributes and words, and the function that makes a workload of them.
// Command lines, ATen calls, files of tensors and database texts all become the same request.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generators/epilogue.h"
#include "generators/operator.h"

namespace atalla {

// A tensor argument.
struct DeclaredTensor {
    std::string name;               // on command lines: "x"
    std::vector<std::string> aten;  // in schemas: "self", "input"
    std::string help;
    bool required = true;
    bool several = false;  // a list, such as the tensors of cat; the last one declared
};

// An argument that is no tensor. Its type is that of the fallback: true/false, a whole number, a number, a word or a list of
// whole numbers. A fallback of null takes any of these, and null where nothing is given.
struct Attribute {
    std::string name;  // as in the schema: "dim"; command lines write dashes: "keep-dim"
    std::string help;
    nlohmann::json fallback = nullptr;
    bool required = false;
    bool arranges = false;  // how an input lies in memory, which an Arrangement changes
};

// What is asked of an operator.
struct WorkloadRequest {
    struct Tensor {
        std::string name;
        Shape shape;
    };
    std::string op;
    std::string reader;           // the operator that reads `text`: op, or an expression of it
    std::vector<Tensor> tensors;  // in the declared order, those not given left out
    nlohmann::json attributes;    // every declared attribute
    std::string text;             // canonical, the same for equal requests: the workload's text
    std::string title;            // for people: the shapes, and attributes that are not as usual

    bool has(std::string_view tensor) const;
    // The shape of a tensor that is there.
    const Shape &shape(std::string_view tensor) const;
    std::vector<Shape> shapes(std::string_view tensor) const;

    bool flag(const std::string &attribute) const { return attributes.at(attribute).get<bool>(); }
    // Error where an attribute that may be anything is none.
    int64_t integer(const std::string &attribute) const;
    double number(const std::string &attribute) const;
    std::string word(const std::string &attribute) const { return attributes.at(attribute).get<std::string>(); }
    std::vector<int64_t> integers(const std::string &attribute) const {
        return attributes.at(attribute).get<std::vector<int64_t>>();
    }
    bool given(const std::string &attribute) const { return !attributes.at(attribute).is_null(); }
};

struct OperatorDeclaration {
    std::string name;
    std::vector<std::string> schemas;  // without "aten::" and ".default"
    std::string help;                  // what it computes
    OperatorCard card;
    std::vector<DeclaredTensor> tensors;
    std::vector<Attribute> attributes;
    WorkloadArguments example;  // what is taken if nothing is given, and its "shape" if only that is left out
    // Schema arguments that change nothing here, such as `dtype` where it is the tensor's own.
    std::vector<std::string> ignored;
    // Error with the reason if it cannot be. Messages begin with the operator's name.
    std::function<std::unique_ptr<Workload>(const WorkloadRequest &)> make;
    // The same with pointwise operators behind the result, in one kernel, for operators that can.
    std::function<std::unique_ptr<Workload>(const WorkloadRequest &, const Epilogue &)> make_with = {};
};

class DeclaredOperator : public Operator {
public:
    explicit DeclaredOperator(OperatorDeclaration declaration) : row_(std::move(declaration)) {}

    std::string name() const override { return row_.name; }
    std::vector<std::string> schemas() const override { return row_.schemas; }
    std::string help() const override { return row_.help; }
    WorkloadArguments example() const override { return row_.example; }
    OperatorCard card() const override { return row_.card; }
    std::vector<WorkloadArgument> arguments() const override;
    std::unique_ptr<Workload> workload(const WorkloadArguments &arguments) const override;
    std::unique_ptr<Workload> parse(std::string_view text) const override;
    std::vector<OperatorTensor> tensors() const override;
    std::unique_ptr<Workload> workload_of(const TensorList &tensors, const WorkloadArguments &arguments) const override;
    Resolution resolve(const AtenCall &call) const override;

private:
    nlohmann::json attributes(const WorkloadArguments &given) const;
    nlohmann::json checked(const Attribute &attribute, nlohmann::json value) const;
    const Attribute *find_attribute(std::string_view name) const;
    std::unique_ptr<Workload> make(WorkloadRequest request) const;
    void describe(WorkloadRequest &request) const;

    OperatorDeclaration row_;
};

// Operators that live as long as the program, from their declarations.
std::vector<const Operator *> declared(std::vector<OperatorDeclaration> rows);

// "128x64,64" as shapes; "scalar" has no dimensions, "-" leaves a tensor out. Error naming what is wrong.
std::vector<std::optional<Shape>> parse_shapes(std::string_view text);
std::string shape_text(const Shape &shape);

// -1 for the last of `rank` dimensions, as PyTorch counts. Error with PyTorch's words if it is out of range.
int64_t wrap_dim(const std::string &op, int64_t dim, int64_t rank);
// The shape that tensors of these shapes broadcast to. Error with PyTorch's words if they do not.
Shape broadcast_shape(const std::string &op, const std::vector<Shape> &shapes);
int64_t element_count(const Shape &shape);

}  // namespace atalla
