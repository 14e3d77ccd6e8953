#include "config/configuration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::HasSubstr;

std::string problem_of(std::string_view text) {
  configuration c;
  const auto applied = apply_toml(c, text, "cudal1.toml");
  return applied ? "" : applied.error().message;
}

TEST(configuration, what_is_printed_reads_back_and_every_number_has_a_range) {
  configuration c;
  c.timing.max_forks = 7;
  c.compiler.command = "g++ \"12\"";
  c.device.allow_weak_confinement = true;
  configuration back;
  const auto applied = apply_toml(back, print_configuration(c), "printed");
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(print_configuration(back), print_configuration(c));
  EXPECT_EQ(back.timing.max_forks, 7);
}

TEST(configuration, unknown_sections_and_keys_are_errors_that_list_the_known_ones) {
  EXPECT_THAT(problem_of("[timing]\nfoks = 3\n"),
              testing::AllOf(HasSubstr("line 2"), HasSubstr("foks"), HasSubstr("max_forks")));
  EXPECT_THAT(problem_of("[timming]\nmax_forks = 3\n"), HasSubstr("there is no section [timming]"));
  EXPECT_THAT(problem_of("max_forks = 3\n"), HasSubstr("should be a [section]"));
  EXPECT_THAT(problem_of("[timing\n"), HasSubstr("line 1"));
}

TEST(configuration, values_are_checked_for_kind_and_range) {
  EXPECT_THAT(problem_of("[timing]\nmax_forks = 0\n"), HasSubstr("outside 1 to 1000"));
  EXPECT_THAT(problem_of("[timing]\nmax_forks = 3.5\n"), HasSubstr("should be an integer"));
  EXPECT_THAT(problem_of("[timing]\nmax_seconds = \"long\"\n"), HasSubstr("should be a number"));
  EXPECT_THAT(problem_of("[timing]\nmax_seconds = nan\n"), HasSubstr("outside"));
  EXPECT_EQ(problem_of("[timing]\nmax_seconds = 3\n"), "");
}

TEST(configuration, flags_win_over_the_environment_and_that_over_the_file) {
  const auto c = load_configuration(std::nullopt, "/does/not/exist",
                                    {"CUDAL1_TIMING_MAX_FORKS=5", "CUDAL1_SEARCH_POLICY=random", "PATH=/bin"},
                                    {"timing.max_forks=6", "device.allow_weak_confinement=true"});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->timing.max_forks, 6);
  EXPECT_EQ(c->search.policy, "random");
  EXPECT_TRUE(c->device.allow_weak_confinement);
  EXPECT_THAT(load_configuration("/does/not/exist", "", {}, {}).error().message, HasSubstr("/does/not/exist"));
  EXPECT_THAT(load_configuration(std::nullopt, "", {"CUDAL1_TIMING_MAX_FORKS=x"}, {}).error().message,
              HasSubstr("CUDAL1_TIMING_MAX_FORKS"));
  EXPECT_THAT(load_configuration(std::nullopt, "", {}, {"max_forks=3"}).error().message,
              HasSubstr("section.key=value"));
}

TEST(configuration, a_gpu_has_defaults_of_its_own_and_what_is_set_holds_for_both) {
  EXPECT_LT(default_configuration("cuda").timing.target_half_width, configuration().timing.target_half_width);
  EXPECT_EQ(print_configuration(default_configuration("cpu")), print_configuration({}));
  const auto gpu = default_configuration("cuda");
  EXPECT_GT(gpu.verification.declared_draws, gpu.timing.screening_pairs) << "a screening needs no draw more";
  for (const char* kind : {"cpu", "cuda"}) {
    const auto c = load_configuration(std::nullopt, "/does/not/exist", {}, {"timing.target_half_width=0.3"}, kind);
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_EQ(c->timing.target_half_width, 0.3) << kind;
  }
}

}  // namespace
}  // namespace cudal1
