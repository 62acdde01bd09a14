#include "generators/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generators/gemm_operator.h"
#include "isa/error.h"

namespace atalla {

const std::vector<const Operator *> &operators() {
    static const std::vector<const Operator *> all = {&gemm_operator()};
    return all;
}

const Operator &find_operator(std::string_view name) {
    std::vector<std::string> names, known;
    for (const Operator *one : operators()) {
        names.push_back(one->name());
        known.push_back(one->name());
        const std::vector<std::string> aliases = one->aliases();
        known.insert(known.end(), aliases.begin(), aliases.end());
        if (std::find(known.end() - static_cast<ptrdiff_t>(aliases.size()) - 1, known.end(), name) != known.end()) return *one;
    }
    const std::string nearest = nearest_name(name, known);
    throw Error(fmt::format("unknown operator '{}'{}; there are: {}", name,
                            nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest), fmt::join(names, ", ")));
}

}  // namespace atalla
