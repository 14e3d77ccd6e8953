#include "actors/agent/result_spool.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

message::work_done result_of(uint64_t lease) {
  message::work_done m;
  m.lease = lease;
  m.attempt.experiment = "e1";
  m.attempt.variant = "v" + std::to_string(lease);
  m.has_verdict = true;
  m.result.score = 1.5;
  m.result.samples.resize(3);
  return m;
}

TEST(result_spool, the_next_process_finds_what_was_not_removed) {
  const temporary_folder folder;
  result_spool spool(folder.path());
  ASSERT_TRUE(spool.put(result_of(7)));
  ASSERT_TRUE(spool.put(result_of(8)));
  ASSERT_TRUE(spool.put(result_of(8))) << "a device sends a result again";
  spool.remove(7);
  spool.remove(9);
  const auto left = result_spool(folder.path()).load();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].lease, 8U);
  EXPECT_EQ(left[0].attempt.variant, "v8");
  EXPECT_EQ(left[0].result.score, 1.5);
  EXPECT_EQ(left[0].result.samples.size(), 3U);
}

TEST(result_spool, damaged_and_unfinished_files_are_removed) {
  const temporary_folder folder;
  result_spool spool(folder.path());
  ASSERT_TRUE(spool.put(result_of(1)));
  std::ofstream(folder / "results/2.json") << R"({"lease":2,"attempt":{"exper)";
  std::ofstream(folder / "results/unfinished-abcdef") << "{";
  EXPECT_EQ(spool.load().size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(folder / "results/2.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "results/unfinished-abcdef"));
}

TEST(result_spool, a_folder_that_cannot_be_written_is_an_error) {
  const temporary_folder folder;
  std::ofstream(folder / "results") << "a file";
  EXPECT_EQ(result_spool(folder.path()).put(result_of(1)).error().code, errc::io_error);
  EXPECT_TRUE(result_spool(folder.path()).load().empty());
}

}  // namespace
}  // namespace cudal1
