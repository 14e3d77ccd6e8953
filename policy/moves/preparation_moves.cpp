#include "policy/moves/preparation_moves.hpp"

#include <algorithm>

#include "policy/graph/channels_last.hpp"
#include "policy/graph/composed_convolutions.hpp"
#include "policy/graph/flipped_convolutions.hpp"
#include "policy/graph/float32_convolutions.hpp"
#include "policy/graph/joined_layers.hpp"
#include "policy/graph/part_family.hpp"
#include "policy/graph/phased_convolutions.hpp"
#include "policy/graph/separate_bias.hpp"
#include "policy/graph/separate_statistics.hpp"
#include "policy/graph/unit_dimensions.hpp"
#include "policy/graph/unit_kernels.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t k_most_apart = 16;  // convolutions, or joined layers, that may be the only one

// A part's steps are some of its whole's, and its tensors lie in memory as its whole has them.
bool is_part(const graph& g) {
  return g.origin().family == part_family;
}

expected<void> check_is_whole(const graph& g) {
  if (is_part(g)) return fail(errc::invalid_argument, "a part keeps the steps of its whole");
  return {};
}

// The move with all of these steps, then with each of them alone where they are few.
std::vector<move> together_or_alone(const char* name, const std::vector<int>& all) {
  std::vector<move> out;
  if (all.empty()) return out;
  out.push_back({name, {{"steps", print_steps(all)}}});
  if (all.size() < 2 || all.size() > k_most_apart) return out;
  for (const int one : all)
    out.push_back({name, {{"steps", print_steps({one})}}});
  return out;
}

std::vector<int> possible_convolutions(const graph& g) {
  return is_part(g) ? std::vector<int>() : convolutions_with_channels(g.origin().reference);
}

bool is_in_float32(const graph& g, int step) {
  const auto& s = g.origin().reference.text.steps[static_cast<std::size_t>(step)];
  return std::get<aten_step>(s).precision == "float32";
}

// All convolutions first that tensor cores compute, or that stay in float32, which is what a whole schedule takes.
std::vector<move> channels_last_candidates(const graph& g, const lowering_target&) {
  auto all = possible_convolutions(g);
  const auto& calls = g.origin().reference.calls;
  std::erase_if(all,
                [&](int n) { return !convolves_by_fours(calls[static_cast<std::size_t>(n)]) && !is_in_float32(g, n); });
  return together_or_alone("channels_last", all);
}

expected<std::string> apply_channels_last(graph& g, const move& m, const lowering_target&) {
  CUDAL1_TRY(const auto steps, steps_parameter(g, m, "steps"));
  if (is_part(g)) return fail(errc::invalid_argument, "a part keeps the layouts of its whole");
  const auto possible = possible_convolutions(g);
  for (const int n : steps)
    if (!std::ranges::binary_search(possible, n))
      return fail(errc::invalid_argument,
                  "step {} is not a convolution over two or three dimensions of several channels", n);
  const std::size_t before = g.steps().size();
  CUDAL1_TRY(auto laid_out, with_channels_last(g.origin(), steps));
  if (laid_out->reference.id == g.origin().reference.id)
    return fail(errc::invalid_argument, "these convolutions have the channels last already");
  CUDAL1_CHECK(g.prepare(std::move(laid_out)));
  return fmt::format(
      "convolutions {} read and make tensors with the channels last in memory, as do the elementwise "
      "operators around them; {} copies change the order",
      print_steps(steps), g.steps().size() - before);
}

std::vector<move> float32_candidates(const graph& g, const lowering_target& target) {
  if (!target.has_tf32_products() || is_part(g) || !g.groups().empty()) return {};
  return together_or_alone("float32_convolutions", convolutions_without_precision(g.origin().reference));
}

expected<std::string> apply_float32(graph& g, const move& m, const lowering_target& target) {
  if (!target.has_tf32_products())
    return fail(errc::invalid_argument, "TF32 exists on GPUs only: convolutions are in float32 on this device anyway");
  CUDAL1_TRY(const auto steps, steps_parameter(g, m, "steps"));
  CUDAL1_CHECK(check_is_whole(g));
  const auto possible = convolutions_without_precision(g.origin().reference);
  for (const int n : steps)
    if (!std::ranges::binary_search(possible, n))
      return fail(errc::invalid_argument, "step {} is no convolution of float32 whose precision is open", n);
  CUDAL1_TRY(auto exact, with_float32_convolutions(g.origin(), steps));
  CUDAL1_CHECK(g.prepare(std::move(exact)));
  return fmt::format("the library convolves in float32, not in TF32, in steps {}", print_steps(steps));
}

expected<std::string> apply_separate_bias(graph& g, const move&, const lowering_target& target) {
  if (target.convolutions_add_bias())
    return fail(errc::invalid_argument, "convolutions add their bias at no cost on this device");
  CUDAL1_CHECK(check_is_whole(g));
  auto separate = with_separate_bias(g.origin());
  if (separate == nullptr) return fail(errc::invalid_argument, "no convolution has a bias");
  CUDAL1_CHECK(g.prepare(std::move(separate)));
  return "the biases of convolutions are steps of their own, which may be in the kernels of what follows";
}

// All layers that may be joined first, which is what a whole schedule takes. The last ones then come first, since
// joining them leaves the steps before them where they are.
std::vector<move> join_candidates(const graph& g, const lowering_target&) {
  if (is_part(g) || !g.groups().empty()) return {};
  const auto sets = joinable_layers(g.origin().reference);
  std::vector<int> all;
  for (const auto& layers : sets)
    all.insert(all.end(), layers.begin(), layers.end());
  std::ranges::sort(all);
  std::vector<move> out;
  if (all.empty()) return out;
  out.push_back({"join_layers", {{"steps", print_steps(all)}}});
  if (sets.size() < 2 || sets.size() > k_most_apart) return out;
  for (auto layers = sets.rbegin(); layers != sets.rend(); ++layers)
    out.push_back({"join_layers", {{"steps", print_steps(*layers)}}});
  return out;
}

expected<std::string> apply_join(graph& g, const move& m, const lowering_target&) {
  CUDAL1_TRY(const auto steps, steps_parameter(g, m, "steps"));
  CUDAL1_CHECK(check_is_whole(g));
  CUDAL1_TRY(auto joined, with_joined_layers(g.origin(), steps));
  CUDAL1_CHECK(g.prepare(std::move(joined.with), std::move(joined.certificate)));
  std::string sets;
  for (const auto& layers : joined.layers)
    sets += (sets.empty() ? "" : ", and ") + print_steps(layers);
  return fmt::format(
      "layers {} are one each, since they read one value: their weights are concatenated, and their results are slices "
      "of its result",
      sets);
}

// Which steps a candidate of a rewriting has.
enum class rewritten_at_once { all, all_or_one };

// A move that goes on with a program in which some layers are computed as others.
struct rewriting {
  const char *name, *summary;
  int order = 0;
  std::vector<int> (*find)(const graph&) = nullptr;  // the steps that it may have
  expected<proved_task> (*rewrite)(const graph&, std::span<const int>) = nullptr;
  const char* did = "";  // in one sentence, with {} for the steps
  rewritten_at_once steps = rewritten_at_once::all;
  std::vector<starting_part> parts = {starting_part::rewritten_layers};
  bool for_own_convolutions = false;  // of use only where convolutions may be kernels of our own
};

std::vector<move> candidates_of(const rewriting& r, const graph& g, const lowering_target& target) {
  if (is_part(g) || !g.groups().empty() || (r.for_own_convolutions && target.convolution_ways().empty())) return {};
  auto out = together_or_alone(r.name, r.find(g));
  if (r.steps == rewritten_at_once::all && out.size() > 1) out.erase(out.begin() + 1, out.end());
  return out;
}

expected<std::string> apply_rewriting(const rewriting& r, graph& g, const move& m, const lowering_target& target) {
  if (r.for_own_convolutions && target.convolution_ways().empty())
    return fail(errc::invalid_argument, "{} has no kernels of convolutions", target.name());
  CUDAL1_TRY(const auto steps, steps_parameter(g, m, "steps"));
  CUDAL1_CHECK(check_is_whole(g));
  CUDAL1_TRY(auto made, r.rewrite(g, steps));
  CUDAL1_CHECK(g.prepare(std::move(made.with), std::move(made.certificate)));
  return fmt::format(fmt::runtime(r.did), print_steps(steps));
}

move_kind move_of(const rewriting& r) {
  return {.name = r.name,
          .summary = r.summary,
          .parameters = {"steps"},
          .phase = move_phase::preparation,
          .order = r.order,
          .parts = r.parts,
          .candidates = [r](const graph& g, const lowering_target& target) { return candidates_of(r, g, target); },
          .apply = [r](graph& g, const move& m,
                       const lowering_target& target) { return apply_rewriting(r, g, m, target); }};
}

}  // namespace

std::vector<move_kind> preparation_moves() {
  return {
      move_of({.name = "compose_means",
               .summary =
                   "means over windows, space or channels of a convolution's result are taken without that result: "
                   "with weights that set-up composes, or from sums of the input, with a proof; the steps have other "
                   "numbers afterwards",
               .order = 0,
               .find = composable_means,
               .rewrite = with_composed_convolutions,
               .did = "the means {} are computed without the results of the convolutions before them"}),
      move_of({.name = "flip_weights",
               .summary =
                   "transposed convolutions whose windows move by one element become convolutions, for which the "
                   "library has faster kernels, with a proof; set-up flips their weights; the steps have other "
                   "numbers afterwards",
               .order = 1,
               .find = flippable_convolutions,
               .rewrite = with_flipped_weights,
               .did = "the transposed convolutions {} are convolutions with flipped weights"}),
      move_of({.name = "convolve_phases",
               .summary =
                   "transposed convolutions whose windows move by several elements become convolutions with channels "
                   "for each phase of the results, with a proof; set-up orders their weights, and what follows works "
                   "in a shape where phases are dimensions; the steps have other numbers afterwards",
               .order = 2,
               .find = phased_convolutions,
               .rewrite = with_phased_convolutions,
               .did = "the transposed convolutions {} are convolutions with channels for each phase"}),
      {.name = "separate_bias",
       .summary = "the biases of convolutions become steps of their own, which kernels of what follows may "
                  "contain; the steps have other numbers afterwards (cuda)",
       .parameters = {},
       .phase = move_phase::preparation,
       .order = 3,
       .candidates =
           [](const graph& g, const lowering_target& target) {
             const bool may = !is_part(g) && !target.convolutions_add_bias() && with_separate_bias(g.origin());
             return may ? std::vector<move>{{"separate_bias", {}}} : std::vector<move>{};
           },
       .apply = apply_separate_bias},
      {.name = "float32_convolutions",
       .summary = "convolutions in float32 where the library would use TF32: for tasks whose own convolutions it "
                  "computes in float32, but not what other moves make of them (cuda)",
       .parameters = {"steps"},
       .phase = move_phase::preparation,
       .order = 4,
       .candidates = float32_candidates,
       .apply = apply_float32},
      {.name = "channels_last",
       .summary = "convolutions read and make tensors whose channels are contiguous in memory (NHWC), for which "
                  "the library has faster kernels; the steps have other numbers afterwards",
       .parameters = {"steps"},
       .phase = move_phase::preparation,
       .order = 5,
       .candidates = channels_last_candidates,
       .apply = apply_channels_last},
      move_of(
          {.name = "drop_unit_dimensions",
           .summary =
               "convolutions whose kernels have one element along a dimension, such as (3, 3, 1), become convolutions "
               "over fewer dimensions of the same memory, with a proof; the steps have other numbers afterwards",
           .order = 6,
           .find = convolutions_with_unit_dimensions,
           .rewrite = without_unit_dimensions,
           .did = "the convolutions {} are over fewer dimensions of the same memory",
           .steps = rewritten_at_once::all_or_one}),
      move_of({.name = "multiply_unit_kernels",
               .summary =
                   "convolutions whose kernels have one element become products of matrices, in whose form elementwise "
                   "operators behind them follow, with a proof; the steps have other numbers afterwards",
               .order = 7,
               .find = convolutions_with_unit_kernels,
               .rewrite = with_unit_kernels_multiplied,
               .did = "the convolutions {} are products of their weights and channels",
               .steps = rewritten_at_once::all_or_one,
               .parts = {}}),
      move_of({.name = "separate_statistics",
               .summary =
                   "norms behind convolutions (batch norm in training mode, instance norm, group norm) become means, "
                   "variances and elementwise steps, with a proof: the convolution's kernel can make partial sums of "
                   "the first, and kernels of what follows contain the last; the steps have other numbers afterwards "
                   "(cuda)",
               .order = 8,
               .find = norms_of_convolutions,
               .rewrite = with_separate_statistics,
               .did = "the statistics of the norms {} are steps of their own",
               .steps = rewritten_at_once::all_or_one,
               .parts = {},
               .for_own_convolutions = true}),
      {.name = "join_layers",
       .summary = "linear layers that read one value become one layer with their weights concatenated, of whose "
                  "result theirs are slices, with a proof that no input changes the weights and nothing copies a "
                  "slice; the steps have other numbers afterwards",
       .parameters = {"steps"},
       .phase = move_phase::preparation,
       .order = 9,
       .candidates = join_candidates,
       .apply = apply_join}};
}

}  // namespace cudal1
