#include "policy/graph/constant_expression.hpp"

#include <cmath>
#include <utility>

namespace cudal1 {

namespace {

using kind = constant_expression::kind;

constant_pointer made_of(kind what, const constant_pointer& left, const constant_pointer& right) {
  return std::make_shared<const constant_expression>(constant_expression{what, 0, "", left, right});
}

bool are_numbers(const constant_pointer& left, const constant_pointer& right) {
  return is_number(left) && is_number(right);
}

}  // namespace

constant_pointer constant_of(double number) {
  return std::make_shared<const constant_expression>(constant_expression{kind::number, number});
}

constant_pointer constant_of(std::string weight) {
  return std::make_shared<const constant_expression>(constant_expression{kind::weight, 0, std::move(weight)});
}

constant_pointer sum_of(const constant_pointer& left, const constant_pointer& right) {
  if (are_numbers(left, right)) return constant_of(left->number + right->number);
  if (is_number(left, 0)) return right;
  if (is_number(right, 0)) return left;
  return made_of(kind::sum, left, right);
}

constant_pointer difference_of(const constant_pointer& left, const constant_pointer& right) {
  if (are_numbers(left, right)) return constant_of(left->number - right->number);
  if (is_number(right, 0)) return left;
  return made_of(kind::difference, left, right);
}

constant_pointer product_of(const constant_pointer& left, const constant_pointer& right) {
  if (are_numbers(left, right)) return constant_of(left->number * right->number);
  if (is_number(left, 0) || is_number(right, 1)) return left;
  if (is_number(right, 0) || is_number(left, 1)) return right;
  return made_of(kind::product, left, right);
}

constant_pointer quotient_of(const constant_pointer& left, const constant_pointer& right) {
  if (are_numbers(left, right)) return constant_of(left->number / right->number);
  if (is_number(left, 0) || is_number(right, 1)) return left;
  return made_of(kind::quotient, left, right);
}

constant_pointer root_of(const constant_pointer& square) {
  if (is_number(square)) return constant_of(std::sqrt(square->number));
  return made_of(kind::root, square, nullptr);
}

bool is_number(const constant_pointer& e) {
  return e->what == kind::number;
}

bool is_number(const constant_pointer& e, double number) {
  return is_number(e) && e->number == number;
}

}  // namespace cudal1
