// Readers beside a running writer, and how well writes are grouped.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

using clock = std::chrono::steady_clock;

double ms_since(clock::time_point t) {
  return std::chrono::duration<double, std::milli>(clock::now() - t).count();
}

TEST(store_reader, a_missing_store_is_said_to_be_missing) {
  temporary_folder folder;
  const auto s = store::open_reader(folder.store());
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, errc::not_found);
  EXPECT_NE(s.error().message.find(folder.store()), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.store())) << "reading must not create it";
}

TEST(store_reader, reads_a_store_at_rest_and_refuses_to_write) {
  temporary_folder folder;
  {
    auto s = store::open(folder.store()).value();
    const auto a = s->reserve(make_variant("v"), "e1").value();
    ASSERT_TRUE(holds(s->commit(a, make_full_verdict(a, 1), make_environment())));
  }
  auto r = store::open_reader(folder.store());
  ASSERT_TRUE(holds(r));
  EXPECT_EQ((*r)->best("task-a", 10, true).value().size(), 1u);
  EXPECT_EQ((*r)->put_task({}).error().code, errc::invalid_argument);
  EXPECT_EQ((*r)->add_event({}).error().code, errc::invalid_argument);
  EXPECT_EQ((*r)->reserve(make_variant("w"), "e1").error().code, errc::invalid_argument);
  EXPECT_TRUE(holds((*r)->refresh()));
}

TEST(store_reader, sees_what_was_acknowledged_after_a_refresh_while_the_writer_runs) {
  temporary_folder folder;
  auto w = store::open(folder.store()).value();
  auto r = store::open_reader(folder.store());
  ASSERT_TRUE(holds(r));
  constexpr int events = 80;
  std::atomic<int> wanted = 0;
  // Two megabytes beside each event fill memory tables, so that logs are changed and tables are written under the
  // reader.
  std::jthread busy([&] {
    for (int i = 0; i < 2 * events; ++i) {
      for (int now = wanted; now <= i / 2; now = wanted)
        wanted.wait(now);
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
    const auto added = w->add_event(e);
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
  EXPECT_LT(latency[latency.size() / 2], 50);
}

TEST(store_reader, outlives_the_writer_and_the_next_one) {
  temporary_folder folder;
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

// ---- group commit ---------------------------------------------------------------------------------------------------

double events_per_second(store& s, int threads, int each) {
  const auto start = clock::now();
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        event_record e;
        e.text = std::to_string(t) + " " + std::to_string(i);
        EXPECT_TRUE(holds(s.add_event(e)));
      }
    });
  }
  for (auto& t : all)
    t.join();
  return threads * each / ms_since(start) * 1000;
}

TEST(store_group_commit, eight_threads_share_syncs_and_events_keep_their_order) {
  temporary_folder folder;
  auto s = store::open(folder.store()).value();
  const double alone = events_per_second(*s, 1, 100);
  const auto before = s->statistics();
  const double together = events_per_second(*s, 8, 50);
  const auto after = s->statistics();
  const auto batches = after.batches - before.batches, groups = after.synced_groups - before.synced_groups;
  std::printf("synced batches/s: %.0f with 1 thread, %.0f with 8; %.1f batches a sync\n", alone, together,
              static_cast<double>(batches) / static_cast<double>(groups));
  EXPECT_EQ(batches, 400);
  EXPECT_GT(batches, groups * 3 / 2);
  const auto events = s->events_after(0, 10'000).value();
  ASSERT_EQ(events.size(), 500u);
  for (std::size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(events[i].sequence, static_cast<int64_t>(i) + 1);
}

TEST(store_group_commit, one_variant_is_reserved_by_one_of_many_threads) {
  temporary_folder folder;
  auto s = store::open(folder.store()).value();
  std::atomic<int> granted = 0, refused = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < 8; ++t) {
    all.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const auto a = s->reserve(make_variant(std::to_string(i)), "e1");
        if (a) {
          ++granted;
        } else {
          EXPECT_EQ(a.error().code, errc::already_exists);
          ++refused;
        }
      }
    });
  }
  for (auto& t : all)
    t.join();
  EXPECT_EQ(granted, 10);
  EXPECT_EQ(refused, 70);
}

}  // namespace
}  // namespace cudal1
