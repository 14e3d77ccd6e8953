#include "sandbox/program/quantiles.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "sandbox/program/json_fields.hpp"

namespace cudal1 {

expected<std::vector<double>> read_quantiles(const json& v, const std::string& where) {
  constexpr std::size_t fewest = 2, most = 129;
  if (!v.is_array()) return wrong_json_kind(where, "an array of numbers", v);
  std::vector<double> out;
  for (const auto& item : v.as_array()) {
    if (!item.is_number()) return wrong_json_kind(where, "an array of numbers", item);
    out.push_back(item.as_number());
  }
  if (out.size() >= fewest && out.size() <= most && std::ranges::is_sorted(out) &&
      std::ranges::all_of(out, [](double q) { return std::isfinite(q); }))
    return out;
  return fail(errc::parse_error, "{}: should be {} to {} finite numbers in ascending order", where, fewest, most);
}

double quantile(std::span<const double> quantiles, double u) {
  const auto last = static_cast<double>(quantiles.size() - 1);
  const double k = last * std::acos(1 - 2 * std::clamp(u, 0.0, 1.0)) / std::numbers::pi;
  const double below = std::min(std::floor(k), last - 1);
  const auto i = static_cast<std::size_t>(below);
  return std::lerp(quantiles[i], quantiles[i + 1], k - below);
}

std::string quantiles_text(std::span<const double> quantiles) {
  return fmt::format("as recorded, {:.3g} to {:.3g} with a median of {:.3g}", quantiles.front(), quantiles.back(),
                     quantile(quantiles, 0.5));
}

}  // namespace cudal1
