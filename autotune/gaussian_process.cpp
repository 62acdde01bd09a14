#include "autotune/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace atalla {

namespace {

// Tried for the length of the kernel, in units of the coordinates; the first while there is too little to choose by.
constexpr double lengths[] = {1.0, 0.35, 0.6, 1.7, 3.0};
// What two equal points may differ by, as a share of the variance: simulation is exact, coordinates do not say everything.
constexpr double noise = 1e-3;
constexpr size_t enough_to_choose = 3;

}  // namespace

GaussianProcess::GaussianProcess(std::vector<std::vector<double>> points, std::vector<double> values, double prior_deviation)
    : points_(std::move(points)),
      values_(std::move(values)),
      amplitude_(prior_deviation * prior_deviation),
      length_(lengths[0]) {
    const double count = static_cast<double>(values_.size());
    mean_ = values_.empty() ? 0 : std::accumulate(values_.begin(), values_.end(), 0.0) / count;
    double best = -INFINITY, best_length = length_;
    for (const double length : lengths) {
        length_ = length;
        if (values_.size() < enough_to_choose) {
            continue;
        }
        factorize();
        solve();
        if (const double likelihood = log_likelihood(); likelihood > best) {
            best = likelihood;
            best_length = length;
        }
    }
    length_ = best_length;
    factorize();
    solve();
    if (values_.size() >= enough_to_choose) {
        double square = 0;
        for (size_t i = 0; i < values_.size(); i++) {
            square += (values_[i] - mean_) * weights_[i];
        }
        amplitude_ = std::max(amplitude_ / 16, square / count);
    }
}

double GaussianProcess::kernel(const std::vector<double> &one, const std::vector<double> &other) const {
    double square = 0;
    for (size_t i = 0; i < one.size(); i++) {
        square += (one[i] - other[i]) * (one[i] - other[i]);
    }
    const double distance = std::sqrt(5 * square) / length_;
    return (1 + distance + distance * distance / 3) * std::exp(-distance);
}

void GaussianProcess::factorize() {
    const size_t n = points_.size();
    lower_.assign(n, {});
    for (size_t row = 0; row < n; row++) {
        lower_[row].resize(row + 1);
        for (size_t column = 0; column <= row; column++) {
            double sum = kernel(points_[row], points_[column]) + (row == column ? noise : 0);
            for (size_t k = 0; k < column; k++) {
                sum -= lower_[row][k] * lower_[column][k];
            }
            lower_[row][column] = row == column ? std::sqrt(std::max(sum, noise * noise)) : sum / lower_[column][column];
        }
    }
}

std::vector<double> GaussianProcess::solve_lower(std::vector<double> right) const {
    for (size_t row = 0; row < right.size(); row++) {
        for (size_t k = 0; k < row; k++) {
            right[row] -= lower_[row][k] * right[k];
        }
        right[row] /= lower_[row][row];
    }
    return right;
}

void GaussianProcess::solve() {
    std::vector<double> centred;
    for (const double value : values_) {
        centred.push_back(value - mean_);
    }
    weights_ = solve_lower(std::move(centred));
    for (size_t row = weights_.size(); row-- > 0;) {
        for (size_t k = row + 1; k < weights_.size(); k++) {
            weights_[row] -= lower_[k][row] * weights_[k];
        }
        weights_[row] /= lower_[row][row];
    }
}

// Of the values under the best amplitude for this length, up to a constant.
double GaussianProcess::log_likelihood() const {
    double square = 0, determinant = 0;
    for (size_t i = 0; i < values_.size(); i++) {
        square += (values_[i] - mean_) * weights_[i];
        determinant += std::log(lower_[i][i]);
    }
    const double count = static_cast<double>(values_.size());
    return -0.5 * count * std::log(std::max(square / count, 1e-12)) - determinant;
}

GaussianProcess::Prediction GaussianProcess::predict(const std::vector<double> &point) const {
    std::vector<double> covariance;
    covariance.reserve(points_.size());
    for (const std::vector<double> &known : points_) {
        covariance.push_back(kernel(point, known));
    }
    double mean = mean_;
    for (size_t i = 0; i < covariance.size(); i++) {
        mean += covariance[i] * weights_[i];
    }
    double left = 1;
    for (const double part : solve_lower(std::move(covariance))) {
        left -= part * part;
    }
    return {mean, std::sqrt(amplitude_ * std::max(left, 0.0))};
}

void GaussianProcess::believe(const std::vector<double> &point) {
    std::vector<double> covariance;
    for (const std::vector<double> &known : points_) {
        covariance.push_back(kernel(point, known));
    }
    double mean = mean_;
    for (size_t i = 0; i < covariance.size(); i++) {
        mean += covariance[i] * weights_[i];
    }
    std::vector<double> row = solve_lower(std::move(covariance));
    double left = 1 + noise;
    for (const double part : row) {
        left -= part * part;
    }
    row.push_back(std::sqrt(std::max(left, noise * noise)));
    points_.push_back(point);
    values_.push_back(mean);
    lower_.push_back(std::move(row));
    weights_.push_back(0);  // the mean does not change where it is believed
}

}  // namespace atalla
