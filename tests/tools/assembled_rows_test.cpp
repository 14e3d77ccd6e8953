// Variants that were put together from parts: what is predicted of them, and what the report says where it is far off.
#include "tools/cli/report/assembled_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/cli/report/report.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

assembled_row row(int64_t measured_parts, double parts_us, double own_us, double measured_us, double reference_us) {
  assembled_row out;
  out.name = "network";
  out.result = "correct";
  out.measured_us = measured_us;
  out.reference_us = reference_us;
  set_prediction(out, {.origin = "",
                       .partition = "the cheapest parts",
                       .predicted_us = parts_us,
                       .own_us = own_us,
                       .parts = 4,
                       .measured_parts = measured_parts,
                       .moves_left_out = 0});
  return out;
}

std::string printed(const assembled_row& of) {
  search_report r;
  r.assembled = {of};
  return print_assembled(r, terminal());
}

TEST(assembled_rows, predict_the_sum_of_all_parts) {
  const auto all = row(4, 60, 100, 63, 104);
  EXPECT_EQ(all.predicted_us, 60);
  EXPECT_EQ(all.predicted_reference_us, 100);
  EXPECT_EQ(all.rest_us, 0);
  EXPECT_THAT(printed(all), AllOf(HasSubstr("+5%"), HasSubstr("+4%"), Not(HasSubstr("More than 15%"))));
}

TEST(assembled_rows, add_what_the_tasks_own_program_takes_beside_the_measured_parts) {
  const auto some = row(2, 30, 50, 85, 100);
  EXPECT_EQ(some.rest_us, 50);
  EXPECT_EQ(some.predicted_us, 80);
  EXPECT_EQ(some.predicted_reference_us, 100);
  EXPECT_THAT(printed(some), AllOf(HasSubstr("2 of 4"), HasSubstr("+6%"), HasSubstr("beside the measured ones"),
                                   Not(HasSubstr("More than 15%"))));
  EXPECT_EQ(row(2, 30, 120, 85, 100).rest_us, 0) << "parts that take longer alone than the whole";
}

TEST(assembled_rows, say_that_launches_of_small_parts_overlap_in_the_whole) {
  EXPECT_THAT(printed(row(4, 18, 27, 14, 24)),
              AllOf(HasSubstr("-22%"), HasSubstr("at most 3 us a part"), Not(HasSubstr("task's own program: a part"))));
  EXPECT_THAT(printed(row(2, 18, 20, 14, 24)), AllOf(HasSubstr("at most 3 us"), Not(HasSubstr("chosen anew"))));
  EXPECT_THAT(printed(row(4, 38, 50, 14, 50)), Not(HasSubstr("at most 3 us"))) << "6 us a part";
  EXPECT_THAT(printed(row(4, 14, 50, 18, 50)), Not(HasSubstr("at most 3 us"))) << "it is slower";
}

TEST(assembled_rows, say_why_a_prediction_is_far_off) {
  EXPECT_THAT(printed(row(4, 60, 100, 90, 150)), HasSubstr("and so is the task's own program"));
  EXPECT_THAT(printed(row(4, 60, 100, 90, 101)), HasSubstr("unlike the task's own program"));
  EXPECT_THAT(printed(row(2, 30, 50, 40, 100)), AllOf(HasSubstr("-50%"), HasSubstr("where parts were not measured")));
}

}  // namespace
}  // namespace cudal1::cli
