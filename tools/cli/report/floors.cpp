#include "tools/cli/report/floors.hpp"

#include <fmt/format.h>

#include "tools/cli/format.hpp"

namespace cudal1::cli {

expected<std::optional<roofline>> floor_finder::of(const task& t, const std::string& measured_or_replayed) {
  const std::string model = recorded_model(measured_or_replayed);
  auto known = devices_.find(model);
  if (known == devices_.end()) {
    CUDAL1_TRY(auto data, find_device_data(model));
    known = devices_.emplace(model, std::move(data)).first;
  }
  if (!known->second) return std::nullopt;
  return roofline_of(work_of(t), *known->second);
}

std::vector<std::string> floor_finder::unknown() const {
  std::vector<std::string> models;
  for (const auto& [model, data] : devices_)
    if (!data) models.push_back(model);
  return models;
}

std::string format_share(double roof_us, double device_us) {
  return roof_us > 0 && device_us > 0 ? fmt::format("{:.0f}%", 100 * roof_us / device_us) : "-";
}

std::string roof_phrase(const verdict& v, const std::optional<roofline>& roof) {
  if (!(v.score > 0)) return "";
  std::string text = format_speedup(v.score) + " the reference";
  if (!roof || !(v.variant_device_us > 0)) return text;
  return text + fmt::format(", {} of the {} roof ({})", format_share(roof->device_us(), v.variant_device_us),
                            roof->limit(), format_time(roof->device_us()));
}

}  // namespace cudal1::cli
