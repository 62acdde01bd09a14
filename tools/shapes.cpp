#include "tools/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>

#include "isa/error.h"
#include "isa/read_file.h"

namespace atalla {

namespace {

using nlohmann::json;

constexpr int64_t largest_size = int64_t{1} << 32;

// An object of the file with the place it stands at, which every message begins with.
class Entry {
public:
    Entry(const json &object, std::string place, const std::vector<std::string> &keys)
        : object_(object), place_(std::move(place)) {
        if (!object.is_object()) {
            throw Error(fmt::format("{}: must be an object, not {}", place_, object.type_name()));
        }
        for (const auto &[key, value] : object.items()) {
            if (std::ranges::find(keys, key) == keys.end()) {
                const std::string nearest = nearest_name(key, keys);
                throw Error(fmt::format("{}: unknown key \"{}\"; {}", place_, key,
                                        nearest.empty() ? fmt::format("the keys are {}", fmt::join(keys, ", "))
                                                        : fmt::format("did you mean \"{}\"?", nearest)));
            }
        }
    }

    bool has(const char *key) const { return object_.contains(key); }

    const json &at(const char *key) const {
        if (!has(key)) {
            throw Error(fmt::format("{}: \"{}\" is missing", place_, key));
        }
        return object_[key];
    }

    std::string text(const char *key) const {
        const json &value = at(key);
        if (!value.is_string() || value.get_ref<const std::string &>().empty()) {
            fail(key, "a text that is not empty");
        }
        return value;
    }

    int64_t size(const char *key) const {
        const json &value = at(key);
        // Unsigned values above the signed range would turn negative.
        if (!value.is_number_integer() || value < 1 || value > largest_size) {
            fail(key, fmt::format("an integer from 1 to {}", largest_size));
        }
        return value;
    }

    bool flag(const char *key) const {
        if (!at(key).is_boolean()) {
            fail(key, "true or false");
        }
        return at(key);
    }

    [[noreturn]] void fail(const char *key, std::string_view wanted) const {
        const std::string found = object_[key].dump(-1, ' ', false, json::error_handler_t::replace);
        constexpr size_t longest = 40;
        throw Error(fmt::format("{}: \"{}\" must be {}, not {}", place_, key, wanted,
                                found.size() > longest ? found.substr(0, longest) + "..." : found));
    }

private:
    const json &object_;
    std::string place_;
};

ModelGemm read_gemm(const json &object, const std::string &place) {
    const Entry entry(object, place, {"name", "m", "n", "k", "count", "bias", "b"});
    ModelGemm gemm;
    gemm.name = entry.text("name");
    const Entry named(object, fmt::format("{} (\"{}\")", place, gemm.name), {"name", "m", "n", "k", "count", "bias", "b"});
    gemm.m = named.size("m");
    gemm.n = named.size("n");
    gemm.k = named.size("k");
    gemm.count = named.has("count") ? named.size("count") : 1;
    gemm.bias = named.has("bias") && named.flag("bias");
    if (named.has("b")) {
        const std::string layout = named.text("b");
        if (layout != "kn" && layout != "nk") {
            named.fail("b", "\"kn\" or \"nk\"");
        }
        gemm.b = layout == "kn" ? ModelGemm::Layout::KN : ModelGemm::Layout::NK;
    }
    return gemm;
}

json parse(const std::string &text, const std::string &name) {
    try {
        return json::parse(text);
    } catch (const json::parse_error &error) {
        const size_t before = std::min(text.size(), error.byte == 0 ? 0 : error.byte - 1);
        const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(before), '\n');
        std::string reason = error.what();
        // What nlohmann says after its own position: "syntax error while parsing object - ...".
        const size_t colon = reason.find(": ");
        throw Error(fmt::format("{}:{}: this is not JSON: {}", name, line,
                                colon == std::string::npos ? reason : reason.substr(colon + 2)));
    }
}

}  // namespace

ModelShapes parse_model_shapes(const std::string &text, const std::string &name) {
    const json file = parse(text, name);
    const Entry entry(file, name, {"model", "source", "gemms"});
    ModelShapes shapes{entry.text("model"), entry.text("source"), {}};
    const json &gemms = entry.at("gemms");
    if (!gemms.is_array() || gemms.empty()) {
        entry.fail("gemms", "a list of at least one product");
    }
    std::set<std::string> names;
    for (size_t index = 0; index < gemms.size(); index++) {
        const std::string place = fmt::format("{}: gemms[{}]", name, index);
        shapes.gemms.push_back(read_gemm(gemms[index], place));
        if (!names.insert(shapes.gemms.back().name).second) {
            throw Error(fmt::format("{}: the name \"{}\" is taken by an earlier product", place, shapes.gemms.back().name));
        }
    }
    return shapes;
}

ModelShapes read_model_shapes(const std::filesystem::path &file) {
    std::ostringstream text;
    text << open_to_read(file).rdbuf();
    return parse_model_shapes(text.str(), file.string());
}

std::vector<ModelGemm> read_shapes(const std::filesystem::path &file) { return read_model_shapes(file).gemms; }

}  // namespace atalla
