// Readers beside a running writer.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

using clock = std::chrono::steady_clock;

double ms_since(clock::time_point t) {
  return std::chrono::duration<double, std::milli>(clock::now() - t).count();
}

TEST(store_reader, a_missing_store_is_reported_and_not_created) {
  store_folder folder;
  const auto s = store::open_reader(folder.store());
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, errc::not_found);
  EXPECT_NE(s.error().message.find(folder.store()), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.store())) << "reading must not create it";
}

TEST(store_reader, reads_a_store_at_rest_and_refuses_to_write) {
  store_folder folder;
  {
    auto s = store::open(folder.store()).value();
    const auto a = s->reserve(make_variant("v"), "e1").value();
    ASSERT_TRUE(holds(s->commit(a, make_full_verdict(a, 1), make_environment())));
  }
  auto r = store::open_reader(folder.store());
  ASSERT_TRUE(holds(r));
  EXPECT_EQ((*r)->best("task-a", 10, store::ranking::confirmed).value().size(), 1u);
  EXPECT_EQ((*r)->put_task({}).error().code, errc::invalid_argument);
  EXPECT_EQ((*r)->add_event({}).error().code, errc::invalid_argument);
  EXPECT_EQ((*r)->reserve(make_variant("w"), "e1").error().code, errc::invalid_argument);
  EXPECT_TRUE(holds((*r)->refresh()));
}

// A writer that opens a store moves what its log holds into tables, from which a reader then reads.
TEST(store_reader, reads_the_details_of_verdicts_that_are_in_tables) {
  store_folder folder;
  for (int i = 0; i < 3; ++i) {
    auto s = store::open(folder.store()).value();
    const auto a = s->reserve(make_variant("v" + std::to_string(i)), "e1").value();
    ASSERT_TRUE(holds(s->commit(a, make_full_verdict(a, 1), make_environment())));
  }
  for (int i = 0; i < 20; ++i) {
    auto r = store::open_reader(folder.store()).value();
    const auto found = r->verdicts_of_variant(make_variant("v0").id);
    ASSERT_TRUE(holds(found));
    ASSERT_EQ(found->size(), 1u);
    EXPECT_FALSE(found->front().samples.empty());
  }
}

TEST(store_reader, sees_what_was_acknowledged_after_a_refresh_while_the_writer_runs) {
  store_folder folder;
  auto w = store::open(folder.store()).value();
  auto r = store::open_reader(folder.store());
  ASSERT_TRUE(holds(r));
  constexpr int events = 80;
  std::atomic<int> wanted = 0;
  std::mutex writing;  // one thread at a time changes a store
  // Two megabytes for each event fill memory tables, so that logs are switched and tables are written while the reader
  // reads.
  std::jthread busy([&] {
    for (int i = 0; i < 2 * events; ++i) {
      for (int now = wanted; now <= i / 2; now = wanted)
        wanted.wait(now);
      const std::lock_guard lock(writing);
      EXPECT_TRUE(holds(w->put_policy("big", {i, std::string(1'000'000, static_cast<char>('a' + i % 26))})));
    }
  });
  struct let_it_end {
    std::atomic<int>& count;
    ~let_it_end() {
      count = events;
      count.notify_all();
    }
  } at_return{wanted};
  std::vector<double> latency;
  for (int i = 0; i < events; ++i) {
    ++wanted;
    wanted.notify_all();
    event_record e;
    e.text = std::to_string(i);
    const auto added = [&] {
      const std::lock_guard lock(writing);
      return w->add_event(e);
    }();
    ASSERT_TRUE(holds(added));
    const auto start = clock::now();
    const auto refreshed = (*r)->refresh();
    ASSERT_TRUE(holds(refreshed));
    const auto seen = (*r)->events_after(added->sequence - 1, 1);
    latency.push_back(ms_since(start));
    ASSERT_TRUE(holds(seen));
    ASSERT_EQ(seen->size(), 1u) << "event " << i << " was acknowledged, and the reader does not see it";
    EXPECT_EQ(seen->front().text, e.text);
    const auto big = (*r)->get_policy("big");
    if (big) {
      EXPECT_EQ(big->blob, std::string(1'000'000, static_cast<char>('a' + big->version % 26)));
    }
  }
  std::sort(latency.begin(), latency.end());
  std::printf("refresh and read: median %.2f ms, largest %.2f ms of %d, beside %d MB of other writes\n",
              latency[latency.size() / 2], latency.back(), events, 2 * events);
  EXPECT_LT(latency[latency.size() / 2], 250);
}

TEST(store_reader, outlives_the_writer_and_the_next_one) {
  store_folder folder;
  auto w = store::open(folder.store()).value();
  auto r = store::open_reader(folder.store()).value();
  for (int round = 0; round < 4; ++round) {
    event_record e;
    e.text = std::to_string(round);
    const auto sequence = w->add_event(e).value().sequence;
    w.reset();
    w = store::open(folder.store()).value();
    ASSERT_TRUE(holds(r->refresh()));
    const auto seen = r->events_after(sequence - 1, 10);
    ASSERT_TRUE(holds(seen));
    ASSERT_EQ(seen->size(), 1u) << round;
    EXPECT_EQ(seen->front().text, e.text);
  }
}

}  // namespace
}  // namespace cudal1
