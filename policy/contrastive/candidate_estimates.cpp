#include "policy/contrastive/candidate_estimates.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <string>

#include "policy/estimate/program_estimate.hpp"

namespace cudal1 {

namespace {

// Deviations of logarithms: of an estimate's error, of what is common to all estimates of a task, of a measured score.
// The number of moves after which errors are alike by 1/e. Searches of a recorded space vary little with any of them.
constexpr double error_of_estimate = 0.3, common_error = 1, error_of_score = 0.02, alike_moves = 12;
constexpr double optimism = 0.5;    // deviations
constexpr float least_logit = -30;  // what is far slower by all that is known is still possible

std::vector<double> covariance_of(const candidate_set& of) {
  std::vector<std::set<std::string>> moves(of.size());
  for (std::size_t c = 0; c < of.size(); ++c)
    for (const auto& m : of.plan(c).moves)
      moves[c].insert(print_schedule({{m}}));
  std::vector<double> out;
  for (const auto& a : moves)
    for (const auto& b : moves) {
      std::vector<std::string> apart;
      std::ranges::set_symmetric_difference(a, b, std::back_inserter(apart));
      const double alike = std::exp(-static_cast<double>(apart.size()) / alike_moves);
      out.push_back(common_error * common_error + error_of_estimate * error_of_estimate * alike);
    }
  return out;
}

}  // namespace

candidate_estimates::candidate_estimates(const task& t, const candidate_set& candidates, const lowering_target& target,
                                         const device_data& gpu) {
  if (!target.describes_work()) return;
  constexpr double unknown = std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const auto estimate = estimate_of(t, candidates.plan(c), target, gpu);
    log_speed_.push_back(estimate ? -std::log(compared_us(t, *estimate)) : unknown);
  }
  if (log_speed_.empty()) return;
  const double slowest = *std::ranges::min_element(log_speed_);
  std::ranges::replace(log_speed_, unknown, std::isfinite(slowest) ? slowest : 0);
  covariance_ = covariance_of(candidates);
}

candidate_prior candidate_estimates::prior(double weight, std::span<const measured_candidate> measured) const {
  if (empty() || weight == 0) return {};
  std::vector<double> mean = log_speed_, covariance = covariance_;
  const std::size_t n = size();
  // Conditioned on one score after the other.
  for (const auto& m : measured) {
    if (!(m.score > 0)) continue;
    const std::vector<double> with(covariance.begin() + static_cast<std::ptrdiff_t>(m.candidate * n),
                                   covariance.begin() + static_cast<std::ptrdiff_t>((m.candidate + 1) * n));
    const double variance = with[m.candidate] + error_of_score * error_of_score;
    const double surprise = (std::log(m.score) - mean[m.candidate]) / variance;
    for (std::size_t a = 0; a < n; ++a) {
      mean[a] += with[a] * surprise;
      for (std::size_t b = 0; b < n; ++b)
        covariance[a * n + b] -= with[a] * with[b] / variance;
    }
  }
  for (std::size_t c = 0; c < n; ++c)
    mean[c] += optimism * std::sqrt(std::max(covariance[c * n + c], 0.0));
  const double most = *std::ranges::max_element(mean);
  std::vector<float> logits;
  for (const double each : mean)
    logits.push_back(std::max(least_logit, static_cast<float>(weight * (each - most))));
  return candidate_prior(std::move(logits));
}

}  // namespace cudal1
