#include "generators/operator.h"

#include <fmt/format.h>

namespace atalla {

namespace {

codegen::Choices choices_of(const Point &point) {
    const int64_t *bits = point.find(choices_parameter);
    return bits == nullptr ? codegen::Choices() : codegen::Choices::from_bits(*bits);
}

}  // namespace

KernelDefinition kernel_of(const Workload &workload, const Machine &machine, const Point &point) {
    KernelDefinition kernel = workload.build(machine, point);
    kernel.choices = choices_of(point);
    return kernel;
}

std::string schedule_words(const Workload &workload, const Machine &machine, const Point &point) {
    const codegen::Choices choices = choices_of(point);
    std::string words = workload.words(machine, point);
    return choices.empty() ? words : fmt::format("{}; {}", words, choices.words());
}

}  // namespace atalla
