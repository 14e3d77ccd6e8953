#include "sandbox/referee/outliers.hpp"

#include <algorithm>
#include <cmath>

#include "sandbox/referee/random_blocks.hpp"

namespace cudal1 {
namespace {

constexpr int64_t elements_each = 65536;                    // elements per outlier of each direction,
constexpr int64_t fewest_each_way = 3, most_each_way = 64;  // within these bounds
constexpr int64_t largest_share = 4;                        // and at most one element in four
constexpr double nearest = 1.25, furthest = 100;            // distance from the middle, in reaches
constexpr double normal_reach = 4;                          // of a normal distribution, in standard deviations
constexpr double constant_reach = 0.5;                      // of a tensor whose elements are all equal
constexpr uint64_t other_stream = 0x6a09e667f3bcc909;       // separate from the stream of the elements

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

}  // namespace

std::vector<outlier> outliers_of(const tensor_type& type, const input_spec& spec, uint64_t seed) {
  const int64_t elements = type.numel();
  if (elements == 0 || !is_drawn(type, spec)) return {};
  const bool uniform = spec.draw.kind == distribution::uniform;
  const double middle = uniform ? (spec.draw.low + spec.draw.high) / 2 : spec.draw.mean;
  double reach = uniform ? (spec.draw.high - spec.draw.low) / 2 : normal_reach * spec.draw.std;
  if (!(reach > 0)) reach = constant_reach;
  random_blocks random(seed ^ other_stream);
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

}  // namespace cudal1
