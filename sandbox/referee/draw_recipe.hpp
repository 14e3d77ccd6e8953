// How the elements of a draw's tensor are made: one specification for every kind of draw, implemented by draws.hpp on
// the host and by the GPU's referee on its device. Their generators differ, so one seed gives different numbers there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/task.hpp"
#include "sandbox/referee/outliers.hpp"

namespace cudal1 {

enum class tensor_role { input, weight };

// Which tensor is made, and how. `content`: its declared values, row-major in its dtype, in host memory; null if it is
// drawn.
struct tensor_draw {
  const tensor_type& type;
  const input_spec& spec;
  tensor_role role = tensor_role::input;
  draw_kind kind = draw_kind::declared;
  uint64_t seed = 0;
  const std::byte* content = nullptr;
  bool has_impulses = false;  // this is the input that has the impulses of a draw of kind `impulses`
};

// The steps, in this order. Integer tensors and those that are drawn from integers, signs or a constant keep the
// declared distribution in every kind of draw. Only `declared` draws have a random factor (draw_spec). A weight in a
// draw other than `declared` is normal around its declared mean with its declared deviation, or 0.5 if that is zero (a
// gain of ones); `outliers` changes only a few elements of weights and inputs (outliers.hpp).
struct draw_recipe {
  enum class source {
    copy,       // the content as it is, and nothing else
    content,    // the content, modified by the other steps
    uniform,    // in [0, 1)
    normal,     // N(0, 1)
    quantiles,  // distributed as `quantiles` say (quantiles.hpp)
    integer,    // in [low, high)
    bernoulli,  // 1 with probability `probability`, else 0
    constant    // `offset`
  };
  enum class change {
    none,
    divide_by_root,     // by the square root of an exponential variable: Student's t, two degrees of freedom
    signed_exponential  // its exponential, with a random sign
  };
  enum class rows {
    alike,     // no change
    peaked,    // one random element of each is raised by `peak`
    rescaled,  // each has a separate scale exp(N(0, 1)) and offset N(0, row_offset)
  };
  static constexpr double peak = 20, row_offset = 5, tiny = 1e-12;  // `tiny` is added under the root

  source from = source::normal;
  std::span<const double> quantiles;  // of the input_spec
  int64_t low = 0, high = 0;
  double probability = 0;
  double scale = 1, offset = 0;  // offset + scale * the drawn value
  change then = change::none;
  rows each_row = rows::alike;
  std::vector<outlier> outliers;
  // Values outside are reflected, so that they do not accumulate at the bounds.
  std::optional<double> least, most;
  // Rows become their softmax, with values of at least this.
  std::optional<double> simplex_least;
  std::vector<fact> facts;
};
draw_recipe recipe_of(const tensor_draw& how);

// Whether tensors of that kind have the declared distribution, or their content, and some elements far from it.
bool has_outliers(draw_kind kind);

// The least value of a simplex, so that its logarithm is finite; for float16 the smallest normal number.
double least_of_simplex(dtype type);

// Whether a draw of that kind uses a tensor's content unchanged: `declared`, or any kind for a fixed one; a kind with
// outliers if the tensor gets none.
bool keeps_content(const tensor_type& type, const input_spec& spec, draw_kind kind, uint64_t seed);

}  // namespace cudal1
