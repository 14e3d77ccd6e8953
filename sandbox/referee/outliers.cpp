#include "sandbox/referee/outliers.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "sandbox/referee/random_blocks.hpp"

namespace cudal1 {
namespace {

constexpr int64_t elements_each = 65536;                    // elements per outlier of each direction,
constexpr int64_t fewest_each_way = 3, most_each_way = 64;  // within these bounds
constexpr int64_t largest_share = 4;                        // and never more than one element in four
constexpr double nearest = 1.25, furthest = 100;            // times the distribution's reach, from its middle
constexpr double normal_reach = 4;                     // standard deviations that a normal distribution is taken for
constexpr double constant_reach = 0.5;                 // of a tensor whose elements are all the same
constexpr int64_t most_impulses = 30;                  // beside the first and the last element
constexpr uint64_t other_stream = 0x6a09e667f3bcc909;  // apart from the elements' own numbers

// Moves a place into the part of its matrix that the facts allow to be nonzero and free.
int64_t open_place(const tensor_type& type, const std::vector<fact>& facts, int64_t place) {
  if (type.dim() < 2) return place;
  const int64_t columns = type.shape.back(), rows = type.shape[type.shape.size() - 2];
  const int64_t matrix = place / (rows * columns);
  int64_t row = place / columns % rows, column = place % columns;
  const auto mirror = [&] {
    if (column < rows && row < columns) std::swap(row, column);
  };
  for (const fact f : facts) {
    if (f == fact::diagonal) row = column = std::min(row, columns - 1);
    // The lower half of a symmetric matrix is copied from the upper one.
    if ((f == fact::upper_triangular || f == fact::symmetric) && row > column) mirror();
    if (f == fact::lower_triangular && row < column) mirror();
  }
  return (matrix * rows + row) * columns + column;
}

bool is_drawn(const tensor_type& type, const input_spec& spec) {
  return is_floating(type.type) && std::ranges::count(spec.facts, fact::one_hot) == 0 &&
         (spec.draw.kind == distribution::uniform || spec.draw.kind == distribution::normal ||
          spec.draw.kind == distribution::simplex);  // the outliers precede its softmax
}

// The first of each direction is the furthest, the second the nearest, the others are log-uniform in between: a far one
// changes a sum over many elements, a near one cannot be detected from a block's mean.
double distance(int64_t ordinal, random_blocks& random) {
  if (ordinal == 0) return furthest;
  if (ordinal == 1) return nearest;
  return nearest * std::pow(furthest / nearest, random.uniform());
}

// What a distribution is taken to reach from its middle.
struct spread {
  double middle = 0, reach = 0;
};
spread spread_of(const input_spec& how) {
  const draw_spec& draw = how.draw;
  const bool uniform = draw.kind == distribution::uniform;
  double low = draw.mean - normal_reach * draw.std, high = draw.mean + normal_reach * draw.std;
  if (uniform) std::tie(low, high) = std::pair(draw.low, draw.high);
  if (!how.quantiles.empty()) std::tie(low, high) = std::pair(how.quantiles.front(), how.quantiles.back());
  spread s{(low + high) / 2, (high - low) / 2};
  if (!(s.reach > 0)) s.reach = constant_reach;
  return s;
}

// An edge of a dimension, or a border between two tiles.
int64_t border(int64_t size, random_blocks& random) {
  constexpr int64_t tiles[] = {16, 32, 64, 128};
  const int64_t tile = tiles[random.below(std::size(tiles))];
  const int64_t choice = random.below(4);
  if (choice == 0 || size <= tile) return random.below(2) == 0 ? 0 : size - 1;
  return (1 + random.below((size - 1) / tile)) * tile - (choice == 1 ? 1 : 0);
}

}  // namespace

std::vector<outlier> outliers_of(const tensor_type& type, const input_spec& spec, draw_kind kind, uint64_t seed) {
  const int64_t elements = type.numel();
  if (elements == 0 || !is_drawn(type, spec)) return {};
  const auto [middle, reach] = spread_of(spec);
  random_blocks random(seed ^ other_stream);
  if (kind == draw_kind::outlier_above || kind == draw_kind::outlier_below) {
    const double away = (kind == draw_kind::outlier_above ? 1 : -1) * reach * furthest;
    return {{open_place(type, spec.facts, random.below(elements)), middle + away}};
  }
  const int64_t count = std::clamp<int64_t>(2 * std::clamp(elements / elements_each, fewest_each_way, most_each_way), 1,
                                            std::max<int64_t>(elements / largest_share, 1));
  const bool up_first = random.below(2) == 0;
  std::vector<outlier> all;
  for (int64_t i = 0; i < count; ++i) {
    const double direction = (i % 2 == 0) == up_first ? 1 : -1;
    const double away = distance(i / 2, random);
    all.push_back({open_place(type, spec.facts, random.below(elements)), middle + direction * reach * away});
  }
  std::ranges::stable_sort(all, {}, &outlier::place);
  return all;
}

std::vector<outlier> impulses_of(const tensor_type& type, const std::vector<fact>& facts, uint64_t seed) {
  const int64_t elements = type.numel();
  if (elements == 0) return {};
  random_blocks random(seed ^ other_stream);
  const auto value = [&] { return static_cast<double>(1 + random.below(3)) * (random.below(2) == 0 ? 1 : -1); };
  std::vector<outlier> all{{open_place(type, facts, 0), value()}, {open_place(type, facts, elements - 1), value()}};
  for (int64_t i = 0; i < most_impulses; ++i) {
    int64_t place = 0;
    for (const int64_t size : type.shape)
      place = place * size + border(size, random);
    all.push_back({open_place(type, facts, place), value()});
  }
  std::ranges::stable_sort(all, {}, &outlier::place);
  return all;
}

}  // namespace cudal1
