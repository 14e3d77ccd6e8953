// Commands that work on the coordinator of another machine, as its user sees them.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/program/imported_example.hpp"
#include "tests/tools/remote_fixture.hpp"

namespace cudal1::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// The contents of a folder by their names in it.
std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_file(entry.path().string());
  return files;
}

TEST_F(remote_test, what_is_read_is_the_same_as_on_the_coordinators_machine) {
  const prepared p = prepare_store(data());
  start_coordinator();
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"best"},
                                             {"best", "diagonal_matmul"},
                                             {"best", "--json"},
                                             {"show", p.best},
                                             {"show", p.wrong, "--json"},
                                             {"show", p.best, "--program"},
                                             {"report"},
                                             {"report", "--experiment", "e1", "--json"},
                                             {"experiments"},
                                             {"experiments", "e1"},
                                             {"failures"},
                                             {"audit", p.best},
                                             {"audit", "--recompute", "e1"},
                                             {"nodes", "--json"},
                                             {"devices"},
                                             {"prompt", "diagonal_matmul", "--device", "cpu"}}) {
    const auto here = run_here(command), there = run_elsewhere(command);
    SCOPED_TRACE(command.front() + " " + command.back());
    EXPECT_EQ(there.code, here.code) << there.err;
    if (command.front() != "nodes") {  // they say for how long
      EXPECT_EQ(there.out, here.out);
    }
    EXPECT_EQ(there.err, here.err);
    EXPECT_NE(there.out, "");
  }
  ASSERT_EQ(run_here({"export", folder_ / "here"}).code, 0);
  const auto exported = run_elsewhere({"export", folder_ / "there"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(files_in(folder_ / "there"), files_in(folder_ / "here"));

  const auto status = document_of(run_elsewhere({"status", "--json"}));
  EXPECT_EQ(at(status, "data"), json(address()));
  EXPECT_EQ(at(status, "node.data"), json(data()));
  EXPECT_EQ(at(status, "counts.tasks"), json(2));
  EXPECT_THAT(run_elsewhere({"status"}).out, HasSubstr("A node runs on " + address() + ", folder " + data()));
  EXPECT_THAT(run_elsewhere({"show", "feedbeef"}).err,
              HasSubstr("the store of " + address() + " has no variant feedbeef"));
  EXPECT_FALSE(fs::exists(home())) << "nothing of it needs files here";
}

TEST_F(remote_test, models_are_exported_with_the_blobs_of_the_coordinator) {
  prepare_imported_store(data());
  start_coordinator();
  const std::vector<std::string> models = {"--format", "kernelbench", "--no-check"};
  std::vector<std::string> here = {"export", folder_ / "here"}, there = {"export", folder_ / "there"};
  here.insert(here.end(), models.begin(), models.end());
  there.insert(there.end(), models.begin(), models.end());
  ASSERT_EQ(run_here(here).code, 0);
  const auto exported = run_elsewhere(there);
  ASSERT_EQ(exported.code, 0) << exported.out << exported.err;
  EXPECT_EQ(files_in(folder_ / "there"), files_in(folder_ / "here"));
  EXPECT_EQ(files_in(home() + "/remote/blobs"), files_in(data() + "/blobs"));
}

TEST_F(remote_test, a_search_shows_its_progress_and_its_table) {
  fs::create_directories(folder_ / "tasks");
  write_file(folder_ / "tasks/tiny.json", tiny_task);
  start_coordinator();
  EXPECT_THAT(run_elsewhere({"best"}).out, HasSubstr("The store has no evaluations yet"));
  const auto p = run_elsewhere({"run", "--tasks", folder_ / "tasks", "--evaluations", "4", "--policy", "random"});
  ASSERT_EQ(p.code, 0) << p.out << p.err;
  EXPECT_THAT(p.out, AllOf(HasSubstr("searching 1 task on cpu"), HasSubstr("Experiment e1 (finished), policy random"),
                           HasSubstr("4 evaluations in "), HasSubstr("Kept in " + address())));
  const auto kept = document_of(run_here({"experiments", "e1", "--json"}));
  EXPECT_EQ(at(kept, "evaluations"), json(4));
  EXPECT_EQ(run_elsewhere({"experiments", "e1"}).out, run_here({"experiments", "e1"}).out);

  // PyTorch is measured by commands on the coordinator's machine; the table is printed all the same.
  const auto eager = run_elsewhere({"run", "--tasks", folder_ / "tasks", "--evaluations", "1", "--against", "eager"});
  EXPECT_EQ(eager.code, 0) << eager.err;
  EXPECT_THAT(eager.out, AllOf(HasSubstr("eager was not measured: `cudal1 baseline --experiment e2"),
                               HasSubstr("speedup, 95% interval"), testing::Not(HasSubstr("over eager"))));

  // The node's own limits and policy where the command line has none.
  const auto defaults = run_elsewhere({"run", "--tasks", folder_ / "tasks", "--json"});
  ASSERT_EQ(defaults.code, 0) << defaults.err;
  EXPECT_EQ(at(document_of(defaults), "policy"), json("evolutionary"));
}

TEST_F(remote_test, weights_of_a_task_are_sent_to_the_coordinator) {
  const imported_example example;
  const task t = example.load();
  write_file(folder_ / "own.cu1", print_program(t.reference.text));
  start_coordinator();
  const std::vector<std::string> evaluate = {"evaluate", example.task_file, folder_ / "own.cu1", "--json"};
  auto p = run_elsewhere(evaluate);
  ASSERT_THAT(p.code, AnyOf(0, 1)) << p.err;
  // On a busy machine the interval of such short calls may be too wide for a score.
  EXPECT_THAT(at(document_of(p), "programs.0.result.result").as_string(), AnyOf("correct", "unmeasurable"));
  for (const auto& file : {example.blob, example.source})
    EXPECT_EQ(read_file(data() + "/blobs/" + file), read_file(example.blobs() + "/" + file));
  // They are there now.
  fs::remove_all(example.blobs());
  EXPECT_THAT(run_elsewhere(evaluate).code, AnyOf(0, 1));
  for (const auto& entry : fs::directory_iterator(data()))
    EXPECT_FALSE(entry.path().filename().string().starts_with("incoming")) << entry.path();
}

TEST_F(remote_test, a_search_stops_when_its_client_is_killed) {
  fs::create_directories(folder_ / "tasks");
  write_file(folder_ / "tasks/tiny.json", tiny_task);
  start_coordinator();
  running_program search(elsewhere({"run", "--tasks", folder_ / "tasks", "--time", "10m"}), variables());
  ASSERT_TRUE(search.wait_for("searching ")) << search.finish().err;
  const auto state = [&] {
    return at(document_of(run_elsewhere({"experiments", "--json"})), "experiments.0.state").as_string();
  };
  for (int asked = 0; asked < 200; ++asked)
    if (!at(document_of(run_elsewhere({"status", "--json"})), "node.experiments").as_array().empty()) break;
  search.signal(SIGKILL);
  EXPECT_EQ(search.finish().code, -SIGKILL);
  for (int asked = 0; asked < 200 && state() == "running"; ++asked) {
  }
  EXPECT_EQ(state(), "cancelled");
  EXPECT_THAT(log(), HasSubstr("experiment e1: its client disconnected, so it is stopped"));
}

TEST_F(remote_test, a_search_can_be_stopped_from_elsewhere_and_ctrl_c_prints_the_table) {
  fs::create_directories(folder_ / "tasks");
  write_file(folder_ / "tasks/tiny.json", tiny_task);
  start_coordinator();
  running_program search(elsewhere({"run", "--tasks", folder_ / "tasks", "--time", "10m"}), variables());
  ASSERT_TRUE(search.wait_for("searching ")) << search.finish().err;
  for (int asked = 0; asked < 200; ++asked)
    if (!at(document_of(run_elsewhere({"status", "--json"})), "node.experiments").as_array().empty()) break;
  search.signal(SIGINT);
  const auto p = search.finish();
  EXPECT_EQ(p.code, 130) << p.err;
  EXPECT_THAT(p.out, HasSubstr("Experiment e1 (cancelled)"));

  running_program other(elsewhere({"run", "--tasks", folder_ / "tasks", "--time", "10m"}), variables());
  ASSERT_TRUE(other.wait_for("searching ")) << other.finish().err;
  for (int asked = 0; asked < 200; ++asked)
    if (!at(document_of(run_elsewhere({"status", "--json"})), "node.experiments").as_array().empty()) break;
  EXPECT_THAT(run_elsewhere({"stop", "e2"}).out, HasSubstr("stopped e2"));
  EXPECT_EQ(other.finish().code, 0);
  EXPECT_THAT(run_elsewhere({"stop", "--node"}).out, HasSubstr("the node was asked to exit"));
}

}  // namespace
}  // namespace cudal1::cli
