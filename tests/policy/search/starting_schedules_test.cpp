// The starting schedules: their programs must not change by accident.
#include "policy/search/starting_schedules.hpp"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

// Programs are identified, also in stores, by the hash of their canonical text: a change of a kernel's text, of a name
// or of a comment changes the ids. If that is intended, copy the file that the failure names.
TEST(WholeSchedules, OfTheBuiltInTasksHaveTheProgramsInTheCheckedInList) {
  const auto folder = builtin_task_folder();
  ASSERT_TRUE(folder) << folder.error().message;
  std::string lines;
  for (const char* name : {"cpu", "cuda"}) {
    const auto tasks = load_tasks(*folder, name);  // at the sizes for this kind of device
    ASSERT_TRUE(tasks) << tasks.error().message;
    EXPECT_EQ(tasks->size(), 30u);
    const lowering_target& target = target_named(name);
    for (const auto& t : *tasks) {
      for (const auto& s : whole_schedules(t, target)) {
        const auto result = lower(t, s, target);
        ASSERT_TRUE(result) << t.name << ": " << result.error().message;
        lines += t.name + ' ' + name + ' ' + result->checked.id + ' ' + print_schedule(s) + '\n';
      }
    }
  }
  std::ifstream file(CUDAL1_STARTING_PROGRAMS, std::ios::binary);
  ASSERT_TRUE(file) << CUDAL1_STARTING_PROGRAMS;
  const std::string wanted{std::istreambuf_iterator<char>(file), {}};
  const std::string made = testing::TempDir() + "starting_programs.txt";
  if (lines != wanted) std::ofstream(made, std::ios::binary) << lines;
  EXPECT_EQ(lines, wanted) << "the current list is in " << made;
}

}  // namespace
}  // namespace cudal1::test
