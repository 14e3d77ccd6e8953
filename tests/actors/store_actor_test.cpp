// The changes that wait in the store's mailbox are one synced batch, and none is answered before it is on disk. One
// thread runs the actors; a test keeps it busy until all that it sends is in the mailbox.
#include "actors/coordinator/store_actor.hpp"

#include <future>
#include <optional>
#include <tuple>
#include <utility>

#include <caf/all.hpp>
#include <gtest/gtest.h>

#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

class store_actor_test : public testing::Test {
 protected:
  store_actor_test() {
    actor_ = system_.spawn(run_store, db_, blobs(folder_.store()));
    hold();
  }
  ~store_actor_test() override {
    release();
    caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
    self_->wait_for(actor_);
  }
  static caf::actor_system_config& prepared(caf::actor_system_config& c) {
    c.set("scheduler.max-threads", 1);
    register_messages(c);
    return c;
  }
  // From here on no actor runs, until release().
  void hold() {
    std::promise<void> held;
    system_.spawn([&held, until = until_.emplace().get_future().share()] {
      held.set_value();
      until.wait();
    });
    held.get_future().wait();
  }
  void release() {
    if (until_) std::exchange(until_, std::nullopt)->set_value();
  }
  template <class Reply, class Message>
  auto ask_store(Message m) {
    return self_->request(actor_, caf::infinite, std::move(m));
  }
  template <class Reply, class Handle>
  expected<Reply> answer(Handle& handle) {
    expected<Reply> got = fail(errc::timeout, "no answer");
    handle.receive([&](Reply& r) { got = std::move(r); },
                   [&](caf::error& e) { got = tl::unexpected<error>(from_caf(e)); });
    return got;
  }
  store_folder folder_;
  std::shared_ptr<store> db_ = store::open(folder_.store()).value();
  caf::actor_system_config config_;
  caf::actor_system system_{prepared(config_)};
  store_actor actor_;
  std::optional<std::promise<void>> until_;
  caf::scoped_actor self_{system_};
};

TEST_F(store_actor_test, waiting_requests_are_one_synced_batch_and_answered_after_it) {
  constexpr int requests = 40;
  const auto before = db_->statistics();
  auto reader = store::open_reader(folder_.store()).value();
  using handle = decltype(ask_store<message::reserved>(message::reserve_attempt{}));
  std::vector<handle> handles;
  for (int i = 0; i < requests; ++i)
    handles.push_back(
        ask_store<message::reserved>(message::reserve_attempt{make_variant(std::to_string(i)), "e1", ""}));
  release();
  for (auto& h : handles) {
    const auto got = answer<message::reserved>(h);
    ASSERT_TRUE(holds(got));
    EXPECT_EQ(got->attempt.number, 1);
    ASSERT_TRUE(holds(reader->refresh()));
    EXPECT_EQ(reader->attempts("e1")->size(), static_cast<std::size_t>(requests)) << "all are on disk";
  }
  EXPECT_EQ(db_->statistics().synced_batches - before.synced_batches, 1);
  EXPECT_EQ(db_->statistics().changes - before.changes, requests);
}

TEST_F(store_actor_test, only_one_of_many_waiting_requests_reserves_a_variant) {
  std::vector<decltype(ask_store<message::reserved>(message::reserve_attempt{}))> handles;
  for (int t = 0; t < 8; ++t)
    for (int i = 0; i < 10; ++i)
      handles.push_back(
          ask_store<message::reserved>(message::reserve_attempt{make_variant(std::to_string(i)), "e1", ""}));
  release();
  int granted = 0, refused = 0;
  for (auto& h : handles) {
    const auto got = answer<message::reserved>(h);
    if (got) {
      ++granted;
    } else {
      EXPECT_EQ(got.error().code, errc::already_exists) << got.error().message;
      ++refused;
    }
  }
  EXPECT_EQ(granted, 10);
  EXPECT_EQ(refused, 70);
}

TEST_F(store_actor_test, a_refused_change_is_an_error_and_the_others_are_stored) {
  const auto before = db_->statistics();
  auto good = ask_store<message::reserved>(message::reserve_attempt{make_variant("good"), "e1", ""});
  auto bad = ask_store<message::reserved>(message::reserve_attempt{variant_record{}, "e1", ""});
  auto lost = ask_store<message::done>(message::lose_attempt{});
  auto experiment = ask_store<message::created_experiments>(message::create_experiments{{experiment_record{}}});
  release();
  EXPECT_TRUE(holds(answer<message::reserved>(good)));
  EXPECT_EQ(answer<message::reserved>(bad).error().code, errc::invalid_argument);
  EXPECT_EQ(answer<message::done>(lost).error().code, errc::not_found);
  EXPECT_EQ(answer<message::created_experiments>(experiment)->records.front().id, "e1");
  EXPECT_EQ(db_->statistics().synced_batches - before.synced_batches, 1);
}

TEST_F(store_actor_test, if_a_batch_cannot_be_written_all_its_requests_get_an_error) {
  auto large = make_variant("large");
  large.program = std::string(std::size_t{4} << 20, 'x');
  auto first = ask_store<message::reserved>(message::reserve_attempt{make_variant("small"), "e1", ""});
  auto second = ask_store<message::reserved>(message::reserve_attempt{large, "e1", ""});
  auto again = ask_store<message::reserved>(message::reserve_attempt{make_variant("small"), "e1", ""});
  std::optional<full_disk> full(std::in_place);
  release();
  EXPECT_EQ(answer<message::reserved>(first).error().code, errc::infrastructure);
  EXPECT_EQ(answer<message::reserved>(second).error().code, errc::infrastructure);
  EXPECT_EQ(answer<message::reserved>(again).error().code, errc::infrastructure)
      << "it was refused because of an attempt that was not written";
  full.reset();
  auto later = ask_store<message::reserved>(message::reserve_attempt{make_variant("small"), "e1", ""});
  release();
  EXPECT_EQ(answer<message::reserved>(later)->attempt.number, 1);
}

// Each of many batches is made while the one before is written.
TEST_F(store_actor_test, changes_that_build_on_each_other_are_stored_in_their_order) {
  constexpr int variants = 600;  // more changes than a batch may have
  const auto before = db_->statistics();
  release();
  using handle = decltype(ask_store<message::reserved>(message::reserve_attempt{}));
  std::vector<handle> reserved;
  std::vector<decltype(ask_store<message::done>(message::lose_attempt{}))> lost;
  for (int i = 0; i < variants; ++i) {
    const auto v = make_variant(std::to_string(i));
    attempt_record first;
    std::tie(first.experiment, first.task, first.variant) = std::tuple("e1", v.task, v.id);
    reserved.push_back(ask_store<message::reserved>(message::reserve_attempt{v, "e1", ""}));
    lost.push_back(ask_store<message::done>(message::lose_attempt{first, "again", store::loss::elsewhere}));
    reserved.push_back(ask_store<message::reserved>(message::reserve_attempt{v, "e1", ""}));
  }
  for (std::size_t i = 0; i < reserved.size(); ++i) {
    const auto got = answer<message::reserved>(reserved[i]);
    ASSERT_TRUE(holds(got)) << i;
    EXPECT_EQ(got->attempt.number, i % 2 == 0 ? 1 : 2);
  }
  for (auto& l : lost)
    EXPECT_TRUE(holds(answer<message::done>(l)));
  EXPECT_GT(db_->statistics().synced_batches - before.synced_batches, 1);
  EXPECT_EQ(db_->attempts("e1")->size(), std::size_t{2 * variants});
}

TEST_F(store_actor_test, a_read_sees_every_change_that_was_sent_before_it) {
  auto created = ask_store<message::created_experiments>(message::create_experiments{{experiment_record{}}});
  auto loaded = ask_store<message::loaded_experiment>(message::load_experiment{"e1"});
  release();
  EXPECT_TRUE(holds(answer<message::created_experiments>(created)));
  EXPECT_TRUE(holds(answer<message::loaded_experiment>(loaded)));
}

TEST_F(store_actor_test, a_batch_is_bounded) {
  const auto before = db_->statistics();
  for (std::size_t i = 0; i < 2 * store_state::most_in_a_batch + 1; ++i)
    self_->send(actor_, message::note_event{});
  auto last = ask_store<message::running_experiments>(message::list_running{});
  release();
  ASSERT_TRUE(holds(answer<message::running_experiments>(last)));
  EXPECT_EQ(db_->statistics().synced_batches - before.synced_batches, 3);
  EXPECT_EQ(db_->events_after(0, 10'000)->size(), 2 * store_state::most_in_a_batch + 1);
}

TEST_F(store_actor_test, what_was_sent_before_an_exit_is_written) {
  self_->send(actor_, message::note_event{});
  auto created = ask_store<message::created_experiments>(message::create_experiments{{experiment_record{}}});
  caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
  release();
  EXPECT_TRUE(holds(answer<message::created_experiments>(created)));
  EXPECT_EQ(db_->events_after(0, 10)->size(), 1u);
}

}  // namespace
}  // namespace cudal1
