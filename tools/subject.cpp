#include "tools/subject.h"

#include <fmt/format.h>

#include "isa/assembler.h"
#include "isa/error.h"
#include "isa/in_file.h"

namespace atalla {

namespace {

RunResult checked(RunResult result) {
    if (!result.ok) throw Error(result.error);
    return result;
}

}  // namespace

Program read_program(const std::filesystem::path &file) {
    return file.extension() == ".s" ? assemble_file(file) : read_in(file);
}

Subject subject_of(const std::filesystem::path &file, const Machine &machine) {
    Subject subject{file.filename().string(), machine, read_program(file), {}, {}, {}};
    subject.run = [program = subject.program, machine](const RunOptions &options) {
        Simulator simulator(machine);
        simulator.load(program);
        return checked(simulator.run(options));
    };
    return subject;
}

Subject subject_of(const Operator &op, std::shared_ptr<const Evaluator> evaluator, const Point &point) {
    const Workload &workload = evaluator->workload();
    const codegen::CompiledKernel compiled = evaluator->compile(point);
    Subject subject{fmt::format("{} {}", op.name(), workload.title()),
                    evaluator->machine(),
                    compiled.program,
                    {},
                    static_cast<uint64_t>(workload.flops()),
                    {}};
    subject.run = [evaluator, compiled](const RunOptions &options) {
        KernelDefinition tensors;
        tensors.inputs = evaluator->workload().inputs();
        tensors.outputs = evaluator->workload().outputs();
        const KernelRun run = run_kernel(tensors, compiled, evaluator->machine(), evaluator->inputs(DataSet::Normal), options);
        if (run.result.ok && !run.outside_untouched) throw Error("the program wrote outside its tensors");
        return checked(run.result);
    };
    return subject;
}

}  // namespace atalla
