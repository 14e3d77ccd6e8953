// The replay device as a user sees it: on verdicts that a fixture wrote, so that nothing is measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/tools_fixture.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class replay_command : public testing::Test {
 protected:
  // All with the verdicts of source_.
  finished_program run(std::vector<std::string> arguments, const std::vector<std::string>& settings = {}) const {
    arguments.insert(arguments.end(), {"--data", data_.path()});
    for (const auto& setting : settings)
      arguments.insert(arguments.end(), {"--set", setting});
    return run_cudal1(arguments);
  }
  finished_program replay(std::vector<std::string> arguments, std::vector<std::string> settings = {}) const {
    arguments.insert(arguments.end(), {"--device", "replay"});
    settings.push_back("replay.source=" + source_.path());
    return run(std::move(arguments), settings);
  }
  void TearDown() override { run({"stop", "--node"}); }
  // A program that the source has a verdict of.
  std::string program_of(const std::string& variant) const {
    write_file(data_ / "program.cu1", run_cudal1({"show", variant, "--program", "--data", source_.path()}).out);
    return data_ / "program.cu1";
  }

  temporary_folder source_, data_;
  prepared ids_ = prepare_store(source_.path());
};

TEST_F(replay_command, evaluates_a_recorded_program_as_it_was) {
  const auto right = replay({"evaluate", "diagonal_matmul", program_of(ids_.best)});
  EXPECT_EQ(right.code, 0) << right.err;
  EXPECT_THAT(right.out, AllOf(HasSubstr("replay-cpu:0: replay of a processor with 2 cores"),
                               HasSubstr("replayed from stored verdicts, not measured"), HasSubstr("22.")));
  const auto wrong = replay({"evaluate", "diagonal_matmul", program_of(ids_.wrong), "--json"});
  EXPECT_EQ(wrong.code, 1) << wrong.err;
  const auto document = document_of(wrong);
  EXPECT_EQ(at(document, "device.device"), json("replay-cpu:0"));
  EXPECT_EQ(at(document, "programs.0.result.result"), json("wrong_answer"));
  EXPECT_EQ(at(document, "programs.0.result.reason"), json("gate 2: 163840 of 327680 elements outside 1e-4"));
}

TEST_F(replay_command, leaves_out_what_is_reserved_for_the_policy) {
  const std::vector<std::string> settings = {"replay.devices=2", "device.policy_devices=replay:1",
                                             "replay.unrecorded_in_a_row=4"};
  const auto searched = replay({"run", "--task", "softmax", "--policy", "random", "--evaluations", "3"}, settings);
  EXPECT_EQ(searched.code, 0) << searched.err;
  const auto listed = run({"devices"});
  EXPECT_THAT(listed.out, AllOf(HasSubstr("replay-cpu:0"), HasSubstr("ready"), HasSubstr("replay-cpu:1"),
                                HasSubstr("reserved"), HasSubstr("it does not measure")));
  EXPECT_EQ(at(document_of(run({"devices", "--json"})), "reserved.0.role"), json("policy"));
  const auto refused =
      run({"run", "--device", "replay-cpu:1", "--task", "softmax"}, {"replay.source=" + source_.path()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("device replay-cpu:1 does not measure: it is reserved for the policy's models"));
}

TEST_F(replay_command, is_named_wherever_it_shows) {
  const auto searched = replay({"run", "--task", "softmax", "--policy", "random", "--evaluations", "3"},
                               {"replay.unrecorded_in_a_row=4"});
  ASSERT_EQ(searched.code, 0) << searched.err;
  EXPECT_THAT(searched.out, AllOf(HasSubstr("device replay-cpu"), HasSubstr("replayed from stored verdicts"),
                                  HasSubstr("proposals not recorded, and returned to the budget"),
                                  HasSubstr("softmax: the last 4 proposals are not recorded")));
  const auto status = run({"status"});
  EXPECT_THAT(status.out, AllOf(HasSubstr("replay-cpu:0: replay of a processor"), HasSubstr("not measured"),
                                Not(HasSubstr("confinement"))));
  EXPECT_EQ(at(document_of(run({"status", "--json"})), "node.devices.0.where.device"), json("replay-cpu:0"));
  EXPECT_THAT(run({"experiments"}).out, HasSubstr("replay-cpu"));
  const auto report = document_of(run({"experiments", "e1", "--json"}));
  EXPECT_EQ(at(report, "device"), json("replay-cpu")) << "the name of a kind stays";
  EXPECT_GE(at(report, "unrecorded").as_int(), 4);
  EXPECT_EQ(at(report, "infrastructure_faults"), json(0));
}

TEST_F(replay_command, shows_what_it_replayed_apart_from_what_was_measured) {
  // Into the source itself, whose own best is at 22.9x.
  const auto program = program_of(ids_.best);
  const auto replayed = run_cudal1({"evaluate", "diagonal_matmul", program, "--device", "replay", "--set",
                                    "replay.seed=3", "--data", source_.path()});
  run_cudal1({"stop", "--node", "--data", source_.path()});
  ASSERT_EQ(replayed.code, 0) << replayed.err;
  const auto best = run_cudal1({"best", "--data", source_.path()});
  EXPECT_THAT(best.out, AllOf(HasSubstr("22.9x [22.1, 23.5]"), HasSubstr("4 evaluations"),
                              HasSubstr("`--experiment e2` shows them")));
  const auto of_task = run_cudal1({"best", "diagonal_matmul", "--data", source_.path()});
  EXPECT_THAT(of_task.out, Not(HasSubstr("replay of")));
  const auto own = run_cudal1({"best", "diagonal_matmul", "--experiment", "e2", "--data", source_.path()});
  EXPECT_THAT(own.out,
              AllOf(HasSubstr(ids_.best.substr(0, 12)), HasSubstr("replay of a processor"), HasSubstr("not measured")));
}

TEST_F(replay_command, says_what_it_needs) {
  const auto nothing = run({"run", "--task", "softmax", "--device", "replay"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, AllOf(HasSubstr("replay.source"), HasSubstr("there is no store in the data folder")));
  const auto unknown = run({"run", "--task", "softmax", "--device", "tpu"});
  EXPECT_THAT(unknown.err, HasSubstr("replay, which answers from stored verdicts"));
  const auto baseline = run({"baseline", "--device", "replay"});
  EXPECT_EQ(baseline.code, 2);
  EXPECT_THAT(baseline.err, HasSubstr("PyTorch is measured on real devices only"));
  const auto setting = replay({"run", "--task", "softmax"}, {"replay.latency=2"});
  EXPECT_EQ(setting.code, 2);
  EXPECT_THAT(setting.err, HasSubstr("replay.latency"));
}

}  // namespace
}  // namespace cudal1::cli
