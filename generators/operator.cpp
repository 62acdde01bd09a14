#include "generators/operator.h"

#include <fmt/format.h>

namespace atalla {

KernelDefinition kernel_of(const Workload &workload, const Machine &machine, const Point &point) {
    KernelDefinition kernel = workload.build(machine, point);
    kernel.choices = codegen::Choices::from_bits(choices_of(point));
    return kernel;
}

std::string schedule_words(const Workload &workload, const Machine &machine, const Point &point) {
    const auto choices = codegen::Choices::from_bits(choices_of(point));
    std::string words = workload.words(machine, point);
    return choices.empty() ? words : fmt::format("{}; {}", words, choices.words());
}

}  // namespace atalla
