// cudal1 store: backups of a data folder, and what a damaged one looks like.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/blobs.hpp"
#include "tests/tools/tools_fixture.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class store_command : public testing::Test {
 protected:
  store_command() : ids_(prepare_store(data())) {
    blob_ = blobs(data()).put("weights of a model", ".bin").value();
    write_file(data() + "/cudal1.toml", "[search]\ngroup_size = 4\n");
  }
  std::string data() const { return folder_ / "data"; }
  static finished_program run_on(const std::string& folder, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--data", folder});
    return run_cudal1(arguments);
  }
  finished_program run(const std::vector<std::string>& arguments) const { return run_on(data(), arguments); }

  temporary_folder folder_;
  prepared ids_;
  std::string blob_;
};

TEST_F(store_command, a_backup_is_a_data_folder_and_restores_one) {
  const std::string copy = folder_ / "copy", restored = folder_ / "restored";
  const auto made = run({"store", "backup", copy});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("1 experiment"), HasSubstr("1 blob"), HasSubstr("cudal1 --data " + copy)));
  const auto best = run({"best"}).out;
  EXPECT_EQ(run_on(copy, {"best"}).out, best);
  EXPECT_EQ(run({"store", "backup", copy}).code, 2) << "it exists already";

  // A copy of its own: what the original loses, it keeps.
  std::filesystem::remove_all(data());
  ASSERT_EQ(run_on(restored, {"store", "restore", copy}).code, 0);
  EXPECT_EQ(run_on(restored, {"best"}).out, best);
  EXPECT_TRUE(blobs(restored).has(blob_));
  EXPECT_TRUE(std::filesystem::exists(restored + "/cudal1.toml"));
  const auto again = run_on(restored, {"store", "restore", copy});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("has a store already"));
  const auto verified = run_on(restored, {"store", "verify"});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("is in order: 1 experiment"));
}

TEST_F(store_command, prune_says_what_it_would_remove_and_keeps_the_best) {
  {
    // As many variants that none of the rules keeps all of them.
    const auto s = store::open(data() + "/store").value();
    for (int i = 0; i < 60; ++i) {
      variant_record v = s->get_variant(ids_.wrong).value();
      v.id = std::string(60, 'a') + std::to_string(1000 + i);
      v.task = ids_.diagonal;
      const auto a = s->reserve(v, ids_.experiment);
      ASSERT_TRUE(holds(a));
      verdict wrong;
      wrong.task = v.task;
      wrong.variant = v.id;
      wrong.result = outcome::wrong_answer;
      wrong.environment_id = "environment-1";
      ASSERT_TRUE(holds(s->commit(*a, wrong, s->get_environment("environment-1").value())));
    }
    auto e = s->get_experiment(ids_.experiment).value();
    e.state = experiment_state::finished;
    ASSERT_TRUE(holds(s->update_experiment(e)));
  }
  const auto best = run({"best"}).out;
  const auto planned = run({"store", "prune", "--days", "0", "--dry-run"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out,
              AllOf(HasSubstr("1 experiment"), HasSubstr("would remove 5"), HasSubstr("Nothing was changed")));
  const auto done = run({"store", "prune", "--days", "0"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("removed 5"));
  EXPECT_EQ(run({"store", "verify"}).code, 0);
  EXPECT_EQ(run({"show", ids_.best}).code, 0);
  EXPECT_THAT(run({"best"}).out, HasSubstr("diagonal_matmul"));
  EXPECT_THAT(run({"experiments"}).out, HasSubstr("finished, pruned"));
  EXPECT_THAT(run({"experiments", ids_.experiment}).out, AllOf(HasSubstr("were pruned on"), HasSubstr("22.9x")));
  EXPECT_THAT(run({"store", "prune", "--days", "0"}).out, HasSubstr("removed 0 variants"));
  EXPECT_EQ(run({"store", "prune"}).code, 2) << "the days must be named";
}

TEST_F(store_command, damage_is_listed_and_never_restored) {
  const std::string copy = folder_ / "copy", restored = folder_ / "restored";
  ASSERT_EQ(run({"store", "backup", copy}).code, 0);
  // Blobs are shared with the data folder where links are possible: a file of its own is damaged here.
  const auto path = blobs(copy).folder() + "/" + blob_;
  std::filesystem::remove(path);
  write_file(path, "weights of b model");
  const auto verified = run({"store", "verify", copy});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.err, AllOf(HasSubstr(blob_), HasSubstr("is damaged: restore it")));
  const auto refused = run_on(restored, {"store", "restore", copy});
  EXPECT_EQ(refused.code, 1);
  EXPECT_FALSE(std::filesystem::exists(restored + "/store"));
  EXPECT_EQ(run({"store", "verify"}).code, 0);
}

TEST_F(store_command, a_blob_that_a_task_names_and_that_is_missing_is_listed) {
  const std::string imported = folder_ / "imported";
  prepare_imported_store(imported);
  EXPECT_EQ(run_on(imported, {"store", "verify"}).code, 0);
  const auto source = std::filesystem::directory_iterator(imported + "/blobs")->path();
  std::filesystem::remove(source);
  const auto verified = run_on(imported, {"store", "verify"});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.err,
              AllOf(HasSubstr(source.string() + " is missing"), HasSubstr("the source of the task level1_023")));
}

TEST_F(store_command, reading_leaves_nothing_among_the_temporary_files) {
  const temporary_folder temporary;
  const std::string in = temporary / "tmp";
  std::filesystem::create_directories(in);
  // A writer that is told to stop by SIGPIPE runs no destructors.
  const auto shell = fmt::format("TMPDIR='{}' '{}' show {} --data '{}' | true", in, CUDAL1_PROGRAM, ids_.best, data());
  EXPECT_EQ(std::system(shell.c_str()), 0);
  EXPECT_TRUE(std::filesystem::is_empty(in));
}

TEST_F(store_command, a_damaged_table_is_found) {
  {
    auto s = store::open(data() + "/store").value();
    ASSERT_TRUE(s->compact());
  }
  const auto compacted = run({"store", "compact"});
  EXPECT_EQ(compacted.code, 0) << compacted.err;
  EXPECT_THAT(compacted.out, AllOf(HasSubstr(" before, "), HasSubstr(" now")));
  EXPECT_EQ(run({"store", "verify"}).code, 0);
  // The largest table loses some bytes in its middle.
  std::filesystem::path largest;
  for (const auto& file : std::filesystem::directory_iterator(data() + "/store"))
    if (file.path().extension() == ".sst" &&
        (largest.empty() || file.file_size() > std::filesystem::file_size(largest)))
      largest = file.path();
  ASSERT_FALSE(largest.empty());
  std::fstream table(largest, std::ios::in | std::ios::out | std::ios::binary);
  table.seekp(static_cast<std::streamoff>(std::filesystem::file_size(largest) / 4));
  table << std::string(64, '?');
  table.close();
  const auto verified = run({"store", "verify"});
  EXPECT_THAT(verified.code, testing::AnyOf(1, 3)) << verified.out;
  EXPECT_THAT(verified.err, HasSubstr("damaged"));
  EXPECT_EQ(run({"store", "backup", folder_ / "copy"}).code, verified.code) << "a backup of it is not called one";

  for (const auto& file : std::filesystem::directory_iterator(data() + "/store"))
    if (file.path().extension() == ".sst") std::filesystem::resize_file(file.path(), file.file_size() / 2);
  const auto cut_off = run({"store", "verify"});
  EXPECT_EQ(cut_off.code, 3) << cut_off.out;
  EXPECT_THAT(cut_off.err, HasSubstr("restore the folder from a copy"));
}

TEST_F(store_command, what_is_not_there_is_said) {
  const std::string empty = folder_ / "empty";
  EXPECT_EQ(run_on(empty, {"store", "backup", folder_ / "x"}).code, 2);
  EXPECT_THAT(run_on(empty, {"store", "verify"}).err, HasSubstr("has no store"));
  EXPECT_THAT(run_on(empty, {"store", "restore", folder_ / "nothing"}).err, HasSubstr("is no backup"));
  EXPECT_EQ(run_on(empty, {"store"}).code, 2);
}

}  // namespace
}  // namespace cudal1::cli
