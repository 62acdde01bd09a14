#include "db/trial.h"

#include <fmt/format.h>
#include <array>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr std::array<const char *, 4> names = {"ok", "failed", "refused", "timed-out"};

}  // namespace

const char *status_name(Trial::Status status) { return names.at(status); }

Trial::Status parse_status(std::string_view name) {
    for (size_t status = 0; status < names.size(); status++) {
        if (name == names[status]) {
            return static_cast<Trial::Status>(status);
        }
    }
    const std::string near = nearest_name(name, {names.begin(), names.end()});
    throw Error(fmt::format("'{}' is not the status of a trial (ok, failed, refused, timed-out){}", name,
                            near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

}  // namespace atalla
