#include "schedules/space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <set>
#include <unordered_set>

#include "isa/error.h"

namespace atalla {

namespace {

// Uniform draws that are thrown away before a random descent takes over, see sample().
constexpr int uniform_tries = 4096;
// Where a point takes more uniform draws than this, once so many points were looked for, sample_distinct() descends for the
// rest: it takes many points, and each draw asks constraints that may be slow.
constexpr size_t draws_a_point = 64, judged_points = 64;
// Spaces up to this size are enumerated when a sample of different points is wanted, and those with at most so many points for
// each that is wanted: a point that is enumerated costs a fraction of one that is drawn, and draws repeat.
constexpr uint64_t small_space = 8192, enumerated_a_point = 4;

std::vector<std::string> names_of(const Space &space) {
    std::vector<std::string> names;
    for (const Parameter &parameter : space.parameters) {
        names.push_back(parameter.name);
    }
    return names;
}

std::string did_you_mean(std::string_view name, const Space &space) {
    const std::string near = nearest_name(name, names_of(space));
    return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

// Assigns the parameters one after the other; a constraint is due at the parameter that completes it.
class Assignment {
public:
    explicit Assignment(const Space &space) : space_(space), due_(space.parameters.size()) {
        check_space(space);
        for (const Constraint &constraint : space.constraints) {
            size_t last = 0;
            for (size_t level = 0; level < space.parameters.size(); level++) {
                const auto &names = constraint.parameters;
                if (std::find(names.begin(), names.end(), space.parameters[level].name) != names.end()) {
                    last = level;
                }
            }
            due_[last].push_back(&constraint);
        }
    }

    size_t levels() const { return space_.parameters.size(); }
    const std::vector<int64_t> &values(size_t level) const { return space_.parameters[level].values; }
    const Point &point() const { return point_; }

    // Gives the parameter of this level a value; false if a constraint that is now complete forbids it.
    bool assign(size_t level, int64_t value) {
        if (space_.pulse) space_.pulse();
        point_.set(space_.parameters[level].name, value);
        return std::all_of(due_[level].begin(), due_[level].end(),
                           [&](const Constraint *constraint) { return constraint->holds(point_); });
    }
    void unassign(size_t level) { point_.erase(space_.parameters[level].name); }
    void clear() { point_ = {}; }

private:
    const Space &space_;
    std::vector<std::vector<const Constraint *>> due_;
    Point point_;
};

bool visit_all(Assignment &assignment, size_t level, const std::function<bool(const Point &)> &visit) {
    if (level == assignment.levels()) {
        return visit(assignment.point());
    }
    for (const int64_t value : assignment.values(level)) {
        if (assignment.assign(level, value) && !visit_all(assignment, level + 1, visit)) {
            return false;
        }
    }
    assignment.unassign(level);
    return true;
}

bool descend_at_random(Assignment &assignment, size_t level, Random &random) {
    if (level == assignment.levels()) {
        return true;
    }
    std::vector<int64_t> values = assignment.values(level);
    random.shuffle(values);
    for (const int64_t value : values) {
        if (assignment.assign(level, value) && descend_at_random(assignment, level + 1, random)) {
            return true;
        }
    }
    assignment.unassign(level);
    return false;
}

bool draw_uniformly(Assignment &assignment, Random &random) {
    for (size_t level = 0; level < assignment.levels(); level++) {
        const std::vector<int64_t> &values = assignment.values(level);
        if (!assignment.assign(level, values[random.below(values.size())])) {
            for (size_t assigned = 0; assigned <= level; assigned++) {
                assignment.unassign(assigned);
            }
            return false;
        }
    }
    return true;
}

bool admits(const Space &space, const Point &point) {
    return std::all_of(space.constraints.begin(), space.constraints.end(),
                       [&](const Constraint &constraint) { return constraint.holds(point); });
}

// The values one move away, nearest first, down before up.
std::vector<std::vector<int64_t>> directions(const Parameter &parameter, int64_t current) {
    const auto &values = parameter.values;
    const auto at = std::find(values.begin(), values.end(), current);
    if (parameter.choice) {
        std::vector<std::vector<int64_t>> others;
        for (const int64_t value : values) {
            if (value != current) {
                others.push_back({value});
            }
        }
        return others;
    }
    return {std::vector<int64_t>(std::make_reverse_iterator(at), values.rend()), std::vector<int64_t>(at + 1, values.end())};
}

}  // namespace

std::vector<int64_t> divisors(int64_t n, int64_t most) {
    std::vector<int64_t> values;
    for (int64_t v = 1; v <= std::min(n, most); v++)
        if (n % v == 0) values.push_back(v);
    return values;
}

Space &Space::parameter(std::string name, std::string meaning, std::vector<int64_t> values) {
    parameters.push_back({std::move(name), std::move(meaning), std::move(values), false});
    return *this;
}

Space &Space::choice(std::string name, std::string meaning, std::vector<int64_t> values) {
    parameters.push_back({std::move(name), std::move(meaning), std::move(values), true});
    return *this;
}

Space &Space::constraint(std::string name, std::vector<std::string> names, std::string protects,
                         std::function<bool(const Point &)> holds) {
    constraints.push_back({std::move(name), std::move(names), std::move(protects), std::move(holds)});
    return *this;
}

const Parameter &Space::find(std::string_view name) const {
    for (const Parameter &candidate : parameters) {
        if (candidate.name == name) {
            return candidate;
        }
    }
    throw Error(fmt::format("the schedule space has no parameter '{}'{}", name, did_you_mean(name, *this)));
}

void check_space(const Space &space) {
    std::set<std::string> names;
    for (const Parameter &parameter : space.parameters) {
        if (!is_parameter_name(parameter.name)) {
            throw Error(
                fmt::format("'{}' is not the name of a parameter: letters, digits, '_' and '.' make one", parameter.name));
        }
        if (!names.insert(parameter.name).second) {
            throw Error(fmt::format("the schedule space has two parameters '{}'", parameter.name));
        }
        if (parameter.values.empty()) {
            throw Error(fmt::format("the parameter '{}' of the schedule space has no values", parameter.name));
        }
        std::set<int64_t> seen;
        for (const int64_t value : parameter.values) {
            if (!seen.insert(value).second) {
                throw Error(fmt::format("the parameter '{}' of the schedule space lists {} twice", parameter.name, value));
            }
        }
    }
    for (const Constraint &constraint : space.constraints) {
        if (constraint.parameters.empty() || !constraint.holds) {
            throw Error(
                fmt::format("the constraint '{}' needs a predicate and the parameters that it is about", constraint.name));
        }
        for (const std::string &name : constraint.parameters) {
            if (!names.contains(name)) {
                throw Error(fmt::format("the constraint '{}' is about an unknown parameter '{}'{}", constraint.name, name,
                                        did_you_mean(name, space)));
            }
        }
    }
}

bool for_each(const Space &space, const std::function<bool(const Point &)> &visit) {
    Assignment assignment(space);
    return visit_all(assignment, 0, visit);
}

uint64_t count(const Space &space, uint64_t limit) {
    uint64_t points = 0;
    if (limit > 0) {
        for_each(space, [&](const Point &) { return ++points < limit; });
    }
    return points;
}

std::string why_empty(const Space &space) {
    std::vector<std::string> reasons;
    for (size_t i = 0; i < space.constraints.size(); i++) {
        Space rest = space;
        rest.constraints.erase(rest.constraints.begin() + static_cast<std::ptrdiff_t>(i));
        if (count(rest, 1) > 0) {
            reasons.push_back(fmt::format("'{}': {}", space.constraints[i].name, space.constraints[i].protects));
        }
    }
    // The sentences become one.
    for (size_t i = 0; i + 1 < reasons.size(); i++)
        if (reasons[i].ends_with('.')) reasons[i].back() = ';';
    return reasons.empty() ? "the constraints of its space contradict each other"
                           : fmt::format("each point of its space violates the constraint {}", fmt::join(reasons, " or "));
}

std::optional<Point> sample(const Space &space, Random &random) {
    Assignment assignment(space);
    for (int attempt = 0; attempt < uniform_tries; attempt++) {
        if (draw_uniformly(assignment, random)) {
            return assignment.point();
        }
    }
    if (descend_at_random(assignment, 0, random)) {
        return assignment.point();
    }
    return std::nullopt;
}

std::vector<Point> sample_distinct(const Space &space, size_t n, Random &random) {
    const uint64_t limit = std::max<uint64_t>(small_space, enumerated_a_point * n), all = count(space, limit);
    std::vector<Point> points;
    if (all < limit) {
        uint64_t left = all;
        for_each(space, [&](const Point &point) {
            const uint64_t wanted = n - points.size();
            if (wanted >= left || random.below(left) < wanted) points.push_back(point);
            left--;
            return points.size() < n;
        });
        random.shuffle(points);
        return points;
    }
    std::unordered_set<std::string> seen;
    const auto take = [&](const Point &point) {
        if (points.size() < n && seen.insert(point.text()).second) {
            points.push_back(point);
        }
    };
    Assignment assignment(space);
    size_t sampled = 0;
    for (size_t draws = 0; sampled < 16 * n && points.size() < n && draws < draws_a_point * (sampled + judged_points);
         draws++) {
        if (draw_uniformly(assignment, random)) {
            take(assignment.point());
            assignment.clear();
            sampled++;
        }
    }
    for (; sampled < 16 * n && points.size() < n && descend_at_random(assignment, 0, random); sampled++) {
        take(assignment.point());
        assignment.clear();
    }
    // Only where a random descent keeps ending at the same points.
    for_each(space, [&](const Point &point) {
        take(point);
        return points.size() < n;
    });
    return points;
}

std::vector<Point> neighbours(const Space &space, const Point &point, int steps) {
    const std::string wrong = violation(space, point);
    if (!wrong.empty()) {
        throw Error("neighbours are defined for valid points: " + wrong);
    }
    std::vector<Point> found;
    std::set<Point> seen{point};
    const auto take = [&](const Point &candidate) {
        const bool valid = admits(space, candidate);
        if (valid && seen.insert(candidate).second) {
            found.push_back(candidate);
        }
        return valid;
    };
    for (const Parameter &parameter : space.parameters) {
        for (const auto &values : directions(parameter, point[parameter.name])) {
            Point candidate = point;
            for (const int64_t value : values) {
                candidate.set(parameter.name, value);
                if (take(candidate)) {
                    break;
                }
            }
        }
    }
    if (steps < 2) {
        return found;
    }
    for (size_t one = 0; one < space.parameters.size(); one++) {
        for (size_t other = one + 1; other < space.parameters.size(); other++) {
            const Parameter &first = space.parameters[one], &second = space.parameters[other];
            for (const auto &moved : directions(first, point[first.name])) {
                for (const auto &moved_too : directions(second, point[second.name])) {
                    if (!moved.empty() && !moved_too.empty()) {
                        Point candidate = point;
                        candidate.set(first.name, moved.front());
                        candidate.set(second.name, moved_too.front());
                        take(candidate);
                    }
                }
            }
        }
    }
    return found;
}

std::string violation(const Space &space, const Point &point) {
    check_space(space);
    for (const Parameter &parameter : space.parameters) {
        if (!point.contains(parameter.name)) {
            return fmt::format("the point has no value for the parameter '{}' ({})", parameter.name, parameter.meaning);
        }
        const int64_t value = point[parameter.name];
        if (std::find(parameter.values.begin(), parameter.values.end(), value) == parameter.values.end()) {
            return fmt::format("{} = {} is not one of the values {}", parameter.name, value, fmt::join(parameter.values, ", "));
        }
    }
    const std::vector<std::string> names = names_of(space);
    for (const auto &[name, value] : point.values()) {
        if (name != choices_parameter && std::find(names.begin(), names.end(), name) == names.end()) {
            return fmt::format("the schedule space has no parameter '{}'{}", name, did_you_mean(name, space));
        }
    }
    for (const Constraint &constraint : space.constraints) {
        if (!constraint.holds(point)) {
            std::vector<std::string> values;
            for (const std::string &name : constraint.parameters) {
                values.push_back(fmt::format("{} = {}", name, point[name]));
            }
            return fmt::format("{} violates the constraint '{}': {}", fmt::join(values, ", "), constraint.name,
                               constraint.protects);
        }
    }
    return "";
}

Space restrict_to(const Space &space, const Point &fixed) {
    Space result = space;
    for (const auto &[name, value] : fixed.values()) {
        const Parameter &parameter = space.find(name);
        if (std::find(parameter.values.begin(), parameter.values.end(), value) == parameter.values.end()) {
            throw Error(fmt::format("{} = {} is not one of the values {}", name, value, fmt::join(parameter.values, ", ")));
        }
        result.parameters[&parameter - space.parameters.data()].values = {value};
    }
    return result;
}

std::string describe(const Space &space) {
    check_space(space);
    size_t name_width = 0, value_width = 0;
    std::vector<std::string> values;
    for (const Parameter &parameter : space.parameters) {
        values.push_back(fmt::format("{}", fmt::join(parameter.values, " ")));
        name_width = std::max(name_width, parameter.name.size());
        value_width = std::max(value_width, values.back().size());
    }
    std::string text = "parameters:\n";
    for (size_t i = 0; i < values.size(); i++) {
        const Parameter &parameter = space.parameters[i];
        text += fmt::format("  {:<{}}  {:<{}}  {}{}\n", parameter.name, name_width, values[i], value_width, parameter.meaning,
                            parameter.choice ? " (a choice)" : "");
    }
    if (!space.constraints.empty()) {
        text += "constraints:\n";
    }
    for (const Constraint &constraint : space.constraints) {
        text += fmt::format("  {} ({}): {}\n", constraint.name, fmt::join(constraint.parameters, ", "), constraint.protects);
    }
    return text;
}

}  // namespace atalla
