#include "policy/search/recorded_estimates.hpp"

#include <cmath>

#include "policy/estimate/program_estimate.hpp"

namespace cudal1 {

std::optional<double> estimated_device_us(const task& t, const std::string& plan, const lowering_target& target,
                                          const device_data& gpu) {
  const auto moves = parse_schedule(plan);
  if (!moves) return std::nullopt;
  const auto estimate = estimate_of(t, *moves, target, gpu);
  return estimate ? std::optional(estimate->device_us) : std::nullopt;
}

expected<std::vector<estimated_time>> estimated_times(const recorded_task& t, const device_data& gpu) {
  CUDAL1_TRY(const task what, read_task(t.text, "cuda"));
  CUDAL1_TRY(const lowering_target* target, find_lowering_target("cuda"));
  std::vector<estimated_time> out;
  for (const auto& c : t.candidates) {
    if (c.result != outcome::correct || c.variant_device_us <= 0) continue;
    if (const auto us = estimated_device_us(what, c.schedule, *target, gpu)) out.push_back({*us, c.variant_device_us});
  }
  return out;
}

expected<std::optional<estimated_task>> estimated(const recorded_task& t, const device_data& gpu) {
  CUDAL1_TRY(const auto times, estimated_times(t, gpu));
  if (times.size() < 2) return std::nullopt;
  estimated_task out{t.name, t.operators, std::ssize(times), rank_correlation(times), {}, {}};
  for (const std::size_t first : estimated_firsts) {
    out.by_estimate.push_back(share_by_estimate(times, first));
    out.by_chance.push_back(share_by_chance(times, first));
  }
  return out;
}

estimated_task mean_of(const std::vector<estimated_task>& tasks) {
  estimated_task out;
  out.by_estimate.assign(estimated_firsts.size(), 0);
  out.by_chance.assign(estimated_firsts.size(), 0);
  const auto count = static_cast<double>(tasks.size());
  for (const auto& t : tasks) {
    out.candidates += t.candidates;
    out.rank_correlation += t.rank_correlation / count;
    for (std::size_t i = 0; i < estimated_firsts.size(); ++i) {
      out.by_estimate[i] += std::log(t.by_estimate[i]) / count;
      out.by_chance[i] += std::log(t.by_chance[i]) / count;
    }
  }
  for (auto* shares : {&out.by_estimate, &out.by_chance})
    for (double& each : *shares)
      each = std::exp(each);
  return out;
}

}  // namespace cudal1
