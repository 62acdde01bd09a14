// Measures and checks the programs that the points of a workload's space become.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "generators/operator.h"

namespace atalla {

// What came out of one point.
struct Evaluation {
    enum Status { Ok, Failed, Refused, TimedOut };
    Status status = Failed;
    int64_t cycles = 0;        // if TimedOut, of the part that ran; 0 for a program that may never end
    std::string reason;        // if not Ok
    std::string rule;          // if Refused, which rule of the machine the program broke
    nlohmann::json counters;   // counters_json(), null if the program did not run
    double seconds_lower = 0;  // lowering and code generation
    double seconds_simulate = 0;
};

// 16 hex digits that change with everything that decides which program a point becomes and what it does: the sources of the
// layers up to the generators, and Halide's version.
std::string compiler_fingerprint();

// Sets of tensors.
//   Normal: normally distributed values.
//   Special: the same with a few rows that hold zeros of both signs, denormals, infinities, NaN and the largest finite values.
//   Bounded: Special without the largest finite values.
enum class DataSet { Normal, Special, Bounded };
std::vector<TensorData> random_inputs(const std::vector<TensorSpec> &tensors, DataSet set, uint64_t seed);

// Where two tensors first differ, as a sentence, and how often; empty if they agree bit for bit. Two NaN agree whatever
// their payload: IEEE 754 leaves open which operand's payload a sum keeps, and the order of its operands is the
// schedule's.
std::string difference(const TensorSpec &tensor, const TensorData &one, const TensorData &other);
// Are fewer than half of the elements finite? Special values spread over the sums of a product or convolution, whose results
// then hide what else is wrong: normal ones have to show it.
bool shows_little(const std::vector<TensorData> &results);
// The largest error in bf16 units in the last place of a number as large as Reference::peaks, where the reference is finite.
double largest_error_ulps(const TensorData &result, const Reference &reference);

class LoweredCache;

// Evaluates one workload on one machine. Inputs and reference results are made once, when they are first needed.
// Thread-safe.
class Evaluator {
public:
    // Error if the tensors do not fit the machine's memory.
    Evaluator(std::shared_ptr<const Workload> workload, const Machine &machine, uint64_t data_seed = 1);

    const Workload &workload() const { return *workload_; }
    const Machine &machine() const { return machine_; }

    // Never throws for a point of the space: what goes wrong becomes the status. A program that has not halted after
    // `cycle_limit` cycles (0: no limit) is TimedOut.
    Evaluation evaluate(const Point &point, int64_t cycle_limit = 0) const;
    // The choices of the code generator that make a difference to the point's program; none if there is no program.
    codegen::Choices open_choices(const Point &point) const;
    // Compares the point's results on the special data with those of the unoptimized program, bit for bit, and on the normal
    // data with float64. Empty if they agree, otherwise what differs. A functional machine aborts where a scalar operation
    // overflows; if the unoptimized program does, the special data are bounded.
    std::string verify(const Point &point) const;

    // The unoptimized program as a point: the workload's naive one, marked. evaluate() takes it too, but no space has it.
    Point unoptimized_point() const;
    // The data on which verify() compares bit for bit.
    DataSet special_set() const { return expected().set; }
    // What it took; nothing where the host stands in for it, since the workload is too large or there is no such program.
    std::optional<Evaluation> unoptimized() const;

    // Made at the first call, and again after forget_tensors().
    const std::vector<TensorData> &inputs(DataSet set) const;
    // Frees inputs, results and lowered pipelines that are kept from call to call; not while another function runs. They are
    // made again when needed.
    void forget_tensors() const;
    codegen::CompiledKernel compile(const Point &point, const codegen::CompileOptions &options = {}) const;

private:
    // Results that every program of the workload must have, on special data.
    struct Expected {
        DataSet set = DataSet::Special;
        std::vector<TensorData> outputs;
        std::optional<Evaluation> run;
        std::vector<TensorData> of_normal;  // on normal data, where the others show little; otherwise empty
    };
    const Expected &expected() const;

    // A point's program, to run on one data set and then another.
    struct Candidate {
        bool optimized = true;
        KernelDefinition kernel = {};
        std::optional<codegen::CompiledKernel> compiled = {};  // nothing if there is an error
        std::string error = {};
        double seconds = 0;  // that making it took
    };
    Candidate candidate(const Point &point) const;
    // Without `outputs`, for its cycles alone.
    Evaluation run(const Candidate &candidate, DataSet set, std::vector<TensorData> *outputs, int64_t cycle_limit = 0) const;

    std::shared_ptr<const Workload> workload_;
    Machine machine_;
    uint64_t data_seed_;
    uint64_t step_limit_;
    std::shared_ptr<LoweredCache> lowered_;
    mutable std::mutex mutex_;
    mutable std::map<DataSet, std::vector<TensorData>> inputs_;
    mutable std::optional<Expected> expected_;
};

}  // namespace atalla
