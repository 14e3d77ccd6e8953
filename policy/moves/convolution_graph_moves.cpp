#include "policy/moves/convolution_graph_moves.hpp"

#include <algorithm>
#include <set>

#include "policy/internal_operators/convolution_graph.hpp"
#include "policy/moves/groups.hpp"
#include "policy/moves/setup_steps.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "convolution_graph";
constexpr int64_t k_engines = 4;  // the heuristics' first ones

// cuDNN convolves single elements of images whose channels are not contiguous in float32, and in TF32 where a function
// follows.
bool loses_precision(const graph& g, const convolution_graph_operands& of) {
  const graph_step& layer = g.step_at(of.layer);
  const auto& weight = g.type_of(operand_of(g, layer, "weight")).shape;
  return layer.result_types[0].type == dtype::float32 &&
         std::all_of(weight.begin() + 2, weight.end(), [](int64_t n) { return n == 1; }) &&
         g.type_of(operand_of(g, layer, "input")).is_contiguous();
}

move of_engine(int step, int64_t engine) {
  return {k_name, {{"step", std::to_string(step)}, {"engine", std::to_string(engine)}}};
}

// The longest chain of each convolution by each engine, and before those the longest by the first one; shorter chains
// by the first engine.
std::vector<move> graph_candidates(const graph& g, const lowering_target& target) {
  std::vector<move> first, other_engines, shorter;
  if (!target.library_compiles_chains()) return first;
  std::set<int> longest;  // convolutions whose longest chain was found
  for (auto step = g.steps().rbegin(); step != g.steps().rend(); ++step) {
    const graph_step& s = *step;
    const auto found = operands_of_convolution_graph(g, s);
    if (!found || !check_library_has_engine(g, *found) || loses_precision(g, *found)) continue;
    if (!longest.insert(found->layer).second) {
      shorter.push_back(of_engine(s.number, 0));
      continue;
    }
    first.push_back(of_engine(s.number, 0));
    for (int64_t engine = 1; engine < k_engines; ++engine)
      other_engines.push_back(of_engine(s.number, engine));
  }
  first.insert(first.end(), other_engines.begin(), other_engines.end());
  first.insert(first.end(), shorter.begin(), shorter.end());
  return first;
}

expected<std::string> apply_graph(graph& g, const move& m, const lowering_target& target) {
  if (!target.library_compiles_chains())
    return fail(errc::invalid_argument, "only cuDNN has such graphs, on GPUs from compute capability 8.0 on");
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const int64_t engine, integer_parameter(m, "engine"));
  if (engine < 0 || engine >= k_engines)
    return fail(errc::invalid_argument, "engine={} should lie in 0 to {}", engine, k_engines - 1);
  CUDAL1_TRY(const convolution_graph_operands of, operands_of_convolution_graph(g, *s));
  CUDAL1_CHECK(check_library_has_engine(g, of));
  const int number = s->number;
  CUDAL1_CHECK(leave_groups(g, of.left_out, target));
  const graph_step& layer = g.step_at(of.layer);
  const int64_t channels = layer.result_types[0].shape[1];
  const std::string weight = of.scaling ? scaled_weight(g, *of.scaling) : operand_of(g, layer, "weight");
  const std::string bias = of.scaling ? shifted_bias(g, *of.scaling, channels) : operand_of(g, layer, "bias");
  std::vector<int> before = of.left_out;
  std::erase(before, number);
  const std::string why = fmt::format("step {}: nothing else reads what steps {} make", number, print_steps(before));
  g.rewrite(number, {.by = convolution_graph(g, of, weight, bias, engine),
                     .certificate = of.scaling ? of.scaling->certificate + "; " + why : why,
                     .left_out = before});
  return fmt::format("steps {} and {} ({}): one call of the library, by its engine {}", print_steps(before), number,
                     operator_names(g, of.left_out), engine);
}

}  // namespace

std::vector<move_kind> convolution_graph_moves() {
  return {{.name = k_name,
           .summary =
               "a convolution with the elementwise steps behind it, up to this one, as one call of cuDNN, by the "
               "engine of that number: sometimes faster than the convolution alone, sometimes far slower (cuda)",
           .parameters = {"step", "engine"},
           .phase = move_phase::implementation,
           .parts = {starting_part::other_implementations},
           .candidates = graph_candidates,
           .apply = apply_graph}};
}

}  // namespace cudal1
