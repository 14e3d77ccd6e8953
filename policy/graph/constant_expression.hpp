// Arithmetic on numbers and weights, the same in every call: what set-up can compute once.
#pragma once

#include <memory>
#include <string>

namespace cudal1 {

struct constant_expression;
using constant_pointer = std::shared_ptr<const constant_expression>;

struct constant_expression {
  enum class kind { number, weight, sum, difference, product, quotient, root };
  kind what = kind::number;
  double number = 0;
  std::string weight = {};                 // the value's name
  constant_pointer left = {}, right = {};  // of the other kinds; a root has no right one
};

constant_pointer constant_of(double number);
constant_pointer constant_of(std::string weight);
// left + right, left - right, ... Numbers are computed at once, and 0 and 1 leave no operation where they change
// nothing.
constant_pointer sum_of(const constant_pointer& left, const constant_pointer& right);
constant_pointer difference_of(const constant_pointer& left, const constant_pointer& right);
constant_pointer product_of(const constant_pointer& left, const constant_pointer& right);
constant_pointer quotient_of(const constant_pointer& left, const constant_pointer& right);
constant_pointer root_of(const constant_pointer& square);

bool is_number(const constant_pointer& e);
bool is_number(const constant_pointer& e, double number);

}  // namespace cudal1
