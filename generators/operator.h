// What the tools know about an operator: how a workload is described, its schedule space, its kernels, and what is right.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

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

// An operator at one shape: everything that tuning it needs. Immutable, so it may be used from several threads.
class Workload {
public:
    virtual ~Workload() = default;

    // Canonical JSON: equal workloads have equal texts. Part of a database key.
    virtual std::string text() const = 0;
    // For people: "512x512x512, bias".
    virtual std::string title() const = 0;
    // The sizes alone, for people and JSON: "512x512x512".
    virtual std::string shape() const = 0;
    virtual std::vector<TensorSpec> inputs() const = 0;
    virtual std::vector<TensorSpec> outputs() const = 0;
    // Additions and multiplications that the definition of the operator asks for.
    virtual double flops() const = 0;

    virtual Space space(const Machine &machine) const = 0;
    // The schedule of the reference program, whatever is slowest and simplest. It need not be in the space.
    virtual Point naive_point(const Machine &machine) const = 0;
    virtual KernelDefinition build(const Machine &machine, const Point &point) const = 0;
    // "blocks of 64 rows, sums in registers, ...".
    virtual std::string words(const Machine &machine, const Point &point) const = 0;

    virtual Bound bound(const Machine &machine) const = 0;
    // Predicted cycles by arithmetic.
    virtual double draft(const Machine &machine, const Point &point) const = 0;

    // `inputs` as the kernel takes them. A reference for each output.
    virtual std::vector<Reference> reference(const std::vector<TensorData> &inputs) const = 0;
    // Largest difference from the reference, in units in the last place of a bf16 number as large as the peak.
    virtual double tolerance_ulps() const = 0;
    // The machine's result bit for bit, by a plain loop on the host: for shapes whose naive program takes too long.
    virtual std::vector<TensorData> host_result(const Machine &machine, const std::vector<TensorData> &inputs) const = 0;
};

// A named argument of a workload, as a command line and a shapes file spell it.
struct WorkloadArgument {
    std::string name;   // "m", "bias", "b-layout"
    std::string help;
    bool flag = false;  // given or not; its value is then "true" or "false"
    bool size = false;  // follows from the tensors where there are some
};
using WorkloadArguments = std::map<std::string, std::string>;

// A tensor as `atalla run` takes it: --a A.npy.
struct OperatorTensor {
    std::string name;   // of the option, "a"
    std::string help;
    bool required = true;
};
using TensorShapes = std::map<std::string, std::vector<int64_t>>;   // outermost extent first

class Operator {
public:
    virtual ~Operator() = default;

    virtual std::string name() const = 0;
    // Other names that mean it: ATen schemas.
    virtual std::vector<std::string> aliases() const = 0;
    // One line with an example.
    virtual std::string help() const = 0;

    // "shape", an argument that every operator has, is not listed.
    virtual std::vector<WorkloadArgument> arguments() const = 0;
    // Error naming the argument that is missing, unknown or out of range.
    virtual std::unique_ptr<Workload> workload(const WorkloadArguments &arguments) const = 0;
    // From the text of a workload.
    virtual std::unique_ptr<Workload> parse(std::string_view text) const = 0;

    // In the order of the kernel's inputs.
    virtual std::vector<OperatorTensor> tensors() const = 0;
    // The workload that these tensors make. Error naming those that do not fit each other.
    virtual std::unique_ptr<Workload> workload_of(const TensorShapes &shapes, const WorkloadArguments &arguments) const = 0;
};

}  // namespace atalla
