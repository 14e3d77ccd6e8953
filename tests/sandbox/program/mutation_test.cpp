// Mutated texts: reading always ends with a value or an error with a message, and an accepted text is the same program
// after printing and reading.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "sandbox/program/task.hpp"
#include "tests/sandbox/program/examples.hpp"
#include "tests/sandbox/program/mutator.hpp"

namespace cudal1 {
namespace {

constexpr uint64_t seed = 20260;

std::vector<std::string> task_files() {
  std::vector<std::string> texts;
  const auto folder = builtin_task_folder();
  EXPECT_TRUE(folder);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(*folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());  // the same corpus on every file system
  for (const auto& path : paths) {
    std::ifstream file(path);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

std::vector<std::string> programs() {
  std::vector<std::string> texts = {row_scale_text, prepacked_text};
  for (const auto& text : task_files())
    if (const auto t = read_task(text, "cpu")) texts.push_back(print_program(t->reference.text));
  return texts;
}

TEST(mutated_programs, are_rejected_with_a_reason_or_read_back_unchanged) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  mutator damage(seed, programs());
  int accepted = 0, read = 0;
  for (int i = 0; i < 30000; ++i) {
    const auto text = damage.next();
    const auto p = read_program(text);
    if (!p) {
      ASSERT_FALSE(p.error().message.empty());
      continue;
    }
    ++read;
    const auto again = read_program(print_program(*p));
    ASSERT_TRUE(again) << again.error().message << "\n" << text;
    ASSERT_EQ(*again, *p) << text;
    const auto checked = check_program(*p);
    if (!checked) {
      ASSERT_FALSE(checked.error().message.empty());
      ASSERT_NE(checked.error().code, errc::infrastructure) << checked.error().message << "\n" << text;
      continue;
    }
    ++accepted;
    ASSERT_EQ(checked->id, program_id(*p)) << text;
    ASSERT_EQ(checked->text, *p) << text;
    const auto wide = to_float64(*p);
    ASSERT_TRUE(wide || !wide.error().message.empty());
  }
  // The mutations have a useful size: some texts are accepted, most are not.
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(read - accepted, 5000);
  RecordProperty("accepted", accepted);
}

TEST(mutated_tasks, are_rejected_with_a_reason_or_read_back_unchanged) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  auto corpus = task_files();
  for (std::size_t i = 0, n = corpus.size(); i < n; ++i)
    if (const auto t = read_task(corpus[i], "cuda")) corpus.push_back(canonical_text(*t));
  mutator damage(seed + 1, std::move(corpus));
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto text = damage.next();
    const auto t = read_task(text, i % 2 == 0 ? "cpu" : "cuda");
    if (!t) {
      ASSERT_FALSE(t.error().message.empty());
      ASSERT_NE(t.error().code, errc::infrastructure) << t.error().message << "\n" << text;
      continue;
    }
    ++accepted;
    const auto again = read_task(canonical_text(*t), "none");
    ASSERT_TRUE(again) << again.error().message << "\n" << text;
    ASSERT_EQ(again->id, t->id) << text;
  }
  EXPECT_GT(accepted, 500);
}

}  // namespace
}  // namespace cudal1
