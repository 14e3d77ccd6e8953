#include "tools/cli/progress.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tools/cli/format.hpp"

namespace cudal1::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

experiment_progress some_progress(int tasks) {
  experiment_progress p;
  p.experiment = "e3";
  p.state = "running";
  p.active_s = 42.4;
  p.evaluations = 312;
  p.planned = 480;
  p.evaluations_per_s = 7.414;
  p.outcomes = {{"correct", 300}, {"wrong_answer", 8}, {"hang", 4}};
  for (int i = 0; i < tasks; ++i)
    p.tasks.push_back({"id" + std::to_string(i), "task_number_" + std::to_string(i), 10 + i, 9, i % 2 == 0 ? 2.5 : 0,
                       "0123456789abcdef"});
  return p;
}

terminal size(std::size_t width, std::size_t height, bool color = false) {
  terminal t;
  t.live = true;
  t.color = color;
  t.width = width;
  t.height = height;
  return t;
}

TEST(progress, a_frame_shows_time_rate_best_speedups_and_failures) {
  const auto lines = progress_frame(some_progress(3), {"cpu", "evolutionary", 240}, size(80, 40), "");
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_THAT(lines[0], HasSubstr("e3 on cpu, policy evolutionary"));
  EXPECT_THAT(lines[0], HasSubstr("0:42 of 4:00"));
  EXPECT_THAT(lines[1], HasSubstr("312 of 480 evaluations, 7.41/s"));
  EXPECT_THAT(lines[2], HasSubstr("task_number_0"));
  EXPECT_THAT(lines[2], HasSubstr("2.50x"));
  EXPECT_THAT(lines[4], HasSubstr("2 of 3 tasks ahead; failed: wrong_answer 8, hang 4"));
}

TEST(progress, a_frame_fits_every_width_and_height) {
  const auto p = some_progress(30);
  for (const bool color : {false, true})
    for (std::size_t width = 20; width < 200; width += 7)
      for (std::size_t height = 6; height < 50; height += 3) {
        const auto lines = progress_frame(p, {"cpu", "evolutionary", 240}, size(width, height, color), "stopping");
        EXPECT_LT(lines.size(), height) << "width " << width;
        EXPECT_THAT(lines.back(), HasSubstr("stopping"));
        for (const auto& line : lines)
          EXPECT_LT(display_width(line), width) << line;
      }
}

TEST(progress, of_several_models_has_a_frame_for_each) {
  auto lead = some_progress(20), other = some_progress(20);
  lead.model = "H200";
  other.model = "H100";
  other.experiment = "e4";
  const auto lines = search_frame(lead, {other}, {"cuda", "evolutionary", 240}, size(80, 40), "stopping");
  EXPECT_LT(lines.size(), 40U);
  EXPECT_THAT(lines.front(), HasSubstr("e3 on cuda (H200)"));
  EXPECT_THAT(lines, testing::Contains(HasSubstr("e4 on cuda (H100)")));
  EXPECT_THAT(lines.back(), HasSubstr("stopping"));
  EXPECT_THAT(search_frame(lead, {}, {"cuda", "random", 0}, size(80, 40), "").front(), Not(HasSubstr("H200")));
}

TEST(progress, a_wide_terminal_shows_the_same_tasks_in_fewer_lines) {
  const auto narrow = progress_frame(some_progress(30), {"cpu", "random", 0}, size(60, 0), "");
  const auto wide = progress_frame(some_progress(30), {"cpu", "random", 0}, size(160, 0), "");
  EXPECT_LT(wide.size(), narrow.size());
  std::string all;
  for (const auto& line : wide)
    all += line + "\n";
  for (int i = 0; i < 30; ++i)
    EXPECT_THAT(all, HasSubstr("task_number_" + std::to_string(i)));
}

TEST(progress, a_line_for_a_pipe_shows_the_same) {
  EXPECT_EQ(progress_line(some_progress(3)),
            "   0:42  312 of 480 evaluations, 7.41/s, 2 of 3 tasks ahead; failed: wrong_answer 8, hang 4");
}

// A stream that is not a terminal, and what was written to it.
class captured {
 public:
  captured() : file_(std::tmpfile()) {}
  ~captured() { std::fclose(file_); }
  std::FILE* stream() const { return file_; }
  std::string text() const {
    std::fflush(file_);
    std::string out(static_cast<std::size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    if (std::fread(out.data(), 1, out.size(), file_) != out.size()) ADD_FAILURE() << "cannot read back";
    return out;
  }

 private:
  std::FILE* file_;
};

TEST(progress, a_pipe_gets_each_new_best_once_and_no_escape_sequences) {
  captured out;
  run_view view(examine(out.stream()), {"cpu", "random", 240});
  auto p = some_progress(3);
  view.remark("searching 3 tasks on cpu");
  view.remark("searching 3 tasks on cpu");
  view.update(p);
  view.update(p);
  p.tasks[1].best = 3.21;
  p.active_s = 43;
  view.update(p);
  view.close();
  EXPECT_EQ(out.text(),
            "searching 3 tasks on cpu\n"
            "   0:42  task_number_0 2.50x, variant 0123456789ab\n"
            "   0:42  task_number_2 2.50x, variant 0123456789ab\n"
            "   0:42  312 of 480 evaluations, 7.41/s, 2 of 3 tasks ahead; failed: wrong_answer 8, hang 4\n"
            "   0:43  task_number_1 3.21x, variant 0123456789ab\n");
}

TEST(progress, a_pipe_says_which_model_a_best_is_of) {
  captured out;
  run_view view(examine(out.stream()), {"cuda", "random", 240});
  auto lead = some_progress(1), other = some_progress(1);
  lead.model = "H200";
  other.model = "H100";
  other.experiment = "e4";
  other.tasks[0].best = 1.5;
  view.update(lead, {other});
  view.update(lead, {other});
  EXPECT_EQ(out.text(),
            "   0:42  task_number_0 2.50x on H200, variant 0123456789ab\n"
            "   0:42  312 of 480 evaluations, 7.41/s, 1 of 1 tasks ahead; failed: wrong_answer 8, hang 4 on H200\n"
            "   0:42  task_number_0 1.50x on H100, variant 0123456789ab\n"
            "   0:42  312 of 480 evaluations, 7.41/s, 1 of 1 tasks ahead; failed: wrong_answer 8, hang 4 on H100\n");
}

TEST(progress, what_keeps_a_search_from_going_on_is_shown_at_once_and_whole) {
  captured out;
  run_view view(examine(out.stream()), {"cpu", "llm", 240});
  auto p = some_progress(1);
  view.update(p);
  p.active_s = 43;
  p.problem = "model big at http://127.0.0.1:1/v1: no connection: Connection refused (try 1 of 6)";
  view.update(p);
  p.problem.replace(p.problem.find("try 1"), 5, "try 2");
  view.update(p);
  p.problem.replace(p.problem.find("try 2"), 5, "try 1");
  const auto text = out.text();
  EXPECT_THAT(text, testing::EndsWith("; failed: wrong_answer 8, hang 4; " + p.problem + "\n"));
  EXPECT_EQ(text.find(p.problem), text.rfind(p.problem)) << "once";
  std::string frame;
  for (const auto& line : progress_frame(p, {"cpu", "llm", 240}, size(60, 40), ""))
    frame += line + " ";
  EXPECT_THAT(frame, HasSubstr("Connection refused (try 1 of 6)"));
}

TEST(live_area, redraws_in_one_place_and_shows_the_cursor_again) {
  captured out;
  {
    live_area area(out.stream());
    area.draw({"one", "two"});
    area.draw({"three"});
    area.erase();
  }
  EXPECT_EQ(out.text(),
            "\033[?25lone\033[K\ntwo\033[K\n\033[J"
            "\r\033[2Athree\033[K\n\033[J"
            "\r\033[1A\033[J\033[?25h");
}

}  // namespace
}  // namespace cudal1::cli
