// Regression by a Gaussian process: a smooth function through a few measurements, with how far it can be trusted elsewhere.
#pragma once

#include <vector>

namespace atalla {

// Matern 5/2 kernel with one length for all coordinates and a constant mean. Exact, so meant for a few hundred points.
class GaussianProcess {
public:
    struct Prediction {
        double mean, deviation;
    };

    // Chooses length and amplitude by the likelihood of the values. `prior_deviation` is the amplitude while there are
    // fewer than three points, and its least. All points have the same number of coordinates, of the order of 1.
    GaussianProcess(std::vector<std::vector<double>> points, std::vector<double> values, double prior_deviation);

    Prediction predict(const std::vector<double> &point) const;
    // Takes its own prediction at a point for a measurement: the deviations around it shrink, the means stay.
    void believe(const std::vector<double> &point);

private:
    void factorize();
    double kernel(const std::vector<double> &one, const std::vector<double> &other) const;
    std::vector<double> solve_lower(std::vector<double> right) const;
    void solve();
    double log_likelihood() const;

    std::vector<std::vector<double>> points_;
    std::vector<double> values_;
    double mean_ = 0, amplitude_, length_;    // amplitude_: the variance far from all points
    std::vector<std::vector<double>> lower_;  // Cholesky factor of the kernel matrix over amplitude_
    std::vector<double> weights_;
};

}  // namespace atalla
