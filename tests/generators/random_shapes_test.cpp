// Every pointwise and data movement operator at random shapes on every kind of machine: each point is compared bit for bit with the
// naive program and within the stated error with float64, with guard values around all tensors.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generators/declared_operator.h"
#include "generators/evaluate.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "schedules/random.h"

namespace atalla {
namespace {

constexpr int rounds = ATALLA_TEST_ROUNDS;

constexpr int64_t sizes[] = {1, 2, 3, 5, 7, 8, 13, 31, 32, 33, 64, 65, 97, 128};

Shape random_shape(Random &random, size_t rank, int64_t most = 20'000) {
    for (;;) {
        Shape shape;
        int64_t elements = 1;
        for (size_t d = 0; d < rank; d++) {
            shape.push_back(sizes[random.below(std::size(sizes))]);
            elements *= shape.back();
        }
        if (elements <= most) return shape;
    }
}

std::string text_of(const std::vector<Shape> &shapes) {
    std::string text;
    for (const Shape &shape : shapes) {
        if (!text.empty()) text += ',';
        text += shape_text(shape);
    }
    return text;
}

void check(const std::string &op, const WorkloadArguments &arguments, const Machine &machine, Random &random) {
    std::string what = op + " on " + machine.name;
    for (const auto &[name, value] : arguments) what += fmt::format(", {} {}", name, value);
    try {
        const std::shared_ptr<const Workload> workload = find_operator(op).workload(arguments);
        const std::optional<Point> point = sample(workload->space(machine), random);
        ASSERT_TRUE(point) << what << ": the space is empty";
        const Evaluator evaluator(workload, machine, random.next() % 1000);
        const std::string wrong = evaluator.verify(*point);
        EXPECT_EQ(wrong, "") << what << " at " << point->assignments();
    } catch (const Error &error) {
        ADD_FAILURE() << what << ": " << error.what();
    }
}

class RandomShapes : public testing::TestWithParam<std::string> {
protected:
    Machine machine_ = find_machine(GetParam());
    Random random_{7};
};

TEST_P(RandomShapes, BroadcastPointwise) {
    const std::vector<std::string> operators = {"add", "mul", "sub", "maximum", "minimum", "add(x, mul(y, 0.5))", "relu(sub(x, y))"};
    for (int i = 0; i < 40; i++) {
        Shape x = random_shape(random_, 1 + random_.below(4)), y = x;
        // Each tensor lacks some dimensions.
        for (size_t d = 0; d < x.size(); d++) {
            if (random_.below(4) == 0) x[d] = 1;
            else if (random_.below(4) == 0) y[d] = 1;
        }
        while (!y.empty() && y.front() == 1 && random_.below(2) == 0) y.erase(y.begin());
        check(operators[random_.below(operators.size())], {{"shape", text_of({x, y})}}, machine_, random_);
    }
}

// All that the registry has, with operands that lack dimensions.
TEST_P(RandomShapes, EveryPointwiseOperator) {
    for (const Operator *op : operators()) {
        if (op->card().family != "pointwise") continue;
        const bool power = op->name() == "pow";   // its exponent is a number
        for (int i = 0; i < rounds; i++) {
            const Shape shape = random_shape(random_, random_.below(4), 8000);
            std::vector<Shape> shapes(power ? 1 : op->tensors().size(), shape);
            for (size_t t = 1; t < shapes.size(); t++)
                for (int64_t &extent : shapes[t])
                    if (random_.below(3) == 0) extent = 1;
            WorkloadArguments arguments = {{"shape", text_of(shapes)}};
            if (power) arguments["exponent"] = random_.below(2) == 0 ? "2" : "0.5";
            check(op->name(), arguments, machine_, random_);
        }
    }
}

TEST_P(RandomShapes, DataMovement) {
    constexpr int kinds = 9;
    for (int i = 0; i < kinds * std::max(5, rounds); i++) {
        const size_t rank = 1 + random_.below(4);
        Shape shape = random_shape(random_, rank);
        const auto dim = static_cast<size_t>(random_.below(rank));
        const auto number = [&](int64_t n) { return std::to_string(n); };
        const auto below = [&](int64_t n) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(n))); };
        WorkloadArguments arguments = {{"shape", text_of({shape})}};
        std::string op;
        switch (i % kinds) {
        case 0: {
            op = "permute";
            std::vector<std::string> order;
            for (size_t d = 0; d < rank; d++) order.insert(order.begin() + static_cast<ptrdiff_t>(random_.below(d + 1)), std::to_string(d));
            if (below(4) == 0) arguments["exact"] = "true";
            arguments["dims"] = fmt::format("[{}]", fmt::join(order, ","));
            break;
        }
        case 1: {
            op = "slice";
            // One element of each row would be single elements next to each other, which is refused.
            const int64_t least = dim + 1 == rank ? std::min<int64_t>(2, shape[dim]) : 1, start = below(shape[dim] - least + 1);
            arguments["dim"] = number(static_cast<int64_t>(dim));
            arguments["start"] = number(start);
            arguments["end"] = number(start + least + below(shape[dim] - start - least + 1));
            arguments["step"] = number(1 + below(3));
            break;
        }
        case 2:
            op = "select";
            if (shape.back() == 1) shape.back() = 9;   // else single elements next to each other
            arguments["shape"] = text_of({shape});
            arguments["dim"] = number(static_cast<int64_t>(dim));
            arguments["index"] = number(below(shape[dim]));
            break;
        case 3: {
            op = "cat";
            Shape other = shape;
            other[dim] = 1 + below(40);
            arguments["shape"] = text_of({shape, other, shape});
            arguments["dim"] = number(static_cast<int64_t>(dim));
            break;
        }
        case 4:
            op = "stack";
            arguments["shape"] = text_of({shape, shape});
            arguments["dim"] = number(static_cast<int64_t>(below(static_cast<int64_t>(rank))));
            break;
        case 5:
            op = "pad";
            arguments["pad"] = fmt::format("[{},{}]", below(4), below(4));
            if (rank > 1) arguments["pad"] = fmt::format("[{},{},{},{}]", below(3), below(3), below(3), below(3));
            arguments["value"] = "-1.5";
            break;
        case 6: {
            op = "expand";
            Shape one = shape, result = shape;
            one[dim] = 1;
            arguments["shape"] = text_of({one});
            result.insert(result.begin(), 1 + below(3));
            arguments["size"] = fmt::format("[{}]", fmt::join(result, ","));
            break;
        }
        case 7:
            op = "transpose";
            arguments["dim0"] = number(static_cast<int64_t>(dim));
            arguments["dim1"] = number(below(static_cast<int64_t>(rank)));
            break;
        default:
            op = "roll";
            arguments["shifts"] = fmt::format("[{}]", below(200) - 100);
            arguments["dims"] = fmt::format("[{}]", dim);
        }
        check(op, arguments, machine_, random_);
    }
}

INSTANTIATE_TEST_SUITE_P(Machines, RandomShapes, testing::Values("ax01", "fsim"), [](const auto &info) { return info.param; });

}  // namespace
}  // namespace atalla
