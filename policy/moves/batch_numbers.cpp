#include "policy/moves/batch_numbers.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace cudal1 {

namespace {

constexpr int64_t k_most_divisor = 4096;

expected<json> joined(const std::vector<const json*>& values, std::span<const int64_t> sizes,
                      const std::string& place) {
  const json& first = *values.front();
  if (std::ranges::all_of(values, [&](const json* v) { return *v == first; })) return first;
  const auto differs = [&] {
    return fail(errc::unsupported, "{} is {} for a batch of {}, and {} for {}", place, first.text(), sizes.front(),
                values.back()->text(), sizes.back());
  };
  if (std::ranges::all_of(values, [](const json* v) { return v->is_int(); })) {
    std::vector<int64_t> numbers;
    for (const auto* v : values)
      numbers.push_back(v->as_int());
    const auto number = batch_number_of(sizes, numbers);
    if (!number || (number->divisor != 1 && place.find(".grid") == std::string::npos)) return differs();
    return json::make_object({{"$batch", json::make_array({number->scale, number->offset, number->divisor})}});
  }
  std::vector<const json*> inner(values.size());
  if (std::ranges::all_of(values, [&](const json* v) {
        return v->is_array() && first.is_array() && v->as_array().size() == first.as_array().size();
      })) {
    json made = json::make_array();
    for (std::size_t i = 0; i < first.as_array().size(); ++i) {
      std::ranges::transform(values, inner.begin(), [&](const json* v) { return &v->as_array()[i]; });
      CUDAL1_TRY(auto item, joined(inner, sizes, fmt::format("{}[{}]", place, i)));
      made.push_back(std::move(item));
    }
    return made;
  }
  if (!std::ranges::all_of(values, [](const json* v) { return v->is_object(); })) return differs();
  json made = json::make_object();
  for (const auto& [key, value] : first.as_object()) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      inner[k] = values[k]->find(key);
      if (inner[k] == nullptr || values[k]->as_object().size() != first.as_object().size()) return differs();
    }
    CUDAL1_TRY(auto item, joined(inner, sizes, place.empty() ? key : place + "." + key));
    made.set(key, std::move(item));
  }
  return made;
}

}  // namespace

std::optional<batch_number> batch_number_of(std::span<const int64_t> sizes, std::span<const int64_t> values) {
  const auto fits = [&](const batch_number& n) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (n.at(sizes[i]) != values[i]) return false;
    return true;
  };
  const int64_t rise = values.back() - values.front(), run = sizes.back() - sizes.front();
  if (rise % run == 0) {
    const batch_number linear{rise / run, values.front() - rise / run * sizes.front(), 1};
    if (fits(linear)) return linear;
  }
  if (std::ranges::any_of(values, [](int64_t v) { return v < 1; })) return std::nullopt;
  std::optional<batch_number> steepest;  // ceil(a * n) rises with a, so it is nowhere below the true one
  for (int64_t divisor = 2; divisor <= k_most_divisor; divisor += divisor < 64 ? 1 : divisor) {
    // (values[i] - 1) * divisor < scale * sizes[i] <= values[i] * divisor
    int64_t most = std::numeric_limits<int64_t>::max();
    for (std::size_t i = 0; i < sizes.size(); ++i)
      most = std::min(most, values[i] * divisor / sizes[i]);
    const batch_number found{most, divisor - 1, divisor};
    const bool is_steeper = !steepest || most * steepest->divisor > steepest->scale * divisor;
    if (most > 0 && is_steeper && fits(found)) steepest = found;
  }
  return steepest;
}

expected<json> joined_by_batch(const std::vector<json>& documents, std::span<const int64_t> sizes) {
  std::vector<const json*> all;
  for (const auto& d : documents)
    all.push_back(&d);
  return joined(all, sizes, "");
}

}  // namespace cudal1
