// Charts as text: scales, escaping, and what is drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/charts/bar_chart.hpp"
#include "tools/charts/curve_chart.hpp"
#include "tools/charts/escape.hpp"
#include "tools/charts/range_chart.hpp"
#include "tools/charts/scale.hpp"
#include "tools/charts/strip_plot.hpp"

namespace cudal1::charts {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* hostile = "</title><script>alert('1')</script>\"&\x02\xff";

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++n;
  return n;
}

std::string plain(double v) {
  return std::to_string(static_cast<int>(v));
}

TEST(charts, text_is_escaped_for_contents_and_attributes) {
  EXPECT_EQ(escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(escaped("x\ty\n"), "x\ty\n");
  EXPECT_EQ(escaped(std::string("\x01\x7f\xff", 3)), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escaped("µ 3×"), "µ 3×");
}

TEST(charts, a_scale_maps_its_ends_and_clamps) {
  const scale linear(scale_kind::linear, 0, 10, 100, 200);
  EXPECT_DOUBLE_EQ(linear(0), 100);
  EXPECT_DOUBLE_EQ(linear(5), 150);
  EXPECT_DOUBLE_EQ(linear(20), 200);
  const scale log(scale_kind::logarithmic, 1, 100, 0, 2);
  EXPECT_DOUBLE_EQ(log(10), 1);
  EXPECT_DOUBLE_EQ(log(0), 0) << "a value that has no logarithm is at the low end";
  const scale none(scale_kind::linear, 3, 3, 0, 1);
  EXPECT_LT(none.low(), none.high()) << "a range without an extent is widened";
}

TEST(charts, ticks_are_round_and_no_more_than_asked_for) {
  EXPECT_THAT(scale(scale_kind::linear, 0, 10, 0, 1).ticks(6), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(scale(scale_kind::linear, 0, 2, 0, 1).ticks(6), ElementsAre(0, 0.5, 1, 1.5, 2));
  EXPECT_THAT(scale(scale_kind::linear, 0, 2, 0, 1).ticks(6, 1), ElementsAre(0, 1, 2)) << "of counts";
  EXPECT_THAT(scale(scale_kind::logarithmic, 1, 100, 0, 1).ticks(4), ElementsAre(1, 10, 100));
  for (const double high : {1.05, 1.7, 3.0, 42.0, 1e5})
    for (const std::size_t most : {2U, 4U, 8U}) {
      const auto ticks = scale(scale_kind::logarithmic, 1, high, 0, 1).ticks(most);
      EXPECT_FALSE(ticks.empty());
      EXPECT_LE(ticks.size(), most);
      for (const double t : ticks)
        EXPECT_TRUE(t >= 0.999999 && t <= high * 1.000001) << t << " of " << high;
    }
}

TEST(charts, bars_have_an_interval_a_tone_and_text_for_those_who_do_not_see_them) {
  const std::vector<bar> bars = {{.label = "softmax", .value = 4, .low = 3.5, .high = 4.5, .text = "4.00x"},
                                 {.label = "even", .value = 1, .text = "1.00x", .tone = bar_tone::even}};
  const auto svg =
      bar_chart({"id", "Speedups", "softmax 4.00x"}, bars, {scale_kind::logarithmic, 1, plain, "axis"}, 700);
  EXPECT_THAT(
      svg, AllOf(HasSubstr("role=\"img\" aria-labelledby=\"id-t id-d\""),
                 HasSubstr("<title id=\"id-t\">Speedups</title>"), HasSubstr("<desc id=\"id-d\">softmax 4.00x</desc>"),
                 HasSubstr(">softmax</text>"), HasSubstr(">4.00x</text>")));
  EXPECT_EQ(count(svg, "class=\"c-bar\""), 1U);
  EXPECT_EQ(count(svg, "class=\"c-even\""), 1U);
  EXPECT_EQ(count(svg, "class=\"c-whisker\""), 3U) << "a line and its two ends";
}

TEST(charts, many_bars_stand_upright_in_a_bounded_picture) {
  std::vector<bar> bars(250);
  for (std::size_t i = 0; i < bars.size(); ++i)
    bars[i] = {.label = "task", .value = 1 + 0.1 * static_cast<double>(i), .text = "x"};
  const auto svg = bar_chart({"id", "t", "d"}, bars, {scale_kind::logarithmic, 1, plain, "axis"}, 700);
  EXPECT_EQ(count(svg, "class=\"c-bar\""), 250U);
  EXPECT_THAT(svg, AllOf(Not(HasSubstr(">task</text>")), HasSubstr("height=\"294\"")));
}

TEST(charts, hostile_text_stays_text_in_every_chart) {
  const chart_text text{"id", hostile, hostile};
  const std::vector<std::string> all = {
      bar_chart(text, {{.label = hostile, .value = 2, .text = hostile, .hover = hostile}},
                {scale_kind::linear, 0, plain, hostile}, 400),
      curve_chart(text, {{hostile, {{0, 1}}, 2}, {hostile, {{0, 1}}, 2}}, {scale_kind::linear, 0, 2, plain, hostile},
                  {scale_kind::linear, 0, 1, plain, hostile}, 400, 200),
      range_chart(text, {{hostile, 0.2, 0.4, hostile, hostile}}, hostile, hostile, 1, 2, plain, 400),
      strip_plot(text, {{hostile, {{1, 0}, {2, 1}}}}, plain, 400)};
  for (const auto& svg : all) {
    EXPECT_THAT(svg, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("\x02")), HasSubstr("&lt;script&gt;")));
    EXPECT_EQ(count(svg, "<svg"), 1U);
    EXPECT_EQ(count(svg, "<title"), count(svg, "</title>"));
  }
}

TEST(charts, a_curve_rises_in_steps_to_its_end) {
  const auto svg =
      curve_chart({"id", "t", "d"}, {{"one", {{0, 0}, {5, 1}}, 10}}, {scale_kind::linear, 0, 10, plain, "x"},
                  {scale_kind::linear, 0, 1, plain, "y"}, 158, 162);
  // 100 pixels across from 46, 100 up from 120.
  EXPECT_THAT(svg, HasSubstr("d=\"M46,120L96,120L96,20L146,20\""));
  EXPECT_THAT(svg, Not(HasSubstr(">one</text>"))) << "one curve needs no legend";
}

TEST(charts, a_curve_of_many_steps_has_one_for_each_pixel_at_most) {
  curve many{"many", {}, 100000};
  for (int i = 0; i < 100000; ++i)
    many.points.push_back({static_cast<double>(i), 1.0 + i});
  const curve_axis x{scale_kind::linear, 0, 100000, plain, "x"}, y{scale_kind::linear, 1, 100000, plain, "y"};
  const auto svg = curve_chart({"c", "t", "d"}, {many}, x, y, 400, 300);
  EXPECT_LT(svg.size(), 30000u);
  EXPECT_THAT(svg, HasSubstr("L388,20\"/>")) << "it ends at its last point";
}

TEST(charts, lines_have_marks_and_are_stacked_into_one_picture) {
  const curve_axis x{scale_kind::linear, 1, 3, plain, "step"}, y{scale_kind::linear, 0, 2, plain, "loss"};
  const auto one =
      curve_chart({"one", "t", "d"}, {{"loss", {{1, 2}, {3, 0}}, 0}}, x, y, 400, 200, curve_form::lines, {2});
  EXPECT_EQ(count(one, "class=\"c-mark\""), 1u);
  EXPECT_THAT(one, testing::ContainsRegex("class=\"c-curve s0\" d=\"M46,20L388,158\""));
  const auto both = stacked({"both", "t", "d"}, {one, curve_chart({"two", "t", "d"}, {}, x, y, 500, 200)});
  EXPECT_THAT(both, HasSubstr("viewBox=\"0 0 500 400\""));
  EXPECT_THAT(both, HasSubstr("<svg y=\"200\""));
  EXPECT_EQ(count(both, "<svg"), count(both, "</svg>"));
}

TEST(charts, a_strip_has_a_dot_for_each_sample_and_a_line_at_the_median) {
  const auto svg = strip_plot(
      {"id", "t", "d"}, {{"a", {{1, 0}, {2, 0}, {9, 1}}}, {"b", {{1, 0}}}}, [](double v) { return plain(v) + " us"; },
      400);
  EXPECT_EQ(count(svg, "class=\"c-sample2\""), 3U);
  EXPECT_EQ(count(svg, "class=\"c-sample\""), 1U);
  EXPECT_THAT(svg, HasSubstr("c-value\" x="));
  EXPECT_THAT(svg, HasSubstr(">2 us</text>"));
}

TEST(charts, a_file_of_its_own_has_its_style) {
  const auto file = standalone(
      bar_chart({"id", "t", "d"}, {{.label = "a", .value = 1, .text = "1"}}, {scale_kind::linear, 0, plain, ""}, 300));
  EXPECT_THAT(file, AllOf(testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""), HasSubstr("<style>"),
                          HasSubstr("prefers-color-scheme:dark"), HasSubstr(".c-bar{")));
}

TEST(charts, labels_are_cut_between_characters) {
  EXPECT_EQ(shortened("softmax", 7), "softmax");
  EXPECT_EQ(shortened("softmax", 4), "sof…");
  EXPECT_EQ(shortened("µµµµ", 3), "µµ…");
  for (const std::string text : {"a", "best variant", "scaled_masked_softmax"})
    EXPECT_EQ(shortened_to_width(text, label_width(text)), text);
}

}  // namespace
}  // namespace cudal1::charts
