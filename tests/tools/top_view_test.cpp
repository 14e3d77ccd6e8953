#include "tools/cli/top_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/cli/format.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

terminal size(std::size_t width, std::size_t height, bool color = false) {
  terminal t;
  t.live = true;
  t.color = color;
  t.width = width;
  t.height = height;
  return t;
}

top_state busy_node(int tasks) {
  top_state s;
  s.place = "/srv/cudal1";
  s.node.emplace();
  s.node->pid = 4711;
  s.node->devices = {{{"cuda:0", "NVIDIA H200", "d", "i"}, {}}, {{"cuda:1", "NVIDIA H200", "d", "i"}, {}}};
  s.node->troubled = {{"cuda:2", "it has fallen off the bus", true}};
  s.node->experiments = {"e3"};
  top_experiment e;
  e.limits = {"cuda:0", "evolutionary", 240};
  e.progress.experiment = "e3";
  e.progress.active_s = 60;
  e.progress.evaluations = 300;
  e.progress.planned = 600;
  e.progress.evaluations_per_s = 5;
  e.progress.device_busy = 0.97;
  e.progress.outcomes = {{"correct", 290}, {"hang", 10}};
  e.in_flight = 6;
  e.recent_ms = {{"time", 60}, {"check", 40}, {"compile", 900}};
  for (int i = 0; i < tasks; ++i)
    e.progress.tasks.push_back({"id", "task_number_" + std::to_string(i), 10, 9, 1.0 + i % 5, "v"});
  s.experiments.push_back(std::move(e));
  return s;
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines)
    text += line + "\n";
  return text;
}

TEST(top_view, shows_devices_progress_time_left_and_the_best) {
  const auto text = text_of(top_frame(busy_node(4), size(80, 24)));
  EXPECT_THAT(text, AllOf(HasSubstr("Node 4711 on /srv/cudal1"), HasSubstr("e3, busy 97%"), HasSubstr("idle"),
                          HasSubstr("cuda:2    does not work: it has fallen off the bus")));
  EXPECT_THAT(text, AllOf(HasSubstr("e3  evolutionary on cuda:0"), HasSubstr("1:00, 1:00 left"),
                          HasSubstr("[############............]  300 of 600 evaluations, 5.00/s; in flight 6"),
                          HasSubstr("3 of 4 tasks ahead; failed: hang 10"),
                          HasSubstr("on the device now: check 40%, time 60%")));
  EXPECT_LT(text.find("task_number_3"), text.find("task_number_1")) << "the best comes first";
}

TEST(top_view, fits_every_size) {
  for (const bool color : {false, true})
    for (std::size_t width = 30; width < 160; width += 11)
      for (std::size_t height = 3; height < 60; height += 5) {
        const auto lines = top_frame(busy_node(40), size(width, height, color));
        EXPECT_LE(lines.size(), height);
        for (const auto& line : lines)
          EXPECT_LT(display_width(line), width) << line;
      }
}

TEST(top_view, the_time_left_is_that_of_the_first_limit) {
  experiment_progress p;
  EXPECT_FALSE(remaining_s(p, {})) << "no limit";
  p.active_s = 60;
  p.evaluations = 100;
  p.planned = 150;
  EXPECT_DOUBLE_EQ(*remaining_s(p, {}), 30);
  EXPECT_DOUBLE_EQ(*remaining_s(p, {"cpu", "random", 70}), 10);
  p.evaluations = 160;
  EXPECT_DOUBLE_EQ(*remaining_s(p, {}), 0) << "repeated attempts may exceed the plan";
}

TEST(top_view, says_that_no_node_runs_and_that_nothing_runs_on_it) {
  top_state s;
  s.place = "/srv/cudal1";
  EXPECT_THAT(text_of(top_frame(s, size(80, 24))), HasSubstr("No node runs on /srv/cudal1. `cudal1 run` starts one."));
  auto idle = busy_node(1);
  idle.experiments.clear();
  idle.node->experiments.clear();
  EXPECT_THAT(text_of(top_frame(idle, size(80, 24))), AllOf(HasSubstr("No experiment runs."), Not(HasSubstr("busy"))));
}

}  // namespace
}  // namespace cudal1::cli
