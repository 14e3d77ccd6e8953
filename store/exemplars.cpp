#include "store/exemplars.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "config/base/hash.hpp"
#include "config/base/split_mix.hpp"

namespace cudal1 {

std::string environment_class(const environment& e) {
  constexpr std::size_t digits = 16;
  return sha256_hex(device_kind(e) + "\n" + e.model + "\n" + (e.libraries.empty() ? e.details : e.libraries))
      .substr(0, digits);
}

std::string device_kind(const environment& e) {
  return e.device.substr(0, e.device.find(':'));
}

int bucket_of(double score) {
  constexpr double most = 256;
  return static_cast<int>(std::floor(std::log(std::clamp(score, 1 / most, most)) / std::log(bucket_ratio)));
}

std::vector<double> bucket_probabilities(const std::vector<exemplar_list>& buckets, double temperature) {
  std::vector<double> weights;
  for (const auto& b : buckets)
    weights.push_back(b.sum / static_cast<double>(b.count));
  if (weights.empty()) return weights;
  // Softmax is the same for every shift: the mean's is left out for the largest's, so that nothing overflows.
  const double largest = *std::ranges::max_element(weights);
  for (auto& w : weights)
    w = std::exp((w - largest) / temperature);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (auto& w : weights)
    w /= sum;
  return weights;
}

namespace {

uint64_t next(uint64_t& random) {
  return split_mix(random += split_mix_step);
}

}  // namespace

uint64_t draw_below(uint64_t n, uint64_t& random) {
  // Numbers of an incomplete last round are drawn again.
  const uint64_t incomplete = (0 - n) % n;
  uint64_t drawn = next(random);
  while (drawn < incomplete)
    drawn = next(random);
  return drawn % n;
}

std::vector<std::size_t> draw_buckets(std::vector<exemplar_list> buckets, double temperature, std::size_t n,
                                      uint64_t& random) {
  std::vector<std::size_t> drawn, places(buckets.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  while (drawn.size() < n && !places.empty()) {
    const auto probabilities = bucket_probabilities(buckets, temperature);
    constexpr double unit = 1.0 / 9007199254740992.0;  // 2^-53
    double left = static_cast<double>(next(random) >> 11) * unit;
    std::size_t i = 0;
    while (i + 1 < places.size() && left >= probabilities[i])
      left -= probabilities[i++];
    drawn.push_back(places[i]);
    const auto at = static_cast<std::ptrdiff_t>(i);
    places.erase(places.begin() + at);
    buckets.erase(buckets.begin() + at);
  }
  return drawn;
}

// Floyd's algorithm: no draw is repeated, however many of the numbers are wanted.
std::vector<int64_t> draw_slots(int64_t count, std::size_t n, uint64_t& random) {
  std::vector<int64_t> drawn;
  const auto wanted = std::min(count, static_cast<int64_t>(n));
  for (int64_t last = count - wanted; last < count; ++last) {
    const auto one = static_cast<int64_t>(draw_below(static_cast<uint64_t>(last) + 1, random));
    drawn.push_back(std::ranges::count(drawn, one) == 0 ? one : last);
  }
  return drawn;
}

}  // namespace cudal1
