// What can be proved about values, from the task's facts and the operators that produced them. A proof is a sentence,
// which becomes the certificate of a move.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// The (resolved) value that the step reads as this argument; "" where it reads none.
std::string operand_of(const graph& g, const graph_step& s, std::string_view argument);

// The step that makes the value for this step alone, as the task has it: not dropped, not replaced; null for none.
const graph_step* made_for(const graph& g, int step, const std::string& value);

// Whether nothing needs another result of the step than the first.
bool only_first_is_read(const graph& g, const graph_step& s);

// A batch norm in one of its spellings; not whether its statistics are given.
bool is_batch_norm(const graph_step& s);

// A proof that the value has the property in every draw, or nothing.
std::optional<std::string> prove(const graph& g, const std::string& value, fact property);

// Where a matrix is not known to be zero: up to so many places below and above its diagonal (less than 0: not even
// there). A lower triangle has nothing above 0.
struct band {
  static constexpr int64_t unbounded = std::numeric_limits<int64_t>::max();
  int64_t below = unbounded, above = unbounded;
  band transposed() const { return {above, below}; }
  bool operator==(const band&) const = default;
};
// The band of the matrices of this value, in every draw.
band band_of(const graph& g, const std::string& value);

struct value_range {
  double low, high;
  std::string why;
};
// Bounds of all elements that are not NaN (all of these operators propagate NaN).
value_range range_of(const graph& g, const std::string& value);

// Whether no element of the value is finite, as of x / 0. What proofs say of sums and products holds for finite
// numbers: they assume those of a value where nothing is known (their certificates say so), and do not apply where none
// is.
bool is_never_finite(const graph& g, const std::string& value);

struct drop_proof {
  std::string replaced_by;  // the value that replaces the step's result; "" if nothing reads it
  std::string certificate;
};
// errc::invalid_argument with the reason where the step cannot be dropped.
expected<drop_proof> prove_drop(const graph& g, const graph_step& s);

// A product with a diagonal matrix: out[i, j] = diagonal[i or j] * matrix[i, j].
struct diagonal_proof {
  std::string diagonal;         // the value that holds the diagonal
  int64_t diagonal_stride = 0;  // elements from one diagonal entry to the next
  std::string matrix;
  bool scales_rows = true;  // else columns
  std::string certificate;
};
expected<diagonal_proof> prove_diagonal(const graph& g, const graph_step& s);

// All elements of the step's result are one number, whatever the inputs and weights hold, which are finite. Not where a
// step before it may divide by zero or have no value (infinity times 0, or minus itself, is NaN), and assuming that no
// number on the way overflows.
struct constant_proof {
  double base = 0;         // where the number comes from
  std::vector<int> chain;  // steps of one operand that are applied to it, in order; the last one is the step itself
  std::string certificate;
};
// Where a step after it is not constant too, or nothing is: else the proof belongs to that step.
expected<constant_proof> prove_constant(const graph& g, const graph_step& s);

// The step sums (or averages) the features of a linear layer with constant weights, to which weights may have been
// added; nothing else reads any of that.
struct linear_sum_proof {
  int linear = -1;                   // the layer's step
  std::vector<int> between;          // the steps that add weights to its result
  std::string values, weight, bias;  // the layer's operands; bias "" for none
  struct added_weight {
    std::string name;
    bool subtracted = false;
  };
  std::vector<added_weight> added;  // one number a feature each
  double factor = 1;
  std::string certificate;
};
expected<linear_sum_proof> prove_linear_sum(const graph& g, const graph_step& s);

// The step merges the last two dimensions of a stack along the last one, which nothing else reads; the merged dimension
// may be in groups of whole turns.
struct interleave_proof {
  std::vector<std::string> parts;  // whose elements take turns
  int stack = -1;                  // its step
  std::string certificate;
};
expected<interleave_proof> prove_interleave(const graph& g, const graph_step& s);

}  // namespace cudal1
