#include "sandbox/referee/draws.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "sandbox/referee/elements.hpp"
#include "sandbox/referee/outliers.hpp"
#include "sandbox/referee/random_blocks.hpp"

namespace cudal1 {
namespace {

struct row_shape {
  int64_t rows = 1, width = 1;
};
row_shape rows_of(const tensor_type& type) {
  const int64_t width = type.shape.empty() ? 1 : std::max<int64_t>(type.shape.back(), 1);
  return {type.numel() / width, width};
}

void draw_declared(const draw_spec& spec, random_blocks& random, std::span<double> values) {
  switch (spec.kind) {
    case distribution::uniform:
      random.uniforms(values);
      for (double& v : values)
        v = spec.low + (spec.high - spec.low) * v;
      break;
    case distribution::normal:
      random.normals(values);
      for (double& v : values)
        v = spec.mean + spec.std * v;
      break;
    case distribution::integer:
      for (double& v : values)
        v = spec.low + static_cast<double>(random.below(static_cast<int64_t>(spec.high - spec.low)));
      break;
    case distribution::bernoulli:
      random.uniforms(values);
      for (double& v : values)
        v = v < spec.probability ? 1 : 0;
      break;
    case distribution::signs:
      random.uniforms(values);
      for (double& v : values)
        v = v < 0.5 ? -1 : 1;
      break;
    case distribution::simplex:  // what its rows are a softmax of
      random.normals(values);
      break;
    case distribution::constant:
      std::ranges::fill(values, spec.value);
      break;
  }
}

void draw_weight(const draw_spec& spec, random_blocks& random, std::span<double> values) {
  const bool uniform = spec.kind == distribution::uniform;
  const double mean = uniform ? (spec.low + spec.high) / 2 : spec.mean;
  double deviation = uniform ? (spec.high - spec.low) / std::sqrt(12.0) : spec.std;
  if (!(deviation > 0)) deviation = 0.5;
  random.normals(values);
  for (double& v : values)
    v = mean + deviation * v;
}

// Reflected at the domain's ends, so that nothing piles up there.
double fold(double v, const std::optional<double>& low, const std::optional<double>& high) {
  if ((!low || v >= *low) && (!high || v <= *high)) return v;
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

void make_one_hot(row_shape shape, random_blocks& random, std::vector<double>& values) {
  std::ranges::fill(values, 0.0);
  for (int64_t row = 0; row < shape.rows; ++row)
    values[static_cast<std::size_t>(row * shape.width + random.below(shape.width))] = 1;
}

void keep_fact(fact f, const tensor_type& type, random_blocks& random, std::vector<double>& values) {
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

void make_simplex(row_shape shape, double least, std::vector<double>& values) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    const auto part =
        std::span(values).subspan(static_cast<std::size_t>(row * shape.width), static_cast<std::size_t>(shape.width));
    const double largest = *std::ranges::max_element(part);
    double sum = 0;
    for (double& v : part)
      sum += v = std::exp(v - largest);
    for (double& v : part)
      v = std::max(v / sum, least);
  }
}

// The elements of one tensor in row-major order, a block at a time; what its facts say of them comes later.
class element_source {
 public:
  element_source(const tensor_type& type, const input_spec& spec, tensor_role role, draw_kind kind, uint64_t seed,
                 const std::byte* content)
      : spec_(spec),
        type_(type.type),
        role_(role),
        kind_(kind),
        content_(content),
        width_(rows_of(type).width),
        random_(seed) {
    const distribution d = spec.draw.kind;
    continuous_ = is_floating(type.type) &&
                  (d == distribution::uniform || d == distribution::normal || d == distribution::simplex);
    if (kind == draw_kind::outliers) outliers_ = outliers_of(type, spec, seed);
  }

  random_blocks& random() { return random_; }

  void next(std::span<double> values) {
    const bool declared = kind_ == draw_kind::declared || kind_ == draw_kind::outliers;
    if (declared && content_ != nullptr)
      load_elements(type_, content_, first_, static_cast<int64_t>(values.size()), values.data());
    else if (declared || !continuous_)
      draw_declared(spec_.draw, random_, values);
    else if (role_ == tensor_role::weight)
      draw_weight(spec_.draw, random_, values);
    else
      draw_kind_of(values);
    put_outliers(values);
    if (continuous_ && (spec_.draw.min || spec_.draw.max))
      for (double& v : values)
        v = fold(v, spec_.draw.min, spec_.draw.max);
  }

 private:
  void draw_kind_of(std::span<double> values) {
    std::array<double, random_blocks::block> more;
    random_.normals(values);
    switch (kind_) {
      case draw_kind::wide_normal:
        for (double& v : values)
          v *= 10;
        break;
      case draw_kind::around_one:
        for (double& v : values)
          v = 1 + 0.01 * v;
        break;
      case draw_kind::heavy_tails:  // Student's t, two degrees of freedom
        random_.exponentials(std::span(more).first(values.size()));
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] /= std::sqrt(more[i] + 1e-12);
        break;
      case draw_kind::products:
        for (double& v : values)
          v *= 0.05;
        small_exponentials(values);
        random_.uniforms(std::span(more).first(values.size()));
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = more[i] < 0.5 ? -values[i] : values[i];
        break;
      case draw_kind::offset_rows:
      case draw_kind::peaked:
        by_rows(values);
        break;
      default:
        break;
    }
  }

  void put_outliers(std::span<double> values) {
    const auto end = first_ + static_cast<int64_t>(values.size());
    for (; next_outlier_ < outliers_.size() && outliers_[next_outlier_].place < end; ++next_outlier_)
      values[static_cast<std::size_t>(outliers_[next_outlier_].place - first_)] = outliers_[next_outlier_].value;
    first_ = end;
  }

  // A row may begin in one block and end in another.
  void by_rows(std::span<double> values) {
    for (std::size_t i = 0; i < values.size();) {
      if (column_ == 0 && kind_ == draw_kind::offset_rows) {
        scale_ = std::exp(random_.normal());
        offset_ = 5 * random_.normal();
      }
      if (column_ == 0 && kind_ == draw_kind::peaked) peak_ = random_.below(width_);
      const auto part = std::min(values.size() - i, static_cast<std::size_t>(width_ - column_));
      if (kind_ == draw_kind::offset_rows)
        for (double& v : values.subspan(i, part))
          v = offset_ + scale_ * v;
      else if (peak_ >= column_ && peak_ < column_ + static_cast<int64_t>(part))
        values[i + static_cast<std::size_t>(peak_ - column_)] += 20;
      i += part;
      column_ = (column_ + static_cast<int64_t>(part)) % width_;
    }
  }

  const input_spec& spec_;
  dtype type_;
  tensor_role role_;
  draw_kind kind_;
  const std::byte* content_;
  int64_t width_;
  bool continuous_ = false;
  random_blocks random_;
  int64_t column_ = 0, peak_ = 0;  // of the row that comes next or goes on
  double scale_ = 1, offset_ = 0;
  std::vector<outlier> outliers_;
  std::size_t next_outlier_ = 0;
  int64_t first_ = 0;  // flat index of the values that come next
};

}  // namespace

double least_of_simplex(dtype type) {
  return type == dtype::float16 ? 0x1p-14 : 0x1p-100;
}

bool keeps_content(const tensor_type& type, const input_spec& spec, draw_kind kind, uint64_t seed) {
  if (!spec.content) return false;
  if (spec.content->fixed || kind == draw_kind::declared) return true;
  // (A simplex that has an outlier is none.)
  return kind == draw_kind::outliers &&
         (spec.draw.kind == distribution::simplex || outliers_of(type, spec, seed).empty());
}

std::vector<double> draw_values(const tensor_type& type, const input_spec& spec, tensor_role role, draw_kind kind,
                                uint64_t seed, const std::byte* content) {
  std::vector<double> values(static_cast<std::size_t>(type.numel()));
  if (content != nullptr && keeps_content(type, spec, kind, seed)) {
    load_elements(type.type, content, 0, type.numel(), values.data());
    return values;
  }
  element_source source(type, spec, role, kind, seed, content);
  for (std::size_t first = 0; first < values.size(); first += random_blocks::block)
    source.next(std::span(values).subspan(first, std::min(random_blocks::block, values.size() - first)));
  if (values.empty()) return values;
  if (spec.draw.kind == distribution::simplex) make_simplex(rows_of(type), least_of_simplex(type.type), values);
  for (const fact f : spec.facts)
    keep_fact(f, type, source.random(), values);
  return values;
}

void draw_tensor(const tensor_type& type, const input_spec& spec, tensor_role role, draw_kind kind, uint64_t seed,
                 std::byte* flat, const std::byte* content) {
  const int64_t count = type.numel();
  if (content != nullptr && keeps_content(type, spec, kind, seed)) {
    std::memcpy(flat, content, static_cast<std::size_t>(type.bytes()));
    return;
  }
  if (!spec.facts.empty() || spec.draw.kind == distribution::simplex) {
    const auto values = draw_values(type, spec, role, kind, seed, content);
    return store_elements(type.type, flat, 0, count, values.data());
  }
  element_source source(type, spec, role, kind, seed, content);
  std::array<double, random_blocks::block> values;
  for (int64_t first = 0; first < count; first += static_cast<int64_t>(values.size())) {
    const auto part = std::span(values).first(
        static_cast<std::size_t>(std::min<int64_t>(static_cast<int64_t>(values.size()), count - first)));
    source.next(part);
    store_elements(type.type, flat, first, static_cast<int64_t>(part.size()), part.data());
  }
}

uint64_t system_seed() {
  std::random_device device;
  uint64_t seed = 0;
  while (seed == 0)
    seed = (static_cast<uint64_t>(device()) << 32) | device();
  return seed;
}

}  // namespace cudal1
