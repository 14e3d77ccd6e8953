#include "tools/cli/report/floors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

expected<std::optional<device_data>> gpu_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  CUDAL1_TRY(auto found, find_device_data(name));
  if (found) return found;
  CUDAL1_TRY(const auto all, all_device_data());
  std::vector<std::string> known;
  for (const auto& one : all) {
    if (one.name == name) return one;
    known.push_back(one.name);
  }
  return fail(errc::not_found,
              "the specifications of the GPU \"{}\" are not known; known are {}. To add one: config/README.md, \"How "
              "to add a GPU\", and $CUDAL1_DEVICES",
              name, fmt::join(known, ", "));
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
