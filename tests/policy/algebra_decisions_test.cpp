// The tasks of tests/policy/algebra: on ten of them one piece of algebra alone decides, on ten it must not be used. By
// legality on both targets, and by the estimates of whole schedules for an H200. `cudal1 run --tasks` measures them.
#include <algorithm>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include "policy/moves/move_registry.hpp"
#include "policy/search/schedule_estimates.hpp"
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

struct piece_of_task {
  const char *task, *move;
  const char* why = "";  // it is refused; "": it is legal, but not faster
};

constexpr piece_of_task deciding[] = {
    {"flip_image", "flip_weights"},         {"flip_volume", "flip_weights"},
    {"phases_image", "convolve_phases"},    {"phases_volume", "convolve_phases"},
    {"phases_dilated", "convolve_phases"},  {"mean_of_space", "compose_means"},
    {"mean_of_windows", "compose_means"},   {"mean_of_channels", "compose_means"},
    {"sum_of_transposed", "compose_means"}, {"unit_kernel", "multiply_unit_kernels"},
};

constexpr piece_of_task excluded[] = {
    {"flip_of_an_input", "flip_weights", "w is no weight"},
    {"flip_cut_off", "flip_weights", "more is cut off"},
    {"phases_of_an_input", "convolve_phases", "w is no weight"},
    {"mean_behind_relu", "compose_means", "more than scale and shift"},
    {"mean_of_an_output", "compose_means", "needed otherwise too"},
    {"mean_behind_own_statistics", "compose_means", "more than scale and shift"},
    {"mean_of_overlapping_windows", "compose_means"},
    {"unit_dimension_with_padding", "drop_unit_dimensions", "because of padding"},
    {"unit_kernel_in_groups", "multiply_unit_kernels", "it has groups"},
    {"unit_kernel_with_border", "multiply_unit_kernels", "it is padded"},
};

task algebra_task(const std::string& folder, const std::string& name, const char* profile) {
  auto t = load_task(CUDAL1_ALGEBRA_TASKS "/" + folder + "/" + name + ".json", profile);
  if (!t) throw std::runtime_error(t.error().message);
  return std::move(*t);
}

bool has(const schedule& s, const char* name) {
  return std::ranges::count(s.moves, name, &move::name) > 0;
}

// The shortest estimates of whole schedules for an H200, with the move and without it; infinite where there is none.
// Without the kernels on tensor cores, which make transposed convolutions as they are: the library's are compared.
struct shortest_times {
  double with = std::numeric_limits<double>::infinity(), without = with;
};

shortest_times shortest_of(const task& t, const char* name) {
  const auto gpu = find_device_data("NVIDIA H200");
  if (!gpu || !*gpu) throw std::runtime_error("config/devices has no H200");
  const lowering_target& target = for_cuda().limited_to("compute capability 9.0");
  shortest_times out;
  for (const auto& s : whole_schedules(t, target)) {
    if (has(s, "tensor_core_convolution")) continue;
    schedule_builder made = repaired(t, target, s.moves);
    const auto us = estimated_us(t, made, **gpu);
    if (!us) continue;
    double& least = has(s, name) ? out.with : out.without;
    least = std::min(least, *us);
  }
  std::printf("%-28s %-22s with it %8.1f us, without %8.1f us\n", t.name.c_str(), name, out.with, out.without);
  return out;
}

std::string error_of(const task& t, const char* name, const lowering_target& target) {
  const int last = static_cast<int>(t.reference.text.steps.size()) - 1;
  std::string all;
  for (int step = 0; step <= last; ++step) {
    const auto made = lower(t, {{{name, {{"steps", std::to_string(step)}}}}}, target);
    if (made) return "accepted at step " + std::to_string(step);
    all += made.error().message + "\n";
  }
  return all;
}

TEST(algebra_decisions, ten_tasks_are_fastest_with_their_piece_by_a_tenth_or_more) {
  for (const auto& piece : deciding) {
    SCOPED_TRACE(piece.task);
    const task t = algebra_task("decides", piece.task, "cuda");
    const auto times = shortest_of(t, piece.move);
    EXPECT_LT(1.1 * times.with, times.without);
  }
}

TEST(algebra_decisions, the_ten_pieces_are_legal_on_both_targets_and_in_whole_schedules) {
  for (const auto& piece : deciding)
    for (const char* target : {"cpu", "cuda"}) {
      SCOPED_TRACE(std::string(piece.task) + " on " + target);
      const task t = algebra_task("decides", piece.task, "cpu");
      EXPECT_TRUE(offers(t, piece.move, target_named(target)));
      const auto whole = whole_schedules(t, target_named(target));
      EXPECT_TRUE(std::ranges::any_of(whole, [&](const schedule& s) { return has(s, piece.move); }));
    }
}

TEST(algebra_decisions, ten_tasks_are_left_alone) {
  for (const auto& piece : excluded) {
    SCOPED_TRACE(piece.task);
    for (const char* profile : {"cpu", "cuda"}) {
      const task t = algebra_task("must_not", piece.task, profile);
      const lowering_target& target = target_named(profile);
      const bool refused = *piece.why != 0;
      EXPECT_EQ(offers(t, piece.move, target), !refused) << profile;
      const auto whole = whole_schedules(t, target);
      EXPECT_FALSE(whole.empty());
      if (!refused) continue;
      EXPECT_TRUE(std::ranges::none_of(whole, [&](const schedule& s) { return has(s, piece.move); })) << profile;
      EXPECT_THAT(error_of(t, piece.move, target), HasSubstr(piece.why)) << profile;
    }
    const auto times = shortest_of(algebra_task("must_not", piece.task, "cuda"), piece.move);
    EXPECT_LT(times.without, times.with) << "the fastest one by its estimate does not use it";
  }
}

}  // namespace
}  // namespace cudal1::test
