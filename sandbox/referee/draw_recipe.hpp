// What the elements of a draw's tensor are: one specification of every kind of draw, which draws.hpp carries out on the
// host and a GPU's referee on its device. The two have generators of their own, so one seed gives other numbers there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sandbox/evaluation.hpp"
#include "sandbox/program/task.hpp"
#include "sandbox/referee/outliers.hpp"

namespace cudal1 {

enum class tensor_role { input, weight };

// Which tensor is made, and how. `content`: what it has where it is declared, row-major in its dtype, in the host's
// memory; null where that is drawn.
struct tensor_draw {
  const tensor_type& type;
  const input_spec& spec;
  tensor_role role = tensor_role::input;
  draw_kind kind = draw_kind::declared;
  uint64_t seed = 0;
  const std::byte* content = nullptr;
};

// The steps, in this order. Integer tensors and those that are drawn from integers, signs or a constant keep the
// declared distribution in every kind of draw. A weight of another kind than `declared` is spread round its declared
// mean by its declared deviation, or by one half where that is nothing (a gain of ones); `outliers` leaves weights
// declared but for a few elements, as it does inputs (outliers.hpp).
struct draw_recipe {
  enum class source {
    copy,       // the content as it is, and nothing else
    content,    // the content, which the other steps change
    uniform,    // in [0, 1)
    normal,     // N(0, 1)
    integer,    // in [low, high)
    bernoulli,  // 1 with that probability, else 0
    constant    // `offset`
  };
  enum class change {
    none,
    divide_by_root,     // by the square root of an exponential variable: Student's t, two degrees of freedom
    signed_exponential  // exp of it, with a random sign
  };
  enum class rows {
    alike,
    peaked,    // one random element of each is raised by `peak`
    rescaled,  // each has a scale exp(N(0, 1)) and an offset N(0, row_offset) of its own
  };
  static constexpr double peak = 20, row_offset = 5, tiny = 1e-12;  // `tiny` is added before a root is divided by

  source from = source::normal;
  int64_t low = 0, high = 0;
  double probability = 0;
  double scale = 1, offset = 0;  // offset + scale * what was drawn
  change then = change::none;
  rows each_row = rows::alike;
  std::vector<outlier> outliers;
  // Values beyond are reflected, so that nothing piles up there.
  std::optional<double> least, most;
  // Rows become their softmax, whose values are at least so much.
  std::optional<double> simplex_least;
  std::vector<fact> facts;
};
draw_recipe recipe_of(const tensor_draw& how);

// The least value of a simplex, so that its logarithm is finite: of a float16 the smallest normal one.
double least_of_simplex(dtype type);

// Whether a draw of that kind takes a weight's content as it is: `declared`, and any of a fixed one; `outliers` where
// there is no place for one.
bool keeps_content(const tensor_type& type, const input_spec& spec, draw_kind kind, uint64_t seed);

}  // namespace cudal1
