#include "policy/internal_operators/internal_operators.hpp"

#include <algorithm>
#include <vector>

#include "policy/internal_operators/activated_convolution.hpp"
#include "policy/internal_operators/activated_layer.hpp"
#include "policy/internal_operators/class_loss.hpp"
#include "policy/internal_operators/convolution_graph.hpp"
#include "policy/internal_operators/split_product.hpp"
#include "policy/internal_operators/template_step.hpp"

namespace cudal1 {

const internal_operator* find_internal_operator(std::string_view name) {
  static const std::vector<internal_operator> all = {
      split_product_operator(),   tf32_product_operator(),          class_loss_operator(),
      activated_layer_operator(), activated_convolution_operator(), convolution_graph_operator(),
      kernel_template_operator()};
  const auto found = std::ranges::find(all, name, &internal_operator::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace cudal1
