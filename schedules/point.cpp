#include "schedules/point.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "isa/error.h"

namespace atalla {

namespace {

struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};

// The one copy of this name in the process.
std::string_view copy_of(std::string_view name) {
    static std::mutex mutex;
    static std::unordered_set<std::string, NameHash, std::equal_to<>> names;  // a node stays where it is
    const std::scoped_lock lock(mutex);
    const auto found = names.find(name);
    return found != names.end() ? *found : *names.emplace(name).first;
}

// The same, which a thread that has asked before finds without a lock.
std::string_view kept(std::string_view name) {
    thread_local std::unordered_set<std::string_view> names;
    const auto found = names.find(name);
    return found != names.end() ? *found : *names.insert(copy_of(name)).first;
}

std::string suggestion(std::string_view name, const Point::Values &values) {
    std::vector<std::string> names;
    for (const auto &[known, value] : values) {
        names.emplace_back(known);
    }
    const std::string near = nearest_name(name, names);
    return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

void check_name(std::string_view name) {
    if (!is_parameter_name(name)) {
        throw Error(fmt::format("{} is not the name of a parameter: letters, digits, '_' and '.' make one",
                                nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
    }
}

void set_once(Point &point, std::string_view name, int64_t value) {
    check_name(name);
    if (point.contains(name)) {
        throw Error(fmt::format("a point gives the parameter '{}' twice", name));
    }
    point.set(name, value);
}

Point parse_assignments(std::string_view text) {
    Point point;
    while (!text.empty()) {
        const std::string_view item = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), item.size() + 1));
        const size_t equals = item.find('=');
        int64_t value = 0;
        const char *end = item.data() + item.size();
        if (equals == std::string_view::npos || equals == 0 ||
            std::from_chars(item.data() + equals + 1, end, value) != std::from_chars_result{end, std::errc()}) {
            throw Error(fmt::format("'{}' in a point is not name=integer; write for example tile_m=4,tile_n=2", item));
        }
        set_once(point, item.substr(0, equals), value);
    }
    return point;
}

}  // namespace

bool is_parameter_name(std::string_view name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    });
}

Point::Point(std::initializer_list<PointValue> values) {
    for (const auto &[name, value] : values) {
        set(name, value);
    }
}

const int64_t *Point::find(std::string_view name) const {
    const auto found = std::ranges::find(values_, name, &PointValue::name);
    return found == values_.end() ? nullptr : &found->value;
}

int64_t Point::operator[](std::string_view name) const {
    const int64_t *found = find(name);
    if (!found) {
        throw Error(fmt::format("the point has no value for the parameter '{}'{}", name, suggestion(name, values_)));
    }
    return *found;
}

void Point::set(std::string_view name, int64_t value) {
    const auto at = std::ranges::lower_bound(values_, name, {}, &PointValue::name);
    if (at != values_.end() && at->name == name) {
        at->value = value;
    } else {
        values_.insert(at, {kept(name), value});
    }
}

void Point::erase(std::string_view name) {
    std::erase_if(values_, [&](const PointValue &one) { return one.name == name; });
}

int64_t choices_of(const Point &point) {
    const int64_t *choices = point.find(choices_parameter);
    return choices != nullptr ? *choices : 0;
}

Point Point::only(const std::vector<std::string> &names) const {
    Point some;
    for (const std::string &name : names) some.set(name, (*this)[name]);
    return some;
}

std::string Point::text() const { return nlohmann::json(*this).dump(); }

std::string Point::assignments() const {
    std::string result;
    for (const auto &[name, value] : values_) {
        result += fmt::format("{}{}={}", result.empty() ? "" : ",", name, value);
    }
    return result;
}

Point Point::parse(std::string_view text) {
    if (text.empty() || text.front() != '{') {
        return parse_assignments(text);
    }
    // nlohmann::json keeps the last of two equal keys; a point that contradicts itself must not pass. Nesting ends here
    // too: printing what is nested deeply, if only in a message, takes as much stack.
    std::vector<std::string> keys;
    const auto check = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json &parsed) {
        if (depth > 2) {
            throw Error("a point must be a JSON object of integers, without anything nested");
        }
        if (event == nlohmann::json::parse_event_t::key) {
            const std::string key = parsed.get<std::string>();
            if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
                throw Error(fmt::format("a point gives the parameter '{}' twice", key));
            }
            keys.push_back(key);
        }
        return true;
    };
    try {
        return nlohmann::json::parse(text, check).get<Point>();
    } catch (const nlohmann::json::exception &error) {
        throw Error(fmt::format("a point is not valid JSON: {}", error.what()));
    }
}

void to_json(nlohmann::json &json, const Point &point) {
    json = nlohmann::json::object();
    for (const auto &[name, value] : point.values()) {
        json[std::string(name)] = value;
    }
}

void from_json(const nlohmann::json &json, Point &point) {
    if (!json.is_object()) {
        throw Error(fmt::format("a point must be a JSON object of integers, not {}", json.type_name()));
    }
    point = Point();
    for (const auto &[name, value] : json.items()) {
        check_name(name);
        const bool fits =
            value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
        if (!fits) {
            throw Error(fmt::format("the parameter '{}' of a point is {}, not a 64-bit integer", name, value.dump()));
        }
        point.set(name, value.get<int64_t>());
    }
}

}  // namespace atalla
