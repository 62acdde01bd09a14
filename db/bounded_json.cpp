#include "db/bounded_json.h"

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr int deepest = 32;

}  // namespace

nlohmann::json parse_bounded_json(std::string_view text) {
    const auto check_depth = [](int depth, nlohmann::json::parse_event_t, nlohmann::json &) {
        if (depth > deepest) {
            throw Error(fmt::format("JSON is nested more than {} deep", deepest));
        }
        return true;
    };
    try {
        return nlohmann::json::parse(text, check_depth);
    } catch (const nlohmann::json::exception &error) {
        throw Error(fmt::format("not JSON: {}", error.what()));
    }
}

}  // namespace atalla
