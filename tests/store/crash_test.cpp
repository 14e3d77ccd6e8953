// After kill -9 all acknowledged writes exist, and batches are atomic.
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "tests/store/store_child.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

struct acknowledged {
  std::set<std::string> reserved, committed;
  void add(const std::string& lines) {
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) {
      const auto space = line.find(' ');
      const std::string what = line.substr(0, space), name = line.substr(space + 1);
      if (what == "reserved") {
        reserved.insert(name);
      } else if (what == "committed") {
        committed.insert(name);
      } else {
        ADD_FAILURE() << line;
      }
    }
  }
};

void expect_all_of(store& s, const acknowledged& writes) {
  std::map<std::string, attempt_record> attempts;
  const auto all_attempts = s.attempts("e1").value();
  for (const auto& a : all_attempts)
    attempts[a.variant] = a;
  std::map<std::string, verdict> verdicts;
  const auto all_verdicts = s.verdicts_of_task("task-a", "", store::verdict_parts::all).value();
  for (const auto& v : all_verdicts)
    verdicts[v.variant] = v;
  for (const auto& name : writes.reserved) {
    const auto id = make_variant(name).id;
    ASSERT_TRUE(attempts.contains(id)) << name << " was reserved";
    ASSERT_TRUE(holds(s.get_variant(id))) << name;
  }
  for (const auto& name : writes.committed) {
    const auto id = make_variant(name).id;
    ASSERT_TRUE(verdicts.contains(id)) << name << " was committed";
    const auto wanted = make_full_verdict(attempts[id], std::hash<std::string>{}(name));
    ASSERT_EQ(to_text(verdicts[id]), to_text(wanted)) << name;
  }
  std::set<std::string> events;
  int64_t last = 0;
  const auto all_events = s.events_after(0, 1u << 30).value();
  for (const auto& e : all_events) {
    ASSERT_EQ(e.sequence, ++last);
    if (e.kind == "verdict") events.insert(e.variant);
  }
  int64_t counted = 0;
  const auto tallies = s.tallies("e1").value();
  for (const auto& t : tallies)
    counted += t.evaluations;
  ASSERT_EQ(counted, static_cast<int64_t>(verdicts.size()));
  ASSERT_EQ(s.best("task-a", 1u << 30, store::ranking::confirmed, "e1").value().size(), verdicts.size());
  ASSERT_EQ(s.unfinished_attempts("e1").value().size(), attempts.size() - verdicts.size());
  for (const auto& [id, a] : attempts) {
    const bool finished = a.state == attempt_state::finished;
    ASSERT_NE(a.state, attempt_state::leased);
    ASSERT_EQ(finished, verdicts.contains(id));
    ASSERT_EQ(s.has_attempt("e1", "task-a", id).value(), true);
    ASSERT_EQ(finished, events.contains(id));
    ASSERT_TRUE(holds(s.get_variant(id)));
    if (finished) {
      ASSERT_TRUE(holds(s.get_environment("environment-1")));
    }
  }
}

TEST(store_crash, nothing_acknowledged_is_lost_by_kill_at_any_moment) {
  constexpr int rounds = 24;
  const auto seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  store_folder folder;
  acknowledged writes;
  for (int round = 0; round < rounds; ++round) {
    store_child child({CUDAL1_STORE_CHILD, "write", folder.store(), std::to_string(round)});
    // From before the store is open to many batches later.
    EXPECT_TRUE(child.read_for(std::chrono::microseconds(random() % 200'000))) << "it ended before it was killed";
    ASSERT_EQ(child.finish(true), -SIGKILL) << child.text();
    const std::string lines = child.text().substr(0, child.text().rfind('\n') + 1);
    writes.add(lines);
    // After each round the writes of this child; after the last one those of all.
    acknowledged here;
    here.add(lines);
    auto s = store::open(folder.store());
    ASSERT_TRUE(holds(s)) << "round " << round;
    expect_all_of(**s, round + 1 < rounds ? here : writes);
    if (testing::Test::HasFatalFailure()) return;
  }
  std::printf("%d kills: %zu reservations and %zu verdicts were acknowledged, all are there\n", rounds,
              writes.reserved.size(), writes.committed.size());
  EXPECT_GT(writes.committed.size(), 20u) << "too few writes for this test to mean anything";
}

TEST(store_crash, a_refused_write_is_infrastructure_and_loses_nothing_acknowledged) {
  store_folder folder;
  store_child child({CUDAL1_STORE_CHILD, "fill_quota", folder.store()});
  EXPECT_EQ(child.finish(false), 0) << child.text();
  EXPECT_NE(child.text().find("error infrastructure"), std::string::npos) << child.text();
  EXPECT_NE(child.text().find("no space left"), std::string::npos) << child.text();
  const auto at = child.text().find("written ");
  ASSERT_NE(at, std::string::npos) << child.text();
  const int written = std::stoi(child.text().substr(at + 8));
  EXPECT_GT(written, 3);
  auto s = store::open(folder.store());
  ASSERT_TRUE(holds(s));
  for (int i = 0; i < written; ++i)
    EXPECT_EQ((*s)->get_policy("p" + std::to_string(i)).value().blob.size(), 100'000u) << i;
}

TEST(store_crash, goes_on_writing_when_a_full_disk_has_room_again) {
  store_folder folder;
  store_child child({CUDAL1_STORE_CHILD, "fill_disk", folder.store()});
  const int status = child.finish(false);
  if (status == 77) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_EQ(status, 0) << child.text();
  EXPECT_NE(child.text().find("error infrastructure"), std::string::npos) << child.text();
  EXPECT_NE(child.text().find("no space left"), std::string::npos) << child.text();
  EXPECT_NE(child.text().find("all there"), std::string::npos) << child.text();
}

TEST(store_crash, a_second_writer_is_refused_here_and_in_another_process) {
  store_folder folder;
  auto s = store::open(folder.store());
  ASSERT_TRUE(holds(s));
  const auto twice = store::open(folder.store());
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, errc::already_exists);
  EXPECT_NE(twice.error().message.find("another cudal1-node"), std::string::npos);
  EXPECT_NE(twice.error().message.find(folder.store()), std::string::npos);
  store_child other({CUDAL1_STORE_CHILD, "open", folder.store()});
  EXPECT_EQ(other.finish(false), 1);
  EXPECT_EQ(other.text().rfind("error already_exists", 0), 0u) << other.text();
  s->reset();
  store_child later({CUDAL1_STORE_CHILD, "open", folder.store()});
  EXPECT_EQ(later.finish(false), 0) << later.text();
}

}  // namespace
}  // namespace cudal1
