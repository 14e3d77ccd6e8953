// Programs in parts of the batch compute what they compute as a whole, and need no more memory than was computed ahead.
#include <cmath>
#include <set>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "sandbox/interpreter/boxed_values.hpp"
#include "sandbox/program/batch_parts.hpp"
#include "sandbox/program/memory_need.hpp"
#include "tests/sandbox/interpreter/operator_harness.hpp"

namespace cudal1::operator_tests {
namespace {

std::vector<at::Tensor> outputs_of(const checked_program& p, const std::vector<tensor_view>& inputs) {
  auto run = interpreter::load(p, nullptr);
  if (!run) throw std::runtime_error(run.error().message);
  if (const auto called = (*run)->call(inputs); !called) throw std::runtime_error(called.error().message);
  std::vector<at::Tensor> all;
  for (const auto& view : (*run)->outputs())
    all.push_back(wrap(view).clone());
  return all;
}

bool alike(const at::Tensor& a, const at::Tensor& b) {
  if (!at::isFloatingType(a.scalar_type())) return at::equal(a, b);
  return at::allclose(a.to(at::kDouble), b.to(at::kDouble), 1e-3, 1e-3, true);
}

// The operand with dimension `dim` exchanged with the first one in its declaration, and exchanged back by a step.
program with_batch_along(program p, const std::string& name, std::size_t dim) {
  for (auto& input : p.inputs) {
    if (input.name != name) continue;
    std::swap(input.type.shape[0], input.type.shape[dim]);
    std::swap(input.type.strides[0], input.type.strides[dim]);
    input.name += "_exchanged";
    aten_step back;
    back.op = "aten::transpose.int";
    back.args = {{"self", json(input.name)}, {"dim0", 0}, {"dim1", static_cast<int64_t>(dim)}};
    back.results = {name};
    p.steps.insert(p.steps.begin(), std::move(back));
  }
  return p;
}

// The operators that were computed in parts, with any operand divided along any dimension.
std::set<std::string> compute_in_parts(const operator_case& c, uint64_t seed) {
  std::set<std::string> divided;
  const auto whole = program_of(c);
  if (!whole) return divided;
  std::mt19937_64 random(seed);
  std::vector<at::Tensor> values;
  for (const auto& o : c.operands)
    values.push_back(draw(o, random));
  for (std::size_t o = 0; o < c.operands.size(); ++o)
    for (std::size_t d = 0; d < whole->text.inputs[o].type.shape.size(); ++d) {
      const auto exchanged = check_program(with_batch_along(whole->text, whole->text.inputs[o].name, d));
      if (!exchanged) continue;
      const auto parts = in_parts(*exchanged, 2);
      if (!parts) continue;
      std::vector<tensor_view> inputs;
      for (std::size_t i = 0; i < values.size(); ++i)
        inputs.push_back({exchanged->text.inputs[i].type, values[i].data_ptr()});
      const auto expected_values = outputs_of(*exchanged, inputs), found = outputs_of(*parts, inputs);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(alike(found[i], expected_values[i])) << "operand " << o << ", dimension " << d << "\n"
                                                         << print_program(parts->text);
      const auto computed = [&](const step& s) { return std::get<aten_step>(s).op == c.op; };
      if (std::ranges::count_if(parts->text.steps, computed) > 1) divided.insert(c.op);
    }
  return divided;
}

TEST(batch_parts, every_operator_in_parts_along_any_dimension_gives_what_it_gives_as_a_whole) {
  std::set<std::string> divided;
  uint64_t seed = 1;
  for (const auto* line : operator_cases()) {
    SCOPED_TRACE(line);
    try {
      divided.merge(compute_in_parts(parse_case(line), seed++));
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
  std::printf("%zu operators were computed in parts\n", divided.size());
  for (const char* op : {"aten::conv2d",
                         "aten::conv_transpose3d.input",
                         "aten::linear",
                         "aten::bmm",
                         "aten::matmul",
                         "aten::einsum",
                         "aten::softmax.int",
                         "aten::layer_norm",
                         "aten::group_norm",
                         "aten::batch_norm",
                         "aten::max_pool2d",
                         "aten::mean.dim",
                         "aten::add.Tensor",
                         "aten::where.self",
                         "aten::cat",
                         "aten::stack",
                         "aten::embedding",
                         "aten::scaled_dot_product_attention",
                         "aten::cumsum",
                         "aten::topk",
                         "aten::upsample_bilinear2d",
                         "aten::narrow",
                         "aten::select.int",
                         "aten::unbind.int",
                         "aten::permute"})
    EXPECT_TRUE(divided.contains(op)) << op;
}

}  // namespace
}  // namespace cudal1::operator_tests
