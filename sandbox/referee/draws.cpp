#include "sandbox/referee/draws.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "sandbox/program/quantiles.hpp"
#include "sandbox/referee/elements.hpp"
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

// Reflects values at the domain's ends, so that they do not accumulate there.
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

// The elements of one tensor in row-major order, a block at a time. The steps for simplex and facts come later: they
// need whole rows or matrices.
class element_source {
 public:
  element_source(const tensor_draw& how, const draw_recipe& recipe)
      : recipe_(recipe),
        type_(how.type.type),
        content_(how.content),
        width_(rows_of(how.type).width),
        random_(how.seed) {}

  random_blocks& random() { return random_; }

  void next(std::span<double> values) {
    start(values);
    if (recipe_.scale != 1 || recipe_.offset != 0)
      for (double& v : values)
        v = recipe_.offset + recipe_.scale * v;
    change(values);
    if (recipe_.each_row != draw_recipe::rows::alike) shape_rows(values);
    put_outliers(values);
    if (recipe_.least || recipe_.most)
      for (double& v : values)
        v = fold(v, recipe_.least, recipe_.most);
  }

 private:
  using source = draw_recipe::source;

  void start(std::span<double> values) {
    switch (recipe_.from) {
      case source::copy:
      case source::content:
        load_elements(type_, content_, first_, static_cast<int64_t>(values.size()), values.data());
        break;
      case source::uniform:
        random_.uniforms(values);
        break;
      case source::normal:
        random_.normals(values);
        break;
      case source::quantiles:
        random_.uniforms(values);
        for (double& v : values)
          v = quantile(recipe_.quantiles, v);
        break;
      case source::integer:
        for (double& v : values)
          v = static_cast<double>(recipe_.low + random_.below(recipe_.high - recipe_.low));
        break;
      case source::bernoulli:
        random_.uniforms(values);
        for (double& v : values)
          v = v < recipe_.probability ? 1 : 0;
        break;
      case source::constant:
        std::ranges::fill(values, 0.0);
        break;
    }
  }

  void change(std::span<double> values) {
    std::array<double, random_blocks::block> more;
    const auto others = std::span(more).first(values.size());
    switch (recipe_.then) {
      case draw_recipe::change::none:
        break;
      case draw_recipe::change::divide_by_root:
        random_.exponentials(others);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] /= std::sqrt(others[i] + draw_recipe::tiny);
        break;
      case draw_recipe::change::signed_exponential:
        small_exponentials(values);
        random_.uniforms(others);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = others[i] < 0.5 ? -values[i] : values[i];
        break;
    }
  }

  void put_outliers(std::span<double> values) {
    const auto& outliers = recipe_.outliers;
    const auto end = first_ + static_cast<int64_t>(values.size());
    for (; next_outlier_ < outliers.size() && outliers[next_outlier_].place < end; ++next_outlier_)
      values[static_cast<std::size_t>(outliers[next_outlier_].place - first_)] = outliers[next_outlier_].value;
    first_ = end;
  }

  // A row may begin in one block and end in another.
  void shape_rows(std::span<double> values) {
    const bool rescaled = recipe_.each_row == draw_recipe::rows::rescaled;
    for (std::size_t i = 0; i < values.size();) {
      if (column_ == 0 && rescaled) {
        scale_ = std::exp(random_.normal());
        offset_ = draw_recipe::row_offset * random_.normal();
      }
      if (column_ == 0 && !rescaled) peak_ = random_.below(width_);
      const auto part = std::min(values.size() - i, static_cast<std::size_t>(width_ - column_));
      if (rescaled)
        for (double& v : values.subspan(i, part))
          v = offset_ + scale_ * v;
      else if (peak_ >= column_ && peak_ < column_ + static_cast<int64_t>(part))
        values[i + static_cast<std::size_t>(peak_ - column_)] += draw_recipe::peak;
      i += part;
      column_ = (column_ + static_cast<int64_t>(part)) % width_;
    }
  }

  const draw_recipe& recipe_;
  dtype type_;
  const std::byte* content_;
  int64_t width_;
  random_blocks random_;
  int64_t column_ = 0, peak_ = 0;  // of the current row
  double scale_ = 1, offset_ = 0;
  std::size_t next_outlier_ = 0;
  int64_t first_ = 0;  // flat index of the next values
};

std::vector<double> values_of(const tensor_draw& how, const draw_recipe& recipe) {
  std::vector<double> values(static_cast<std::size_t>(how.type.numel()));
  element_source source(how, recipe);
  for (std::size_t first = 0; first < values.size(); first += random_blocks::block)
    source.next(std::span(values).subspan(first, std::min(random_blocks::block, values.size() - first)));
  if (values.empty()) return values;
  if (recipe.simplex_least) make_simplex(rows_of(how.type), *recipe.simplex_least, values);
  for (const fact f : recipe.facts)
    keep_fact(f, how.type, source.random(), values);
  return values;
}

}  // namespace

std::vector<double> draw_values(const tensor_draw& how) {
  return values_of(how, recipe_of(how));
}

void draw_tensor(const tensor_draw& how, std::byte* flat) {
  const draw_recipe recipe = recipe_of(how);
  const int64_t count = how.type.numel();
  if (recipe.from == draw_recipe::source::copy) {
    std::memcpy(flat, how.content, static_cast<std::size_t>(how.type.bytes()));
    return;
  }
  if (!recipe.facts.empty() || recipe.simplex_least) {
    const auto values = values_of(how, recipe);
    return store_elements(how.type.type, flat, 0, count, values.data());
  }
  element_source source(how, recipe);
  std::array<double, random_blocks::block> values;
  for (int64_t first = 0; first < count; first += static_cast<int64_t>(values.size())) {
    const auto part = std::span(values).first(
        static_cast<std::size_t>(std::min<int64_t>(static_cast<int64_t>(values.size()), count - first)));
    source.next(part);
    store_elements(how.type.type, flat, first, static_cast<int64_t>(part.size()), part.data());
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
