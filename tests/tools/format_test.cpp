#include "tools/cli/format.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/cli/table.hpp"

namespace cudal1::cli {
namespace {

TEST(format, times_have_three_significant_digits_in_the_unit_that_fits) {
  EXPECT_EQ(format_time(0.5124), "0.512 µs");
  EXPECT_EQ(format_time(1.8349), "1.83 µs");
  EXPECT_EQ(format_time(812.4), "812 µs");
  EXPECT_EQ(format_time(999.4), "999 µs");
  EXPECT_EQ(format_time(999.6), "1.00 ms");
  EXPECT_EQ(format_time(1834), "1.83 ms");
  EXPECT_EQ(format_time(24e3), "24.0 ms");
  EXPECT_EQ(format_time(2.1e6), "2.10 s");
  EXPECT_EQ(format_time(0), "-");
}

TEST(format, speedups_share_their_decimals_with_the_interval) {
  EXPECT_EQ(format_speedup(1.834, {1.801, 1.864}), "1.83x [1.80, 1.86]");
  EXPECT_EQ(format_speedup(22.9, {22.14, 23.46}), "22.9x [22.1, 23.5]");
  EXPECT_EQ(format_speedup(9.997), "10.0x");
  EXPECT_EQ(format_speedup(183.4), "183x");
  EXPECT_EQ(format_speedup(0.9714), "0.971x");
}

TEST(format, durations_are_read_as_people_write_them) {
  EXPECT_DOUBLE_EQ(*parse_duration("4m"), 240);
  EXPECT_DOUBLE_EQ(*parse_duration("230s"), 230);
  EXPECT_DOUBLE_EQ(*parse_duration("1h30m"), 5400);
  EXPECT_DOUBLE_EQ(*parse_duration("250ms"), 0.25);
  EXPECT_DOUBLE_EQ(*parse_duration("1.5m"), 90);
  EXPECT_DOUBLE_EQ(*parse_duration("90"), 90);
  for (const auto* wrong : {"", "0", "-3s", "4 m", "4x", "m", "1h30", "nan", "inf", "1e3s"})
    EXPECT_FALSE(parse_duration(wrong)) << wrong;
  EXPECT_THAT(parse_duration("4x").error().message, testing::HasSubstr("90s, 4m, 1h30m or 250ms"));
}

TEST(format, bytes_clocks_and_counts) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(12.0 * (1 << 30)), "12.0 GiB");
  EXPECT_EQ(format_clock(42.9), "0:42");
  EXPECT_EQ(format_clock(3723), "1:02:03");
  EXPECT_EQ(format_count(1, "task"), "1 task");
  EXPECT_EQ(format_count(3, "task"), "3 tasks");
}

TEST(format, failures_come_most_frequent_first_without_the_correct_ones) {
  EXPECT_EQ(format_failures({{"correct", 90}, {"hang", 1}, {"wrong_answer", 3}}), "wrong_answer 3, hang 1");
  EXPECT_EQ(format_failures({{"correct", 90}}), "");
}

TEST(format, cutting_counts_columns_and_not_bytes) {
  EXPECT_EQ(display_width("812 µs"), 6U);
  EXPECT_EQ(display_width("\033[1mbold\033[0m"), 4U);
  EXPECT_EQ(fit("µµµµµ", 3), "µµ…");
  EXPECT_EQ(fit("abc", 3), "abc");
  EXPECT_EQ(fit("\033[1mabcdef\033[0m", 4), "\033[1mabc…\033[0m");
  EXPECT_EQ(pad("µ", 3, alignment::right), "  µ");
}

TEST(format, wrapping_keeps_words_whole_and_the_margin) {
  EXPECT_EQ(wrap("one two three", 9, 2), "  one two\n  three");
  EXPECT_EQ(wrap("indivisible", 4, 2), "  indivisible");
  EXPECT_EQ(wrap("no limit at all", 0), "no limit at all");
}

TEST(format, a_schedule_is_shown_without_its_parameter_names) {
  EXPECT_EQ(short_schedule("fuse(steps=0..1); block(group=0, threads=256)"), "fuse(0..1) block(0,256)");
  EXPECT_EQ(short_schedule("not a (schedule"), "not a (schedule");
  std::string network, shown;
  for (int step = 0; step < 80; ++step) {
    network += fmt::format("{}fuse(steps={})", step > 0 ? "; " : "", step);
    if (step < 10) shown += fmt::format("fuse({}) ", step);
  }
  EXPECT_EQ(short_schedule(network), shown + "... and 70 more");
}

table three_columns() {
  table t({{.title = "name", .least_width = 4},
           {.title = "n", .right = true},
           {.title = "remark", .least_width = 6, .drop = 1}});
  t.add({"a", "1", "first"});
  t.add({"a long name", "1234", "a remark of some length"});
  return t;
}

TEST(table, without_a_limit_shows_everything_aligned) {
  EXPECT_EQ(three_columns().text(0),
            "name            n  remark\n"
            "a               1  first\n"
            "a long name  1234  a remark of some length\n");
}

TEST(table, cuts_the_widest_column_first_and_never_exceeds_the_width) {
  EXPECT_EQ(three_columns().text(30),
            "name            n  remark\n"
            "a               1  first\n"
            "a long name  1234  a remark o…\n");
  for (std::size_t width = 10; width < 60; ++width)
    for (const auto& line : split_lines(three_columns().text(width)))
      EXPECT_LE(display_width(line), width) << line;
}

TEST(table, drops_a_column_where_cutting_does_not_help) {
  EXPECT_EQ(three_columns().text(12),
            "name       n\n"
            "a          1\n"
            "a lon…  1234\n");
}

TEST(rewrap, continues_a_line_where_its_last_column_begins) {
  EXPECT_EQ(rewrap("  --flag NAME   what it does in many words\nshort\n\n  0    ended as it should have ended\n", 32),
            "  --flag NAME   what it does in\n"
            "                many words\n"
            "short\n"
            "\n"
            "  0    ended as it should have\n"
            "       ended\n");
  EXPECT_EQ(rewrap("a line without a limit", 0), "a line without a limit\n");
}

TEST(table, markdown_escapes_what_would_break_it) {
  table t({{.title = "a"}, {.title = "b", .right = true}});
  t.add({"x|y", "1"});
  EXPECT_EQ(t.markdown(), "| a | b |\n|---|---:|\n| x\\|y | 1 |\n");
}

}  // namespace
}  // namespace cudal1::cli
