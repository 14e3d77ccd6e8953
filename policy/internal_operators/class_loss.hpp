// A cross-entropy over classes as two kernels: the first computes each row's loss from the row's maximum, its sum of
// exponentials and the one element that the target names, without writing the logarithms; the second adds them up.
#pragma once

#include "policy/internal_operators/internal_operators.hpp"

namespace cudal1 {

struct class_loss_operands {
  std::string values, target;  // resolved
  int64_t classes = 0;         // the dimension of the values that the classes are; the others are the rows
  // Steps that only the loss needs: a log-softmax, a conversion from a half type, views and copies.
  std::vector<int> left_out = {};
};
// errc::invalid_argument with the reason where the step is not a cross-entropy of rows with class indices that is
// summed or averaged, without weights of the classes and without smoothing; or a negative log-likelihood of what a
// log-softmax makes for it alone.
expected<class_loss_operands> operands_of_class_loss(const graph& g, const graph_step& s);

operator_use class_loss(const graph& g, const graph_step& s, const class_loss_operands& of);
internal_operator class_loss_operator();

}  // namespace cudal1
