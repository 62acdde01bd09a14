// Regression by a Gaussian process.
#include "autotune/gaussian_process.h"

#include <gtest/gtest.h>

#include <cmath>

namespace atalla {
namespace {

double truth(double x, double y) { return std::sin(3 * x) + 0.5 * y * y; }

GaussianProcess grid(int n) {
    std::vector<std::vector<double>> points;
    std::vector<double> values;
    for (int i = 0; i <= n; i++) {
        for (int k = 0; k <= n; k++) {
            points.push_back({static_cast<double>(i) / n, static_cast<double>(k) / n});
            values.push_back(truth(points.back()[0], points.back()[1]));
        }
    }
    return {points, values, 0.2};
}

TEST(GaussianProcess, LearnsASmoothFunction) {
    const GaussianProcess process = grid(5);
    for (const double x : {0.1, 0.33, 0.77}) {
        for (const double y : {0.05, 0.5, 0.9}) {
            const auto [mean, deviation] = process.predict({x, y});
            EXPECT_NEAR(mean, truth(x, y), 0.02);
            EXPECT_LE(std::abs(mean - truth(x, y)), 4 * deviation + 1e-3);
        }
    }
}

TEST(GaussianProcess, KnowsWhereItKnowsNothing) {
    const GaussianProcess process = grid(3);
    EXPECT_LT(process.predict({1.0 / 3, 2.0 / 3}).deviation, 0.2 * process.predict({30, 30}).deviation);
    const GaussianProcess nothing({}, {}, 0.2);
    EXPECT_DOUBLE_EQ(nothing.predict({1, 2}).mean, 0);
    EXPECT_DOUBLE_EQ(nothing.predict({1, 2}).deviation, 0.2);
}

TEST(GaussianProcess, BelievingChangesTheDeviationAlone) {
    GaussianProcess process = grid(3);
    const std::vector<double> there = {1.6, 0.4}, near = {1.5, 0.4};
    const auto before = process.predict(near);
    const double mean = process.predict(there).mean;
    process.believe(there);
    EXPECT_NEAR(process.predict(near).mean, before.mean, 1e-9);
    EXPECT_NEAR(process.predict(there).mean, mean, 1e-9);
    EXPECT_LT(process.predict(near).deviation, before.deviation);
    EXPECT_LT(process.predict(there).deviation, 0.1 * before.deviation);
}

TEST(GaussianProcess, EqualPointsDoNoHarm) {
    const GaussianProcess process({{0, 0}, {0, 0}, {1, 1}, {1, 1}}, {1, 1, 2, 2}, 0.2);
    EXPECT_NEAR(process.predict({0, 0}).mean, 1, 0.01);
    EXPECT_NEAR(process.predict({1, 1}).mean, 2, 0.01);
}

}  // namespace
}  // namespace atalla
