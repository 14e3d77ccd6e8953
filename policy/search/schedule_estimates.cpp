#include "policy/search/schedule_estimates.hpp"

namespace cudal1 {

std::shared_ptr<const device_data> known_gpus::of(const prompt& p) {
  if (!p.target->describes_work() || p.where.model.empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = by_model_.try_emplace(p.where.model);
  if (is_new)
    if (auto data = find_device_data(recorded_model(p.where.model)); data && *data)
      found->second = std::make_shared<const device_data>(std::move(**data));
  return found->second;
}

std::optional<double> estimated_us(const task& of, schedule_builder& b, const device_data& gpu) {
  const auto& made = b.lowering();
  if (!made) return std::nullopt;
  const auto checked = check_program(made->text);
  if (!checked) return std::nullopt;
  return compared_us(of, estimate_of(*checked, made->work, gpu));
}

}  // namespace cudal1
