// A float32 matrix product as three TF32 products: each operand is the sum of a high part, rounded to TF32's 11 bits,
// and a low part, rounded too; the product of the low parts is below what float32 keeps.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "policy/codegen/emit_kernel.hpp"

namespace cudal1 {

bool is_product_operator(std::string_view op);

struct product_operands {
  std::string left, right;                    // resolved values
  std::string left_argument, right_argument;  // the schema's names
};
// errc::invalid_argument with the reason where the step is not a float32 product.
expected<product_operands> operands_of_product(const graph& g, const graph_step& s);

// Writes products and the operands' parts into a program: one kernel an operand, however many products read it; the
// parts of weights are made in setup.
class product_splitter {
 public:
  product_splitter(const graph& g, program& out) : graph_(&g), out_(&out) {}
  // `call`: the step with its final names; `operands`: their final names.
  expected<void> add(const graph_step& s, const aten_step& call, const product_operands& operands);

 private:
  struct parts {
    std::string high, low;
  };
  expected<parts> split(const std::string& value, const std::string& name);
  std::string fresh(const std::string& name);
  bool constant(const std::string& value) const;
  void add_kernel(const emitted_kernel& k, std::vector<step>& where);

  const graph* graph_;
  program* out_;
  std::map<std::string, parts> known_;
  std::set<std::string> taken_;
  int kernels_ = 0;
};

}  // namespace cudal1
