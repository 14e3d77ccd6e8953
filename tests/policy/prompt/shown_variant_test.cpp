#include "policy/prompt/shown_variant.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/prompt/counter_text.hpp"
#include "policy/prompt/quantities.hpp"
#include "tests/policy/prompt/prompt_fixture.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(shown_variant, has_the_worst_elements_of_a_failing_draw) {
  const auto p = contrastive_prompt("rms_norm", "cpu");
  const auto s = shown(p.failed.front(), std::nullopt);
  ASSERT_THAT(s.worst, SizeIs(1));
  EXPECT_EQ(s.worst[0],
            "inputs of kind wide_normal: 512 of 393216 elements of y are outside the tolerance; at flat index 1553 it "
            "is 1.5 and should be 1.25");
  EXPECT_THAT(s.failed_gates, SizeIs(1));
}

TEST(shown_variant, has_its_share_of_the_roof_only_where_it_is_of_this_task) {
  auto p = contrastive_prompt("rms_norm", "cuda");
  const auto roof = bounds_of(*p.what, *value_of(find_device_data("NVIDIA H200"))).roof;
  auto& e = p.exemplars.front();
  EXPECT_NEAR(shown(e, roof).roof_share, roof->device_us() / 205, 1e-9);
  e.known.similarity = 0.5;
  EXPECT_EQ(shown(e, roof).roof_share, 0);
}

TEST(shown_variant, has_the_counters_that_were_kept_in_its_environment) {
  auto p = contrastive_prompt("rms_norm", "cuda");
  p.exemplars[0].known.result.environment_id = "e1";
  p.exemplars[1].known.result.environment_id = "e2";
  const auto data = std::filesystem::path(testing::TempDir()) / "shown_variant_counters";
  std::filesystem::remove_all(data);
  for (const auto& e : p.exemplars)
    ASSERT_TRUE(holds(keep_counters(profile_folder(data.string()), profile_for(e, true))));
  auto from = sources_for(p, answer_form::program);
  from.counters = value_of(counters_of(p, profile_folder(data.string())));
  std::filesystem::remove_all(data);
  const auto document = build_document(p, from);
  ASSERT_TRUE(holds(document));
  ASSERT_THAT(document->exemplars[0].counters, SizeIs(2));
  EXPECT_THAT(document->exemplars[0].counters[0], HasSubstr("occupancy 92% of 100%, DRAM 88%"));
  EXPECT_THAT(document->exemplars[0].counters[1], HasSubstr("global or local memory 71%"));
  EXPECT_THAT(document->exemplars[1].counters, SizeIs(0)) << "it was read in another environment";
}

TEST(counter_lines, leave_out_what_was_not_read) {
  kernel_counters k;
  k.kernel = "k0";
  k.us = 3;
  k.share = 1;
  k.l2_pct = 12;
  EXPECT_THAT(counter_lines({"", "", "", "", 0, {k}}),
              testing::ElementsAre("Counters of k0 (3.00 us, 100% of its kernels' time): L2 12% of peak"));
  EXPECT_THAT(counter_lines({}), SizeIs(0));
}

TEST(useful_log, keeps_the_lines_that_say_what_is_wrong) {
  const auto text = useful_log("In file included from x:\n\nprogram.cu:3:1: error: no\n   context\nnote: see\n", 16);
  EXPECT_EQ(text, "program.cu:3:1: error: no\nnote: see\n");
}

TEST(useful_log, is_cut_after_the_first_errors_and_keeps_a_log_without_any) {
  std::string many;
  for (int i = 0; i < 40; ++i)
    many += "program.cu:" + std::to_string(i) + ": error: no\n";
  const auto text = useful_log(many, 3);
  EXPECT_THAT(text, HasSubstr("program.cu:2:"));
  EXPECT_THAT(text, Not(HasSubstr("program.cu:3:")));
  EXPECT_TRUE(text.ends_with("...\n"));
  EXPECT_EQ(useful_log("something else\n", 3), "something else\n");
  EXPECT_EQ(useful_log("", 3), "");
}

TEST(readable_program, puts_each_step_on_a_line_and_reads_back_unchanged) {
  const auto p = contrastive_prompt("rms_norm", "cpu");
  const auto& stored = p.exemplars.front().known.variant.program;
  const auto text = readable_program(stored);
  EXPECT_GT(std::count(text.begin(), text.end(), '\n'), std::count(stored.begin(), stored.end(), '\n'));
  EXPECT_EQ(program_id(value_of(read_program(text))), p.exemplars.front().id());
  EXPECT_EQ(readable_program("no program"), "no program");
}

TEST(quantities, have_three_digits_and_a_unit) {
  EXPECT_EQ(time_text(0), "unknown");
  EXPECT_EQ(time_text(9.999), "10.0 us");
  EXPECT_EQ(time_text(812), "812 us");
  EXPECT_EQ(time_text(1834), "1.83 ms");
  EXPECT_EQ(size_text(512), "512 B");
  EXPECT_EQ(size_text(16.8e6), "16.8 MB");
  EXPECT_EQ(flops_text(0), "no arithmetic");
  EXPECT_EQ(flops_text(1.07e9), "1.07 GFLOP");
}

}  // namespace
}  // namespace cudal1
