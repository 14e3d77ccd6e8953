// An index in a kernel, as data: sums, products, quotients and remainders of variables whose ranges are known. What the
// ranges make superfluous is left out when an index is made, and there is one function that prints it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cudal1 {

// From `least` to `most`, both included.
struct index_range {
  int64_t least = 0, most = 0;
  bool holds(const index_range& other) const { return least <= other.least && other.most <= most; }
  // The ranges of sums and multiples; what overflows is the largest or the smallest number.
  index_range operator+(const index_range& other) const;
  index_range operator*(int64_t factor) const;
};
inline constexpr index_range range_of_int = {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};

// The width in which C computes an integer.
enum class int_width { bits_32, bits_64 };

class index_expr {
 public:
  index_expr(int64_t value);  // NOLINT(google-explicit-constructor): numbers are indices
  // A C expression without operators of lower precedence than a call's: a name, or `min(row, 7)`. It is from 0 to
  // count - 1.
  static index_expr variable(std::string text, int64_t count);
  // One of which nothing is known.
  static index_expr unknown(std::string text);

  index_expr operator+(const index_expr& other) const;
  index_expr operator-(const index_expr& other) const;
  index_expr operator*(int64_t factor) const;
  index_expr operator/(int64_t divisor) const;  // both take what is not negative, and a positive number
  index_expr operator%(int64_t divisor) const;
  // The smaller and the larger one of both; one of them where the ranges tell which.
  static index_expr min(const index_expr& a, const index_expr& b);
  static index_expr max(const index_expr& a, const index_expr& b);
  // The index as a value of this C type, in which products of it are computed.
  index_expr as(const std::string& type) const;

  bool is(int64_t value) const { return least() == value && most() == value; }
  int64_t least() const;
  int64_t most() const;

  // The range, where variables have those that `known` says, or else their own.
  using known_ranges = std::function<std::optional<index_range>(const std::string& variable)>;
  index_range range_in(const known_ranges& known) const;
  // The range as C computes the index: `is_wide` in 64 bits.
  struct c_value {
    index_range range;
    bool is_wide = false;
  };
  using known_values = std::function<std::optional<c_value>(const std::string& variable)>;
  // `overflows` gets the text of a part that is computed in 32 bits, and leaves them. `added_to`: the numbers that it
  // is added to.
  c_value computed_in(const known_values& known, std::string& overflows, int_width added_to = int_width::bits_32) const;
  // What is left of it by a divisor: a sum of a constant and of variables times factors, all less than the divisor.
  // `known`: of a variable, or nothing where it stands for itself. What is not such a sum stands for itself, too.
  struct residue {
    int64_t constant = 0;
    std::map<std::string, int64_t> factors;
    bool is_zero() const { return constant == 0 && factors.empty(); }
    void add(const residue& other, int64_t factor, int64_t divisor);
    bool operator==(const residue& other) const = default;
  };
  using known_residues = std::function<std::optional<residue>(const std::string& variable, int64_t divisor)>;
  residue modulo(int64_t divisor, const known_residues& known) const;
  // The value, where variables have these.
  int64_t value_in(const std::function<int64_t(const std::string& variable)>& values) const;
  // Each variable with the range that it was made with; nothing of an unknown one.
  using variable_reader = std::function<void(const std::string& variable, std::optional<index_range> made_with)>;
  void each_variable(const variable_reader& read) const;
  bool divides() const;  // by a quotient or a remainder
  // Reads the index as a sum of a constant and of variables, quotients and remainders times factors: `read` gets each
  // of these.
  using part_reader = std::function<void(const index_expr& part, int64_t factor)>;
  int64_t each_part(const part_reader& read) const;  // the constant
  std::optional<std::string> name() const;           // of a variable
  // What it is at most: both parts of a minimum, or itself.
  std::vector<index_expr> upper_bounds() const;

  // In C. `operand`: in parentheses where it is a sum, a product, a quotient or a remainder.
  std::string text() const;
  std::string operand() const;

 private:
  enum class operation { constant, variable, sum, product, quotient, remainder, conversion, minimum, maximum };
  struct node;
  explicit index_expr(std::shared_ptr<const node> n) : node_(std::move(n)) {}

  std::shared_ptr<const node> node_;
};

// The place in a row-major space of these extents that has this number, a coordinate for each extent. Extents of which
// the product is the number of places at least, or the number's range.
std::vector<index_expr> split(const index_expr& number, std::span<const int64_t> extents);
// The place of the first element of a vector of so many elements along the last extent, which is a multiple of `width`:
// `number` counts vectors.
std::vector<index_expr> split_in_vectors(const index_expr& number, std::span<const int64_t> extents, int64_t width);

// Coordinates that are variables: `prefix` and the number of the extent.
std::vector<index_expr> named_coordinates(const std::string& prefix, std::span<const int64_t> extents);

// The sum of coordinates times strides; one for each.
index_expr offset_of(std::span<const index_expr> coordinates, std::span<const int64_t> strides);

}  // namespace cudal1
