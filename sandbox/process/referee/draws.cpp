#include "sandbox/process/referee/draws.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <boost/random/normal_distribution.hpp>

namespace cudal1 {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014).
class generator {
 public:
  using result_type = uint64_t;
  explicit generator(uint64_t seed) : state_(seed) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }
  uint64_t operator()() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() { return normal_(*this); }
  int64_t below(int64_t bound) {
    return bound > 0 ? static_cast<int64_t>((*this)() % static_cast<uint64_t>(bound)) : 0;
  }

 private:
  uint64_t state_;
  boost::random::normal_distribution<double> normal_;
};

struct row_shape {
  int64_t rows = 1, width = 1;
};
row_shape rows_of(const tensor_type& type) {
  const int64_t width = type.shape.empty() ? 1 : std::max<int64_t>(type.shape.back(), 1);
  return {type.numel() / width, width};
}

void draw_declared(const draw_spec& spec, generator& random, std::vector<double>& values) {
  switch (spec.kind) {
    case distribution::uniform:
      for (double& v : values)
        v = spec.low + (spec.high - spec.low) * random.uniform();
      break;
    case distribution::normal:
      for (double& v : values)
        v = spec.mean + spec.std * random.normal();
      break;
    case distribution::integer:
      for (double& v : values)
        v = spec.low + static_cast<double>(random.below(static_cast<int64_t>(spec.high - spec.low)));
      break;
    case distribution::bernoulli:
      for (double& v : values)
        v = random.uniform() < spec.probability ? 1 : 0;
      break;
  }
}

void draw_kind_of(draw_kind kind, row_shape shape, generator& random, std::vector<double>& values) {
  double scale = 1, offset = 0;
  const auto width = static_cast<std::size_t>(shape.width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (kind == draw_kind::offset_rows && i % width == 0) {
      scale = std::exp(random.normal());
      offset = 5 * random.normal();
    }
    const double n = random.normal();
    switch (kind) {
      case draw_kind::wide_normal:
        values[i] = 10 * n;
        break;
      case draw_kind::around_one:
        values[i] = 1 + 0.01 * n;
        break;
      case draw_kind::heavy_tails:
        values[i] = n / std::sqrt(-std::log1p(-random.uniform()) + 1e-12);  // Student's t, two degrees of freedom
        break;
      case draw_kind::offset_rows:
        values[i] = offset + scale * n;
        break;
      case draw_kind::products:
        values[i] = std::exp(0.05 * n) * (random.uniform() < 0.5 ? -1 : 1);
        break;
      default:
        values[i] = n;
    }
  }
  if (kind == draw_kind::peaked)
    for (int64_t row = 0; row < shape.rows; ++row)
      values[static_cast<std::size_t>(row * shape.width + random.below(shape.width))] += 20;
}

void draw_weight(const draw_spec& spec, generator& random, std::vector<double>& values) {
  const bool uniform = spec.kind == distribution::uniform;
  const double mean = uniform ? (spec.low + spec.high) / 2 : spec.mean;
  double deviation = uniform ? (spec.high - spec.low) / std::sqrt(12.0) : spec.std;
  if (!(deviation > 0)) deviation = 0.5;
  for (double& v : values)
    v = mean + deviation * random.normal();
}

// Reflected at the domain's ends, so that nothing piles up there.
double fold(double v, const std::optional<double>& low, const std::optional<double>& high) {
  if (low && high) {
    const double span = *high - *low;
    if (!(span > 0)) return *low;
    double at = std::fmod(std::abs(v - *low), 2 * span);
    if (at > span) at = 2 * span - at;
    return *low + at;
  }
  if (low && v < *low) return *low + (*low - v);
  if (high && v > *high) return *high - (v - *high);
  return v;
}

void keep_triangle(const tensor_type& type, std::vector<double>& values, auto&& kept) {
  if (type.dim() < 2) return;
  const int64_t columns = type.shape.back();
  const int64_t rows = type.shape[type.shape.size() - 2];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto flat = static_cast<int64_t>(i);
    if (!kept((flat / columns) % rows, flat % columns)) values[i] = 0;
  }
}

void make_symmetric(const tensor_type& type, std::vector<double>& values) {
  if (type.dim() < 2 || type.shape.back() != type.shape[type.shape.size() - 2]) return;
  const int64_t n = type.shape.back();
  for (std::size_t matrix = 0; matrix < values.size(); matrix += static_cast<std::size_t>(n * n))
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c < r; ++c)
        values[matrix + static_cast<std::size_t>(r * n + c)] = values[matrix + static_cast<std::size_t>(c * n + r)];
}

void make_one_hot(row_shape shape, generator& random, std::vector<double>& values) {
  std::ranges::fill(values, 0.0);
  for (int64_t row = 0; row < shape.rows; ++row)
    values[static_cast<std::size_t>(row * shape.width + random.below(shape.width))] = 1;
}

void keep_fact(fact f, const tensor_type& type, generator& random, std::vector<double>& values) {
  switch (f) {
    case fact::diagonal:
      return keep_triangle(type, values, [](int64_t r, int64_t c) { return r == c; });
    case fact::upper_triangular:
      return keep_triangle(type, values, [](int64_t r, int64_t c) { return r <= c; });
    case fact::lower_triangular:
      return keep_triangle(type, values, [](int64_t r, int64_t c) { return r >= c; });
    case fact::symmetric:
      return make_symmetric(type, values);
    case fact::one_hot:
      return make_one_hot(rows_of(type), random, values);
    case fact::non_negative:
      for (double& v : values)
        v = std::abs(v);
  }
}

}  // namespace

std::vector<double> draw_values(const tensor_type& type, const input_spec& spec, tensor_role role, draw_kind kind,
                                uint64_t seed) {
  generator random(seed);
  std::vector<double> values(static_cast<std::size_t>(type.numel()));
  if (values.empty()) return values;
  const bool continuous =
      is_floating(type.type) && (spec.draw.kind == distribution::uniform || spec.draw.kind == distribution::normal);
  if (kind == draw_kind::declared || !continuous)
    draw_declared(spec.draw, random, values);
  else if (role == tensor_role::weight)
    draw_weight(spec.draw, random, values);
  else
    draw_kind_of(kind, rows_of(type), random, values);
  if (continuous && (spec.draw.min || spec.draw.max))
    for (double& v : values)
      v = fold(v, spec.draw.min, spec.draw.max);
  for (const fact f : spec.facts)
    keep_fact(f, type, random, values);
  return values;
}

uint64_t system_seed() {
  std::random_device device;
  uint64_t seed = 0;
  while (seed == 0)
    seed = (static_cast<uint64_t>(device()) << 32) | device();
  return seed;
}

}  // namespace cudal1
