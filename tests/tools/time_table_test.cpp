#include "tools/cli/report/time_table.hpp"

#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/baseline/first_look.hpp"

namespace cudal1::cli {
namespace {

using testing::ElementsAre;

// A stem, two blocks that are alike, and a step of the model's own.
task stack() {
  auto t = read_task(R"({"format": 1, "name": "stack", "summary": "s", "family": "pointwise",
    "origin": {"kind": "python", "source": "0000000000000000000000000000000000000000000000000000000000000000.py", "seed": 42,
      "modules": [
      {"path": "net", "kind": "Net", "first": 0, "count": 5},
      {"path": "net.stem", "kind": "Stem", "first": 0, "count": 1},
      {"path": "net.blocks.0", "kind": "Block", "first": 1, "count": 2},
      {"path": "net.blocks.0.norm", "kind": "Norm", "first": 1, "count": 1},
      {"path": "net.blocks.1", "kind": "Block", "first": 3, "count": 2, "like": 2},
      {"path": "net.blocks.1.norm", "kind": "Norm", "first": 3, "count": 1, "like": 3}]},
    "inputs": [{"name": "x", "dtype": "float32", "shape": [1024, 1024]}],
    "steps": [{"aten": "aten::neg", "args": {"self": "x"}, "out": ["a"]},
              {"aten": "aten::sin", "args": {"self": "a"}, "out": ["b"]},
              {"aten": "aten::mm", "args": {"self": "b", "mat2": "a"}, "out": ["c"]},
              {"aten": "aten::sin", "args": {"self": "c"}, "out": ["d"]},
              {"aten": "aten::mm", "args": {"self": "d", "mat2": "c"}, "out": ["e"]},
              {"aten": "aten::abs", "args": {"self": "e"}, "out": ["y"]}],
    "outputs": ["y"]})",
                     "cuda");
  EXPECT_TRUE(t) << t.error().message;
  return *t;
}

constexpr double step_us[] = {10, 5, 40, 6, 34, 5};

std::vector<std::string> names_of(const std::vector<time_row>& rows) {
  std::vector<std::string> names;
  for (const auto& r : rows)
    names.push_back((r.is_inside ? "- " : "") + r.name);
  return names;
}

TEST(time_table, has_one_row_for_modules_that_are_alike_and_what_is_in_them) {
  const auto times = time_table_of(stack(), step_us, std::nullopt);
  EXPECT_EQ(times.total_us, 100);
  ASSERT_THAT(names_of(times.modules), ElementsAre("net.blocks.0", "- net.blocks.0.norm", "net.stem"))
      << "the module around them says nothing";
  EXPECT_EQ(times.modules[0].calls, 2);
  EXPECT_EQ(times.modules[0].steps, 2);
  EXPECT_EQ(times.modules[0].us, 85);
  EXPECT_EQ(times.modules[1].us, 11);
  EXPECT_EQ(times.modules[1].calls, 2);
  EXPECT_EQ(times.other_us, 5);
  ASSERT_NE(longest_repeated(times), nullptr);
  EXPECT_EQ(longest_repeated(times)->name, "net.blocks.0");
}

TEST(time_table, sums_the_operators) {
  const auto times = time_table_of(stack(), step_us, std::nullopt);
  EXPECT_THAT(names_of(times.operators), ElementsAre("aten::mm", "aten::sin", "aten::neg", "aten::abs"));
  EXPECT_EQ(times.operators[0].calls, 2);
  EXPECT_EQ(times.operators[0].us, 74);
}

TEST(time_table, has_floors_of_a_known_gpu) {
  const auto all = all_device_data();
  ASSERT_TRUE(all);
  ASSERT_FALSE(all->empty());
  const auto times = time_table_of(stack(), step_us, all->front());
  // A block reads and writes 4 MiB at least.
  EXPECT_GT(times.modules[0].floor_us, 2 * times.modules[2].floor_us);
  EXPECT_GT(times.modules[2].floor_us, 0);
}

TEST(first_look, chooses_a_repeated_module_of_a_model_of_which_a_call_is_slow) {
  const task t = stack();
  const auto part_at = [&](double factor, const task& of) {
    std::vector<double> us(std::begin(step_us), std::end(step_us));
    for (double& each : us)
      each *= factor;
    return look_from(of, time_table_of(of, us, std::nullopt));
  };
  EXPECT_EQ(part_at(1, t).part, "");
  const auto slow = part_at(10'000, t);
  EXPECT_EQ(slow.part, "net.blocks.0");
  EXPECT_THAT(slow.reason, testing::HasSubstr("A call takes 1.00 s"));
  EXPECT_THAT(slow.reason, testing::HasSubstr("stands for 2 modules and 85% of the time"));
  task part = t;
  part.origin->part = "net";
  EXPECT_EQ(part_at(10'000, part).part, "") << "it is one that was chosen";
}

TEST(time_table, is_by_operator_alone_for_a_task_without_modules) {
  task t = stack();
  t.origin.reset();
  const auto times = time_table_of(t, step_us, std::nullopt);
  EXPECT_TRUE(times.modules.empty());
  EXPECT_EQ(longest_repeated(times), nullptr);
  EXPECT_THAT(print_times(times, terminal()), testing::HasSubstr("aten::mm"));
}

}  // namespace
}  // namespace cudal1::cli
