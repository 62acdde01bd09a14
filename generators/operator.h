// What the tools know about an operator: how a workload is described, its schedule space, its kernels, and what is right.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "generators/kernel_definition.h"
#include "generators/kernel_run.h"
#include "isa/machine.h"
#include "schedules/bounds.h"
#include "schedules/point.h"
#include "schedules/space.h"

namespace atalla {

// An output in float64, with the largest magnitude that the machine's computation of each element passes through: where
// terms cancel, a rounding error is as large as the terms, not as the result.
struct Reference {
    std::vector<double> values, peaks;
};

class Workload;

// The same computation with the elements of one input in another order: for inputs that are known before the program runs, such
// as weights.
struct Arrangement {
    std::shared_ptr<const Workload> workload;
    size_t input = 0;  // which of inputs()
    // Of the arranged input, one after the other: which element of the input that is; -1: a zero.
    std::vector<int64_t> elements;
    // Of command lines, that says how the input lies: "weight-layout".
    std::string argument;
};

// An operator at one shape: everything that tuning it needs. Immutable, so it may be used from several threads.
class Workload {
public:
    virtual ~Workload() = default;

    // Orders of inputs that kernels on a machine read better than the one that is given.
    virtual std::vector<Arrangement> arrangements(const Machine &) const { return {}; }

    // Canonical JSON: equal workloads have equal texts. Part of a database key.
    virtual std::string text() const = 0;
    // What is computed of inputs(), by their names, if it is pointwise: others can take it in. Empty otherwise.
    virtual std::string expression() const { return {}; }
    // For people: "512x512x512, bias".
    virtual std::string title() const = 0;
    // The sizes alone, for people and JSON: "512x512x512".
    virtual std::string shape() const = 0;
    virtual std::vector<TensorSpec> inputs() const = 0;
    virtual std::vector<TensorSpec> outputs() const = 0;
    // Of the first output as PyTorch has it, outermost extent first; the kernel's tensor may have as many elements in other
    // dimensions.
    virtual std::vector<int64_t> result_shape() const {
        const TensorSpec result = outputs().front();
        return {result.extents.rbegin(), result.extents.rend()};
    }
    // Additions and multiplications that the definition of the operator asks for.
    virtual double flops() const = 0;

    virtual Space space(const Machine &machine) const = 0;
    // The schedule of the reference program, whatever is slowest and simplest. It need not be in the space.
    virtual Point naive_point(const Machine &machine) const = 0;
    virtual KernelDefinition build(const Machine &machine, const Point &point) const = 0;
    // Parameters that decide nothing but KernelDefinition::layouts: kernels that differ in no other have the same loops.
    virtual std::vector<std::string> placing_parameters() const { return {}; }
    // "blocks of 64 rows, sums in registers, ...".
    virtual std::string words(const Machine &machine, const Point &point) const = 0;

    virtual Bound bound(const Machine &machine) const = 0;
    // Predicted cycles by arithmetic.
    virtual double draft(const Machine &machine, const Point &point) const = 0;
    // What no program of this schedule goes below, where more is known of it than bound(); 0 otherwise.
    virtual int64_t least_cycles(const Machine &, const Point &) const { return 0; }

    // `inputs` as the kernel takes them. A reference for each output.
    virtual std::vector<Reference> reference(const std::vector<TensorData> &inputs) const = 0;
    // Largest difference from the reference, in units in the last place of a bf16 number as large as the peak.
    virtual double tolerance_ulps() const = 0;
    // The machine's result bit for bit, by a plain loop on the host: for shapes whose naive program takes too long.
    virtual std::vector<TensorData> host_result(const Machine &machine, const std::vector<TensorData> &inputs) const = 0;
};

// The kernel of a point of the space, which may have choices of the code generator besides. Error if there are no such choices.
KernelDefinition kernel_of(const Workload &workload, const Machine &machine, const Point &point);
// Workload::words() and those of the choices.
std::string schedule_words(const Workload &workload, const Machine &machine, const Point &point);

// A named argument of a workload, as a command line and a shapes file spell it.
struct WorkloadArgument {
    std::string name;  // "m", "bias", "b-layout"
    std::string help;
    bool flag = false;                  // given or not; its value is then "true" or "false"
    bool size = false;                  // follows from the tensors where there are some
    nlohmann::json fallback = nullptr;  // its value if it is not given
};
using WorkloadArguments = std::map<std::string, std::string>;

// A tensor as `atalla run` takes it: --a A.npy.
struct OperatorTensor {
    std::string name;  // of the option, "a"
    std::string help;
    bool required = true;
    bool several = false;  // may be given more than once
};
using Shape = std::vector<int64_t>;                             // outermost extent first
using TensorList = std::vector<std::pair<std::string, Shape>>;  // by option name

// What an operator is, in words: its row of the table that `atalla ops` prints.
struct OperatorCard {
    std::string family;     // "matmul", "pointwise"
    std::string algorithm;  // what is computed, with the order and the rounding where they matter
    std::string space;      // what is searched
    std::string bound;      // what the lower bound counts
    std::string reference;  // what results are compared with
    std::string supports;   // types and shapes
    std::string refuses;    // what it does not take, with the reason
    std::string fuses;      // what can join it in one kernel
};

// Element types as PyTorch names them. Kernels compute in bf16; float types are rounded to it, the others cannot be.
enum class ElementType { Bool, UInt8, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64, Other };
bool is_floating(ElementType type);
const char *element_type_name(ElementType type);

struct TensorMeta {
    Shape shape;
    ElementType type = ElementType::BFloat16;
};

// A call in a graph. Arguments carry the names of the schema; those left out have their defaults.
struct AtenArgument {
    std::string name;                 // "self", "dim"
    std::vector<TensorMeta> tensors;  // the tensor, or those of a list
    nlohmann::json value;             // of an argument that is no tensor; null for None
};
struct AtenCall {
    std::string schema;  // "aten::softmax.int"; "aten::" and ".default" may be left out
    std::vector<AtenArgument> arguments;
};

class Operator;

// Where a call is computed, and why.
struct Resolution {
    enum Place {
        Accelerator,  // `workload` is what to run
        View,         // the same elements under another shape: costs nothing
        Host,         // by decision: see reason
        Folded,       // computed when the graph is compiled
        Dropped,      // an assertion, without a result
        Unsupported
    };
    Place place = Unsupported;
    const Operator *op = nullptr;
    std::shared_ptr<const Workload> workload;
    // For each input of the workload, the position among the tensors of the call (lists flattened).
    std::vector<size_t> inputs;
    std::string reason;
};
const char *place_name(Resolution::Place place);

class Operator {
public:
    virtual ~Operator() = default;

    virtual std::string name() const = 0;
    // What it computes, in one line.
    virtual std::string help() const = 0;
    // Arguments of a usual workload: workload({}).
    virtual WorkloadArguments example() const = 0;

    // "shape", an argument that every operator has, is not listed.
    virtual std::vector<WorkloadArgument> arguments() const = 0;
    // Error naming the argument that is missing, unknown or out of range.
    virtual std::unique_ptr<Workload> workload(const WorkloadArguments &arguments) const = 0;
    // From the text of a workload.
    virtual std::unique_ptr<Workload> parse(std::string_view text) const = 0;

    virtual OperatorCard card() const = 0;
    // ATen overloads, without "aten::" and ".default".
    virtual std::vector<std::string> schemas() const = 0;
    // The workload of a call of one of the schemas, or the reason why there is none.
    virtual Resolution resolve(const AtenCall &call) const = 0;

    // In the order of the kernel's inputs.
    virtual std::vector<OperatorTensor> tensors() const = 0;
    // The workload that these tensors make. Error naming those that do not fit each other.
    virtual std::unique_ptr<Workload> workload_of(const TensorList &shapes, const WorkloadArguments &arguments) const = 0;
};

// Its example as a command line has it: "--op conv2d --shape 1x64x56x56,64x64x3x3 --padding 1".
std::string example_line(const Operator &op);

}  // namespace atalla
