// A node whose device replays what another node measured.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>

#include "config/base/describe.hpp"
#include "store/exemplars.hpp"
#include "tests/actors/node_fixture.hpp"

namespace cudal1 {
namespace {

using testing::Contains;
using testing::HasSubstr;

// A data folder in which a short search on `cpu` was recorded.
class node_replay : public node_test {
 protected:
  void SetUp() override {
    node_test::SetUp();
    // On a loaded machine intervals of some small calls are wide; what is replayed must have scores all the same.
    start_node({"--set", "timing.screened_limit=10", "--set", "timing.screening_forks=9", "--set",
                "timing.screening_pairs=4", "--set", "timing.max_seconds=10"});
    recorded_ = search(run_request(tasks_, 6));
    ASSERT_GT(recorded_.outcomes["correct"], 0);
    client_request r;
    r.verb = client_verb::evaluate;
    r.task = canonical_text(relu_chain_task());
    for (const char* body : {"this does not compile", "x[i]"}) {
      r.program = pointwise_program(body);
      const auto answer = ask_once(r);
      ASSERT_TRUE(answer.result) << answer.error;
      failures_.push_back(*answer.result);
    }
    end_node();
    source_ = std::exchange(folder_, "");
  }
  void TearDown() override {
    if (folder_.empty()) folder_ = source_;
    node_test::TearDown();
    std::filesystem::remove_all(source_);
  }

  // A node with an empty data folder that replays the recorded search.
  void replay(const std::vector<std::string>& settings = {}) {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
    node_test::SetUp();
    std::vector<std::string> arguments{"--device", "replay", "--set", "replay.source=" + source_};
    for (const auto& setting : settings)
      arguments.insert(arguments.end(), {"--set", setting});
    start_node(arguments);
  }
  void end_node() {
    kill_node(SIGTERM);
    ASSERT_EQ(wait_node(), 0);
  }
  experiment_progress search(const client_request& r) {
    auto client = connect();
    EXPECT_TRUE(client.send(r));
    const auto last = read_to_end(client);
    EXPECT_EQ(last.error, "");
    return last.progress.value_or(experiment_progress{});
  }
  // The lowest and the highest paired ratio among a verdict's samples; 0 and 0 without any.
  static std::pair<double, double> range_of_ratios(const verdict& v) {
    std::pair<double, double> range{0, 0};
    for (const auto& s : v.samples) {
      const double ratio = s.reference_us / s.variant_us;
      range = {range.first == 0 ? ratio : std::min(range.first, ratio), std::max(range.second, ratio)};
    }
    return range;
  }
  // The verdicts of an experiment, by task and variant.
  static std::map<std::string, verdict> verdicts_of(store& s, const experiment_progress& p) {
    std::map<std::string, verdict> all;
    for (const auto& t : p.tasks) {
      const auto verdicts = s.verdicts_of_task(t.task, p.experiment, store::verdict_parts::all).value();
      for (const auto& v : verdicts)
        all[t.task + v.variant] = v;
    }
    return all;
  }
  // What a table would show of them.
  static std::string table_of(store& s, const experiment_progress& p) {
    std::string text;
    for (const auto& [key, v] : verdicts_of(s, p))
      text += fmt::format("{} {} {} {} {}\n", key, enum_name(v.result), v.score, v.variant_us, v.confirmed);
    return text;
  }
  std::unique_ptr<store> read_source() const { return std::move(*store::open_reader(source_ + "/store")); }

  const std::vector<task> tasks_{relu_chain_task(), diagonal_task()};
  std::string source_;
  experiment_progress recorded_;
  std::vector<verdict> failures_;
};

TEST_F(node_replay, repeats_the_search_with_other_draws_of_the_same_times) {
  const auto measured = verdicts_of(*read_source(), recorded_);
  std::set<std::string> tables;
  for (const char* seed : {"1", "1", "2"}) {
    replay({std::string("replay.seed=") + seed, "replay.in_flight=1"});
    const auto p = search(run_request(tasks_, 6));
    const auto s = read_store();
    const auto replayed = verdicts_of(*s, p);
    // The recorded search had several in flight: which of two equal proposals counts may differ at its end.
    ASSERT_GE(2 * replayed.size(), measured.size());
    for (const auto& [key, v] : replayed) {
      ASSERT_TRUE(measured.contains(key)) << key;
      const auto& m = measured.at(key);
      EXPECT_EQ(v.result, m.result);
      EXPECT_EQ(v.confirmed, m.confirmed);
      // A median of recorded ratios. (On a loaded machine one in twenty and more is outside the recorded interval.)
      const auto [low, high] = m.score > 0 ? range_of_ratios(m) : std::pair(0.0, 0.0);
      EXPECT_GE(v.score, low);
      EXPECT_LE(v.score, high);
      EXPECT_THAT(v.notes, Contains(HasSubstr("not measured")));
    }
    tables.insert(table_of(*s, p));
    end_node();
  }
  EXPECT_EQ(tables.size(), 2U) << "one for each seed";
}

TEST_F(node_replay, replays_what_failed_and_says_that_it_replays) {
  replay();
  const auto status = hello();
  ASSERT_EQ(status.devices.size(), 1U);
  EXPECT_EQ(status.devices.front().where.device, "replay-cpu:0");
  EXPECT_THAT(status.devices.front().where.model, HasSubstr("replay of "));
  EXPECT_TRUE(status.processes.empty());
  client_request r;
  r.verb = client_verb::evaluate;
  r.task = canonical_text(relu_chain_task());
  for (std::size_t i = 0; i < failures_.size(); ++i) {
    r.program = pointwise_program(i == 0 ? "this does not compile" : "x[i]");
    const auto answer = ask_once(r);
    ASSERT_TRUE(answer.result) << answer.error;
    EXPECT_NE(answer.result->result, outcome::correct);
    EXPECT_EQ(answer.result->result, failures_[i].result);
    EXPECT_EQ(answer.result->reason, failures_[i].reason);
    EXPECT_EQ(answer.result->compiler_log, failures_[i].compiler_log);
  }
}

TEST_F(node_replay, returns_what_is_not_recorded_to_the_budget_and_ends_after_so_many_in_a_row) {
  replay({"replay.unrecorded_in_a_row=5"});
  auto request = run_request(tasks_, 40);
  request.seed = 77;  // other proposals
  const auto p = search(request);
  EXPECT_EQ(p.state, "finished");
  EXPECT_GT(p.unrecorded, 0);
  EXPECT_EQ(p.infrastructure_faults, 0);
  const auto s = read_store();
  const auto e = s->get_experiment(p.experiment);
  ASSERT_TRUE(e);
  EXPECT_EQ(variants_with_state(*s->attempts(p.experiment), attempt_state::unrecorded).size(),
            static_cast<std::size_t>(p.unrecorded));
  ASSERT_FALSE(e->ended.empty());
  client_request by_hand;
  by_hand.verb = client_verb::evaluate;
  by_hand.task = canonical_text(relu_chain_task());
  by_hand.program = pointwise_program("2.0f * x[i]");
  EXPECT_THAT(ask_once(by_hand).error, HasSubstr("is not recorded"));
}

TEST_F(node_replay, never_mixes_what_it_replays_with_what_was_measured) {
  // In the data folder of the recorded search itself.
  folder_ = source_;
  start_node({"--device", "replay,cpu"});
  auto request = run_request(tasks_, 6);
  request.device = "replay-cpu";
  const auto p = search(request);
  EXPECT_GT(p.evaluations, 0);
  const auto s = read_store();
  for (const auto& t : p.tasks) {
    const auto best = s->best(t.task, 100, store::ranking::all).value();
    for (const auto& ranked : best)
      EXPECT_FALSE(is_replayed(*s->get_environment(ranked.result.environment_id)));
    exemplar_query q;
    q.task = t.task;
    q.correct = 100;
    const auto own = verdicts_of(*s, recorded_).begin()->second;
    q.environment_class = environment_class(*s->get_environment(own.environment_id));
    const auto sample = s->sample_exemplars(q).value();
    for (const auto& exemplar : sample.correct)
      EXPECT_FALSE(is_replayed(*s->get_environment(exemplar.result.environment_id)));
  }
}

TEST_F(node_replay, makes_the_same_proposals_again_if_each_sees_all_earlier_verdicts) {
  std::set<std::string> tables;
  for (int i = 0; i < 2; ++i) {
    replay({"replay.in_flight=1"});
    auto request = run_request(tasks_, 6);
    request.policy = "evolutionary";
    tables.insert(table_of(*read_store(), search(request)));
    end_node();
  }
  EXPECT_EQ(tables.size(), 1U);
}

TEST_F(node_replay, refuses_to_hold_a_device_that_cannot_measure) {
  replay();
  client_request r;
  r.verb = client_verb::hold;
  r.device = "replay-cpu:0";
  EXPECT_THAT(ask_once(r).error, HasSubstr("nothing can be measured on it"));
}

}  // namespace
}  // namespace cudal1
