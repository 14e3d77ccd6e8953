// Changes that are made together: one synced batch, in which each sees those before it.
#include <array>
#include <future>
#include <optional>

#include "store/write_batch.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

TEST(store_together, changes_are_one_synced_batch_and_events_keep_their_order) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const auto before = s->statistics();
  std::vector<int64_t> numbers;
  const auto written = s->write_together([&] {
    for (int i = 0; i < 400; ++i) {
      event_record e;
      e.text = std::to_string(i);
      numbers.push_back(s->add_event(e).value().sequence);
    }
    EXPECT_EQ(s->statistics().synced_batches, before.synced_batches)
        << "nothing is written before the batch is complete";
    EXPECT_TRUE(s->events_after(0, 1000)->empty()) << "a reader sees only what is on disk";
  });
  ASSERT_TRUE(holds(written));
  EXPECT_EQ(s->statistics().synced_batches - before.synced_batches, 1);
  EXPECT_EQ(s->statistics().changes - before.changes, 400);
  const auto events = s->events_after(0, 10'000).value();
  ASSERT_EQ(events.size(), 400u);
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(events[i].sequence, numbers[i]);
    EXPECT_EQ(events[i].text, std::to_string(i));
  }
}

TEST(store_together, each_change_sees_those_before_it) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const auto v = make_variant("v");
  const auto written = s->write_together([&] {
    const auto first = s->reserve(v, "e1");
    ASSERT_TRUE(holds(first));
    EXPECT_EQ(s->reserve(v, "e1").error().code, errc::already_exists) << "an attempt is under way";
    ASSERT_TRUE(holds(s->lose(*first, "the node was busy", store::loss::on_device)));
    const auto second = s->reserve(v, "e1");
    ASSERT_TRUE(holds(second));
    EXPECT_EQ(second->number, 2);
    EXPECT_EQ(s->commit(*first, make_verdict(*first, 1.5), make_environment()).error().code, errc::cancelled);
    ASSERT_TRUE(holds(s->commit(*second, make_verdict(*second, 1.5), make_environment())));
    EXPECT_EQ(s->reserve(v, "e1").error().code, errc::already_exists) << "there is a verdict";
    auto e = s->create_experiment({}).value();
    e.active_s = 12;
    EXPECT_TRUE(holds(s->update_experiment(e)));
  });
  ASSERT_TRUE(holds(written));
  EXPECT_TRUE(s->has_attempt("e1", v.task, v.id).value());
  EXPECT_EQ(s->get_experiment("e1")->active_s, 12);
  EXPECT_EQ(s->attempts("e1")->size(), 2u);
}

TEST(store_together, a_variant_with_a_verdict_is_measured_again) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const auto v = make_variant("v");
  EXPECT_EQ(s->reserve_again(v, "e1").error().code, errc::not_found) << "it was never measured";
  const auto first = s->reserve(v, "e1");
  ASSERT_TRUE(holds(first));
  EXPECT_EQ(s->reserve_again(v, "e1").error().code, errc::already_exists) << "an attempt is under way";
  ASSERT_TRUE(holds(s->commit(*first, make_verdict(*first, 4.1), make_environment())));
  const auto second = s->reserve_again(v, "e1");
  ASSERT_TRUE(holds(second));
  EXPECT_EQ(second->number, 2);
  verdict again = make_verdict(*second, 3.5);
  again.confirmed = true;
  ASSERT_TRUE(holds(s->commit(*second, again, make_environment())));
  EXPECT_EQ(s->verdicts_in_experiment("e1", v.task, v.id)->size(), 2U);
  const auto best = s->best(v.task, 8, store::ranking::all, "e1").value();
  ASSERT_EQ(best.size(), 1U) << "it is ranked by the confirmed verdict alone";
  EXPECT_EQ(best[0].result.score, 3.5);
}

TEST(store_together, a_refused_change_does_not_affect_the_others) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  expected<void> refused;
  ASSERT_TRUE(holds(s->write_together([&] {
    EXPECT_TRUE(holds(s->put_policy("a", {1, "a"})));
    refused = s->put_task({});
    EXPECT_TRUE(holds(s->put_policy("b", {1, "b"})));
  })));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::invalid_argument);
  EXPECT_TRUE(holds(s->get_policy("a")));
  EXPECT_TRUE(holds(s->get_policy("b")));
}

TEST(store_together, without_changes_no_batch_is_written) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const auto before = s->statistics();
  EXPECT_TRUE(holds(s->write_together([] {})));
  EXPECT_EQ(s->statistics().synced_batches, before.synced_batches);
}

TEST(store_together, of_a_batch_that_cannot_be_written_no_change_remains) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  ASSERT_TRUE(holds(s->put_policy("before", {1, "b"})));
  std::optional<full_disk> full(std::in_place);
  event_record e;
  const auto written = s->write_together([&] {
    EXPECT_EQ(s->add_event(e)->sequence, 1);
    EXPECT_TRUE(holds(s->put_policy("large", {1, std::string(std::size_t{4} << 20, 'x')})))
        << "the call alone succeeds";
  });
  full.reset();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, errc::infrastructure) << written.error().message;
  const auto later = s->add_event(e);
  ASSERT_TRUE(holds(later));
  EXPECT_EQ(later->sequence, 1) << "numbers that were not written are reused";
  EXPECT_TRUE(holds(s->get_policy("before")));
  EXPECT_FALSE(s->get_policy("large"));
  EXPECT_EQ(s->events_after(0, 10)->size(), 1u);
}

TEST(store_together, changes_are_made_while_others_are_written) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const auto before = s->statistics();
  const auto v = make_variant("v");
  expected<attempt_record> first, second;
  ASSERT_TRUE(holds(s->make_together([&] { first = s->reserve(v, "e1"); })));
  EXPECT_TRUE(s->attempts("e1")->empty()) << "nothing is written yet";
  std::promise<void> written;
  s->start_write([&] { written.set_value(); });
  ASSERT_TRUE(holds(s->make_together([&] {
    EXPECT_EQ(s->reserve(v, "e1").error().code, errc::already_exists) << "the batch that is being written has it";
    EXPECT_TRUE(holds(s->lose(*first, "again", store::loss::elsewhere)));
    second = s->reserve(v, "e1");
  })));
  EXPECT_EQ(s->put_policy("alone", {1, "x"}).error().code, errc::infrastructure) << "it would be written at once";
  written.get_future().wait();
  ASSERT_TRUE(holds(s->end_write()));
  EXPECT_EQ(s->attempts("e1")->size(), 1u) << "of the first batch only";
  s->start_write([] {});
  ASSERT_TRUE(holds(s->end_write()));
  EXPECT_EQ(s->attempts("e1")->size(), 2u);
  EXPECT_EQ(second->number, 2);
  EXPECT_EQ(s->statistics().synced_batches - before.synced_batches, 2);
  EXPECT_EQ(s->statistics().changes - before.changes, 4) << "with the refused one";
}

// Reservations and verdicts of several tasks, made one after the other or at the same time.
class changes_of_tasks : public testing::TestWithParam<bool> {
 protected:
  static constexpr int tasks = 6, variants = 12;

  void make(const std::vector<store::task_change>& changes) {
    if (GetParam()) {
      ASSERT_TRUE(holds(s_->make_of_tasks(changes)));
    } else {
      ASSERT_TRUE(holds(s_->make_together([&] {
        for (const auto& c : changes)
          c.make(*s_);
      })));
    }
    s_->start_write([] {});
    ASSERT_TRUE(holds(s_->end_write()));
  }
  static variant_record variant_of(int task, int number) {
    auto v = make_variant(fmt::format("v{}-{}", task, number));
    v.task = fmt::format("task {}", task);
    return v;
  }
  template <class Make>
  static std::vector<store::task_change> of_each_variant(Make make) {
    std::vector<store::task_change> all;
    for (int number = 0; number < variants; ++number)
      for (int task = 0; task < tasks; ++task)
        all.push_back({fmt::format("task {}", task), [=](attempt_store& a) { make(a, task, number); }});
    return all;
  }

  store_folder folder_;
  std::unique_ptr<store> s_ = store::open(folder_.store()).value();
};

TEST_P(changes_of_tasks, are_what_they_are_alone) {
  std::array<std::array<expected<attempt_record>, variants>, tasks> reserved, again;
  make(of_each_variant([&](attempt_store& a, int task, int number) {
    reserved[task][number] = a.reserve(variant_of(task, number), "e1");
    again[task][number] = a.reserve(variant_of(task, number), "e1");
  }));
  make(of_each_variant([&](attempt_store& a, int task, int number) {
    const auto& attempt = *reserved[task][number];
    const double score = 1 + 0.1 * number + task;
    if (number % 4 == 3) {
      EXPECT_TRUE(holds(a.lose(attempt, "the machine left", store::loss::elsewhere)));
    } else {
      EXPECT_TRUE(holds(a.commit(attempt, make_verdict(attempt, score), make_environment())));
    }
  }));
  for (int task = 0; task < tasks; ++task) {
    const auto id = fmt::format("task {}", task);
    for (int number = 0; number < variants; ++number) {
      EXPECT_EQ(again[task][number].error().code, errc::already_exists) << "it sees the change before it";
      const auto found = s_->verdicts_in_experiment("e1", id, variant_of(task, number).id).value();
      EXPECT_EQ(found.size(), number % 4 == 3 ? 0u : 1u);
    }
    const auto best = s_->best(id, 100, store::ranking::all, "e1").value();
    ASSERT_EQ(best.size(), 9u);
    EXPECT_DOUBLE_EQ(best.front().result.score, 1 + 0.1 * 10 + task);
  }
  const auto tallies = s_->tallies("e1").value();
  ASSERT_EQ(tallies.size(), static_cast<std::size_t>(tasks));
  for (const auto& t : tallies) {
    EXPECT_EQ(t.evaluations, 9);
    EXPECT_EQ(t.lost, 3);
  }
  EXPECT_EQ(s_->unfinished_attempts("e1")->size(), static_cast<std::size_t>(3 * tasks));
  const auto events = s_->events_after(0, 1000).value();
  ASSERT_EQ(events.size(), static_cast<std::size_t>(variants * tasks)) << "a verdict or a loss each";
  for (std::size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(events[i].sequence, static_cast<int64_t>(i) + 1);
  EXPECT_EQ(s_->statistics().changes, 2 * variants * tasks);
  EXPECT_EQ(s_->statistics().synced_batches, 2);
}

INSTANTIATE_TEST_SUITE_P(store_together, changes_of_tasks, testing::Bool(),
                         [](const auto& at_once) { return at_once.param ? "at_once" : "one_after_the_other"; });

TEST(store_together, what_was_made_of_a_batch_that_failed_fails_with_it) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const auto v = make_variant("v");
  const event_record e;
  {
    const full_disk full;
    ASSERT_TRUE(holds(s->make_together([&] {
      EXPECT_EQ(s->add_event(e)->sequence, 1);
      EXPECT_TRUE(holds(s->put_policy("large", {1, std::string(std::size_t{4} << 20, 'x')})));
    })));
    s->start_write([] {});
    ASSERT_TRUE(holds(s->make_together([&] {
      EXPECT_EQ(s->add_event(e)->sequence, 2);
      EXPECT_TRUE(holds(s->reserve(v, "e1")));
    })));
    EXPECT_FALSE(s->end_write());
  }
  ASSERT_TRUE(holds(s->write_together([&] {
    EXPECT_EQ(s->add_event(e)->sequence, 1);
    EXPECT_EQ(s->reserve(v, "e1")->number, 1) << "the first attempt was never made";
  })));
  EXPECT_EQ(s->events_after(0, 10)->size(), 1u);
  EXPECT_EQ(s->attempts("e1")->size(), 1u);
}

TEST(store_together, a_program_is_kept_once) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  auto v = make_variant("v");
  v.program = std::string(std::size_t{1} << 16, 'p');
  for (const char* experiment : {"e1", "e2", "e3"}) {
    v.origin = experiment;
    ASSERT_TRUE(holds(s->reserve(v, experiment)));
  }
  const auto uses = s->uses_of_variant(v.id).value();
  ASSERT_EQ(uses.size(), 3u);
  for (const auto& use : uses) {
    EXPECT_EQ(use.program, v.program);
    EXPECT_EQ(use.origin, use.experiment);
  }
  s.reset();
  const auto d = database::open_writer(folder.store()).value();
  std::size_t bytes = 0;
  ASSERT_TRUE(holds(d->scan(family::variants, "", [&](std::string_view, std::string_view value) -> expected<bool> {
    bytes += value.size();
    return true;
  })));
  EXPECT_LT(bytes, 2 * v.program.size());
}

TEST(store_together, a_batch_and_the_disk_are_read_together_in_order_of_keys) {
  store_folder folder;
  const auto d = database::open_writer(folder.store()).value();
  ASSERT_TRUE(holds(d->write({{family::policies, "b", "disk"}, {family::policies, "d", "disk"}})));
  write_batch batch(*d);
  for (const char* key : {"a", "b", "c", "e"})
    batch.add({family::policies, key, "batch"});
  batch.add({family::tasks, "b", "another family"});
  std::string all;
  const auto visit = [&](std::string_view key, std::string_view value) -> expected<bool> {
    all += fmt::format("{}={} ", key, value);
    return key != "d";
  };
  ASSERT_TRUE(holds(batch.scan(family::policies, "", visit)));
  EXPECT_EQ(all, "a=batch b=batch c=batch d=disk ") << "it stops when `visit` returns false";
  all.clear();
  ASSERT_TRUE(holds(batch.scan(family::policies, "e", visit)));
  ASSERT_TRUE(holds(batch.scan(family::policies, "", visit, "c")));
  EXPECT_EQ(all, "e=batch c=batch d=disk ");
  EXPECT_EQ(batch.get(family::policies, "d").value(), "disk");
  EXPECT_EQ(batch.get(family::policies, "c").value(), "batch");
  EXPECT_EQ(batch.get(family::policies, "f").value(), std::nullopt);
}

}  // namespace
}  // namespace cudal1
