// A node as its clients see it.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "tests/actors/node_fixture.hpp"

namespace cudal1 {
namespace {

class node : public node_test {};

// Correct, or unmeasurable with samples: a correct variant can be unmeasurable on a loaded machine.
bool right(const verdict& v) {
  return (v.result == outcome::correct && v.score > 0) || (v.result == outcome::unmeasurable && !v.samples.empty());
}

int64_t sum_of(const std::map<std::string, int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0},
                         [](int64_t s, const auto& c) { return s + c.second; });
}

// With these settings nothing is ever confirmed, so that what is ahead is looked at again, longer.
TEST_F(node, what_is_ahead_but_not_confirmed_is_measured_again_at_the_end) {
  start_node({"--set", "timing.second_look_factor=3", "--set", "timing.confirmed_limit=0.001", "--set",
              "timing.target_half_width=0.0001", "--set", "timing.decided_half_width=0.0001", "--set",
              "timing.max_seconds=10"});
  auto client = connect();
  constexpr int64_t budget = 10;  // on a busy machine the first ones may be unmeasurable
  auto request = run_request({diagonal_task()}, budget);
  request.policy = "evolutionary";
  ASSERT_TRUE(client.send(request));
  const auto last = read_to_end(client);
  ASSERT_TRUE(last.last);
  ASSERT_EQ(last.error, "");
  ASSERT_TRUE(last.progress);
  const auto s = read_store();
  const auto attempts = s->attempts(last.progress->experiment);
  ASSERT_TRUE(attempts);
  const auto second = std::ranges::find(*attempts, 2, &attempt_record::number);
  ASSERT_NE(second, attempts->end()) << "of " << attempts->size() << " attempts none is a second one";
  EXPECT_EQ(second->state, attempt_state::finished);
  EXPECT_LE(attempts->size(), static_cast<std::size_t>(budget)) << "a second look is an evaluation of the budget";
  const auto all = s->verdicts_of_task(diagonal_task().id, last.progress->experiment, store::verdict_parts::all);
  ASSERT_TRUE(all);
  std::map<int, std::size_t> samples;  // by the number of the attempt
  for (const auto& v : *all)
    if (v.variant == second->variant) samples[v.attempt] = v.samples.size();
  ASSERT_EQ(samples.size(), 2U) << "the first verdict is kept";
  EXPECT_GT(samples[2], samples[1]);
}

TEST_F(node, an_experiment_uses_its_budget_and_everything_it_reports_is_in_the_store) {
  start_node();
  auto client = connect();
  auto request = run_request({relu_chain_task(), diagonal_task()}, 4);
  request.policy = "evolutionary";
  ASSERT_TRUE(client.send(request));
  int answers = 0;
  const auto last = read_to_end(client, [&](const client_answer&) { return ++answers > 0; });
  ASSERT_TRUE(last.last);
  EXPECT_EQ(last.error, "");
  ASSERT_TRUE(last.progress);
  const auto& p = *last.progress;
  EXPECT_EQ(p.state, "finished");
  EXPECT_GT(answers, 0);
  EXPECT_EQ(sum_of(p.outcomes), p.evaluations);
  EXPECT_EQ(p.infrastructure_faults, 0);
  const auto s = read_store();
  int64_t stored = 0;
  for (const auto& t : p.tasks) {
    const auto verdicts = s->verdicts_of_task(t.task, p.experiment, store::verdict_parts::all);
    ASSERT_TRUE(verdicts);
    EXPECT_EQ(static_cast<int64_t>(verdicts->size()), t.evaluations) << t.name;
    EXPECT_LE(t.evaluations, 4) << t.name;
    stored += t.evaluations;
    for (const auto& v : *verdicts) {
      EXPECT_TRUE(right(v)) << enum_name(v.result) << ": " << v.reason;
      EXPECT_TRUE(v.result != outcome::correct || (v.score > 0 && !v.samples.empty())) << v.reason;
      EXPECT_FALSE(v.environment_id.empty());
    }
    const auto best = s->best(t.task, 1, store::ranking::confirmed, p.experiment);
    ASSERT_TRUE(best);
    if (!best->empty()) {
      EXPECT_EQ(best->front().result.score, t.best);
      EXPECT_EQ(best->front().variant.id, t.best_variant);
    }
  }
  EXPECT_EQ(stored, p.evaluations);
  EXPECT_EQ(variants_with_state(*s->attempts(p.experiment), attempt_state::finished).size(),
            static_cast<std::size_t>(stored));
  EXPECT_EQ(s->get_experiment(p.experiment)->state, experiment_state::finished);
  EXPECT_GT(p.stage_ms.at("check"), 0);
  EXPECT_GT(p.stage_ms.at("time"), 0);
  EXPECT_GT(p.stage_ms.at("commit"), 0);
  EXPECT_GT(p.device_busy, 0.05);
  EXPECT_LE(p.device_busy, 1.0);
}

TEST_F(node, a_hand_written_program_gets_the_right_verdict) {
  start_node();
  client_request r;
  r.verb = client_verb::evaluate;
  r.task = canonical_text(relu_chain_task());
  r.origin = "hand: test";
  const auto verdict_for = [&](const std::string& program) {
    r.program = program;
    auto a = ask_once(r);
    EXPECT_EQ(a.error, "");
    EXPECT_TRUE(a.last);
    return a.result.value_or(verdict{});
  };
  const auto good = verdict_for(pointwise_program("x[i] > 0.f ? x[i] * 1.5f : 0.f"));
  EXPECT_TRUE(right(good)) << enum_name(good.result) << ": " << good.reason;
  EXPECT_FALSE(good.gates.empty());
  const auto again = verdict_for(pointwise_program("x[i] > 0.f ? x[i] * 1.5f : 0.f"));
  EXPECT_TRUE(right(again)) << "the same program may be evaluated again: " << again.reason;
  EXPECT_EQ(again.variant, good.variant);
  const auto wrong = verdict_for(pointwise_program("x[i] * 1.5f"));
  EXPECT_EQ(enum_name(wrong.result), "wrong_answer") << wrong.reason;
  EXPECT_EQ(wrong.score, 0);
  const auto broken = verdict_for(pointwise_program("x[i] +* 2"));
  EXPECT_EQ(enum_name(broken.result), "compile_error") << broken.reason;
  EXPECT_NE(broken.compiler_log, "");
  const auto nonsense = verdict_for("not a program");
  EXPECT_EQ(enum_name(nonsense.result), "invalid");
  EXPECT_NE(nonsense.reason, "");
  auto other = pointwise_program("x[i]");
  other.replace(other.find("[64, 256]"), 9, "[64, 255]");
  const auto mismatched = verdict_for(other);
  EXPECT_EQ(enum_name(mismatched.result), "invalid");
  EXPECT_NE(mismatched.reason.find("inputs"), std::string::npos) << mismatched.reason;
}

TEST_F(node, limits_grow_with_the_time_of_a_slow_reference) {
  auto t = read_task(R"({"format": 1, "name": "product", "summary": "s", "family": "matmul",
    "inputs": [{"name": "a", "dtype": "float32", "shape": [1024, 1024]},
               {"name": "b", "dtype": "float32", "shape": [1024, 1024]}],
    "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"]}], "outputs": ["y"]})",
                     "cpu");
  ASSERT_TRUE(t) << t.error().message;
  start_node({"--set", "verification.call_limit_ms=1", "--set", "device.time_limit_s=1"});
  auto client = connect();
  ASSERT_TRUE(client.send(run_request({*t}, 2)));
  const auto last = read_to_end(client);
  ASSERT_TRUE(last.progress) << last.error;
  EXPECT_EQ(last.progress->infrastructure_faults, 0) << log();
  EXPECT_GT(last.progress->evaluations, 0);
  EXPECT_FALSE(last.progress->outcomes.contains("hang"));
}

TEST_F(node, an_unknown_policy_is_refused_before_anything_is_created) {
  start_node();
  auto r = run_request({relu_chain_task()}, 1);
  r.policy = "evolutionry";
  const auto refused = ask_once(r);
  EXPECT_NE(refused.error.find("there is no policy \"evolutionry\""), std::string::npos) << refused.error;
  EXPECT_TRUE(read_store()->experiments()->empty());
  kill_node(SIGTERM);
  EXPECT_EQ(wait_node(), 0);
  spawn({"--set", "search.policy=evolutionry"});
  EXPECT_EQ(wait_node(), 2);
}

TEST_F(node, an_experiment_that_cannot_be_resumed_can_be_stopped) {
  experiment_record e;
  e.device = "cpu";
  e.policy = "evolutionry";
  e.state = experiment_state::running;
  ASSERT_TRUE(store::open(folder_ + "/store").value()->create_experiment(e));
  start_node();
  client_request stop;
  stop.verb = client_verb::stop;
  stop.experiment = "e1";
  EXPECT_EQ(ask_once(stop).error, "");
  EXPECT_EQ(read_store()->get_experiment("e1")->state, experiment_state::cancelled);
  EXPECT_NE(ask_once(stop).error, "") << "it does not run any more";
}

TEST_F(node, a_data_folder_whose_name_is_not_utf8_is_refused) {
  folder_ += "/\xff";
  const std::string node = CUDAL1_NODE;
  EXPECT_EQ(WEXITSTATUS(std::system((node + " --device cpu --data '" + folder_ + "' 2>/dev/null").c_str())), 2);
  EXPECT_FALSE(std::filesystem::exists(folder_));
  folder_.resize(folder_.size() - 2);
}

TEST_F(node, stop_finishes_what_is_on_a_device_withdraws_the_rest_and_the_experiment_can_go_on) {
  start_node();
  auto client = connect();
  ASSERT_TRUE(client.send(run_request({relu_chain_task(), diagonal_task()}, 1000)));
  const auto early = read_to_end(client, [](const client_answer& a) { return a.progress->evaluations < 2; });
  ASSERT_FALSE(early.last);
  client_request stop;
  stop.verb = client_verb::stop;
  stop.experiment = early.progress->experiment;
  EXPECT_EQ(ask_once(stop).error, "");
  const auto last = read_to_end(client);
  ASSERT_TRUE(last.progress);
  EXPECT_EQ(last.progress->state, "cancelled");
  const auto s = read_store();
  const auto attempts = s->attempts(stop.experiment);
  ASSERT_TRUE(attempts);
  const auto finished = variants_with_state(*attempts, attempt_state::finished).size();
  EXPECT_EQ(static_cast<int64_t>(finished), last.progress->evaluations);
  EXPECT_EQ(finished + variants_with_state(*attempts, attempt_state::withdrawn).size(), attempts->size())
      << "nothing was lost";
  EXPECT_EQ(last.progress->infrastructure_faults, 0);

  client_request again;
  again.verb = client_verb::run;
  again.experiment = stop.experiment;
  auto second = connect();
  ASSERT_TRUE(second.send(again));
  const auto more = read_to_end(
      second, [&](const client_answer& a) { return a.progress->evaluations <= last.progress->evaluations; });
  EXPECT_EQ(more.progress->experiment, stop.experiment);
  EXPECT_EQ(more.progress->state, "running");
  EXPECT_EQ(ask_once(stop).error, "");
}

TEST_F(node, a_foreground_run_stops_with_its_client_and_an_idle_node_ends) {
  start_node({"--exit-when-idle", "0.1"});
  {
    auto client = connect();
    auto r = run_request({relu_chain_task()}, 100000);
    r.stop_on_disconnect = true;
    ASSERT_TRUE(client.send(r));
    ASSERT_TRUE(client.receive(30s));
  }
  EXPECT_EQ(wait_node(), 0);
  const auto s = read_store();
  EXPECT_EQ(s->get_experiment("e1")->state, experiment_state::cancelled);
}

TEST_F(node, shutdown_keeps_experiments_running_for_the_next_node) {
  start_node();
  auto client = connect();
  ASSERT_TRUE(client.send(run_request({relu_chain_task(), diagonal_task()}, 3)));
  ASSERT_FALSE(read_to_end(client, [](const client_answer& a) { return a.progress->evaluations < 1; }).last);
  client_request shutdown;
  shutdown.verb = client_verb::shutdown;
  EXPECT_TRUE(ask_once(shutdown).last);
  const auto last = read_to_end(client);
  EXPECT_TRUE(last.last);
  EXPECT_EQ(last.error_code, "cancelled");
  EXPECT_EQ(wait_node(), 0);
  EXPECT_EQ(read_store()->get_experiment("e1")->state, experiment_state::running);

  start_node();
  client_request follow;
  follow.verb = client_verb::follow;
  follow.experiment = "e1";
  auto second = connect();
  ASSERT_TRUE(second.send(follow));
  const auto end = read_to_end(second);
  ASSERT_TRUE(end.progress) << end.error;
  EXPECT_EQ(end.progress->state, "finished");
  EXPECT_EQ(end.progress->infrastructure_faults, 0) << "a clean end loses nothing";
  kill_node(SIGTERM);
  EXPECT_EQ(wait_node(), 0);
}

TEST_F(node, a_second_node_on_the_same_data_names_the_first) {
  start_node();
  const int first = pid_;
  spawn({});
  const int code = wait_node();
  pid_ = first;
  EXPECT_EQ(code, 4);
  EXPECT_NE(log().find("another cudal1-node runs on " + folder_ + " (pid " + std::to_string(first) + ")"),
            std::string::npos);
}

// ---- clients that break the protocol ------------------------------------------------------------------------------

class raw_client {
 public:
  explicit raw_client(const std::string& folder) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto where = address_of_node(folder);
    connected_ =
        where && ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&where->address), sizeof where->address) == 0;
  }
  bool connected() const { return connected_; }
  // False if the other side has closed the connection.
  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  std::string read_to_close() {
    std::string all;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::recv(fd_.get(), buffer, sizeof buffer, 0)) > 0;)
      all.append(buffer, static_cast<std::size_t>(got));
    return all;
  }

 private:
  unique_fd fd_;
  bool connected_ = false;
};

TEST_F(node, hostile_lines_are_answered_with_an_error_and_a_disconnection) {
  start_node();
  const std::vector<std::string> lines{
      "",
      "GET / HTTP/1.1\r\n",
      std::string("\0\xff\xfe", 3),
      R"({"verb": "hello"})",
      R"({"version": 99, "verb": "hello"})",
      R"({"version": 2, "verb": "explode"})",
      R"({"version": 2, "verb": "run", "tasks": 7})",
      std::string(100000, '['),
  };
  for (const auto& line : lines) {
    raw_client c(folder_);
    ASSERT_TRUE(c.connected());
    ASSERT_TRUE(c.write(line + "\n"));
    const auto answer = c.read_to_close();
    auto a = decode_answer(std::string_view(answer).substr(0, answer.find('\n')));
    ASSERT_TRUE(a) << answer;
    EXPECT_TRUE(a->last);
    EXPECT_NE(a->error, "") << line.substr(0, 40);
  }
  raw_client endless(folder_);
  const std::string chunk(1 << 20, 'x');
  std::size_t sent = 0;
  while (sent <= longest_protocol_line + (std::size_t{16} << 20) && endless.write(chunk))
    sent += chunk.size();
  EXPECT_LE(sent, longest_protocol_line + (std::size_t{16} << 20)) << "the node does not limit the length of a line";
  // Refused by the actors, not by the protocol: an error, and the node continues.
  auto no_tasks = run_request({}, 1);
  EXPECT_EQ(ask_once(no_tasks).error_code, "invalid_argument");
  auto no_policy = run_request({relu_chain_task()}, 1);
  no_policy.policy = "clairvoyant";
  EXPECT_NE(ask_once(no_policy).error, "");
  client_request follow;
  follow.verb = client_verb::follow;
  follow.experiment = "e999";
  EXPECT_EQ(ask_once(follow).error_code, "not_found");
  EXPECT_EQ(hello().pid, pid_);
}

}  // namespace
}  // namespace cudal1
