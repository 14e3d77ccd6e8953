// How a program runs on a GPU, beside its kernels: as one graph, and with which precision its library products.
#include <array>

#include "policy/codegen/split_product.hpp"
#include "policy/moves/moves.hpp"

namespace cudal1 {

namespace {

expected<move_note> apply_graph(graph& g, const move&, device_kind kind) {
  if (kind != device_kind::cuda) return fail(errc::invalid_argument, "graphs exist on CUDA devices only");
  if (g.replayed()) return fail(errc::invalid_argument, "the program is a graph already");
  g.replay();
  return move_note{
      "the whole program is one CUDA graph, bound to each call's tensors: 1 us a kernel instead of 4.5 us a launch",
      ""};
}

expected<move_note> apply_precision(graph& g, const move& m, device_kind kind) {
  if (kind != device_kind::cuda) return fail(errc::invalid_argument, "TF32 exists on CUDA devices only");
  CUDAL1_TRY(const int64_t number, integer_parameter(m, "step"));
  if (!g.has_step(static_cast<int>(number)))
    return fail(errc::invalid_argument, "there is no step {}; the task has {}", number, g.steps().size());
  if (m.parameters[1].second != "tf32x3")
    return fail(errc::invalid_argument, "as={} is not one of tf32x3", m.parameters[1].second);
  const graph_step& s = g.step_at(static_cast<int>(number));
  if (s.dropped || s.scaling || s.dot)
    return fail(errc::invalid_argument, "step {} ({}) is no library product any more", number, s.op());
  if (s.split_product) return fail(errc::invalid_argument, "step {} ({}) is split already", number, s.op());
  CUDAL1_TRY(const product_operands operands, operands_of_product(g, s));
  g.split_product(s.number);
  return move_note{
      fmt::format("step {} ({}): {} and {} each as a high and a low part, three TF32 products and their sum instead of "
                  "one float32 product: about twice as fast where it is bound by arithmetic",
                  number, s.op(), operands.left, operands.right),
      fmt::format("step {}: (a_high + a_low)(b_high + b_low) without a_low b_low, which is below 2^-22 of the product; "
                  "assumes that {} and {} are finite",
                  number, operands.left, operands.right)};
}

}  // namespace

std::vector<move_kind> execution_moves() {
  return {
      {"precision",
       "a float32 library product as three TF32 products on split operands, which keeps float32's precision (cuda)",
       {"step", "as"},
       [](const graph& g, device_kind kind) {
         std::vector<move> out;
         for (const auto& s : g.steps()) {
           if (kind == device_kind::cuda && is_product_operator(s.op()))
             out.push_back({"precision", {{"step", std::to_string(s.number)}, {"as", "tf32x3"}}});
         }
         return out;
       },
       apply_precision},
      {"graph",
       "the program is captured once as a CUDA graph and replayed, its pointers set for each call (cuda)",
       {},
       [](const graph&, device_kind kind) {
         return kind == device_kind::cuda ? std::vector<move>{{"graph", {}}} : std::vector<move>{};
       },
       apply_graph},
  };
}

}  // namespace cudal1
