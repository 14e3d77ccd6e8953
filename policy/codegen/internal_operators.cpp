#include "policy/codegen/internal_operators.hpp"

#include <algorithm>
#include <vector>

#include "policy/codegen/activated_convolution.hpp"
#include "policy/codegen/activated_layer.hpp"
#include "policy/codegen/class_loss.hpp"
#include "policy/codegen/constant_fill.hpp"
#include "policy/codegen/extremum_index.hpp"
#include "policy/codegen/interleave.hpp"
#include "policy/codegen/kernel_template.hpp"
#include "policy/codegen/row_dot.hpp"
#include "policy/codegen/row_scale.hpp"
#include "policy/codegen/split_product.hpp"

namespace cudal1 {

const internal_operator* find_internal_operator(std::string_view name) {
  static const std::vector<internal_operator> all = {
      row_scale_operator(),      row_dot_operator(),         split_product_operator(),
      class_loss_operator(),     interleave_operator(),      constant_fill_operator(),
      extremum_index_operator(), activated_layer_operator(), activated_convolution_operator(),
      kernel_template_operator()};
  const auto found = std::ranges::find(all, name, &internal_operator::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace cudal1
