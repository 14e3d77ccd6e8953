// Groups of proposals, what they were paid, and verdicts that another experiment may reuse.
#include "store/conclusions.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

group_record make_group(const std::string& experiment = "e1") {
  group_record g;
  g.experiment = experiment;
  g.task = "task-a";
  g.policy = "learned";
  g.asked = 4;
  g.exemplars = {make_variant("shown").id};
  g.seed = 0xfedcba9876543210;
  return g;
}

variant_record member(const std::string& name, const std::string& group) {
  auto v = make_variant(name);
  v.group = group;
  return v;
}

environment environment_of(const std::string& device, const std::string& libraries = "CUDA 13.0") {
  return {device, "a GPU", device + ", " + libraries, sha256_hex(device + libraries), libraries};
}

std::vector<std::string> ids_of(const std::vector<group_record>& groups) {
  std::vector<std::string> ids;
  for (const auto& g : groups)
    ids.push_back(g.id);
  return ids;
}

// ---- groups ---------------------------------------------------------------------------------------------------------

TEST(groups, have_ascending_ids_in_each_experiment_that_go_on_after_a_restart) {
  store_folder folder;
  {
    auto s = store::open(folder.store()).value();
    for (int i = 1; i <= 11; ++i)
      EXPECT_EQ(s->put_group(make_group()).value().id, fmt::format("e1/{}", i));
    EXPECT_EQ(s->put_group(make_group("e10")).value().id, "e10/1");
  }
  auto s = store::open(folder.store()).value();
  const auto last = s->put_group(make_group()).value();
  EXPECT_EQ(last.id, "e1/12");
  EXPECT_GT(last.time_unix_ms, 0) << "the store added the time";
  EXPECT_EQ(s->groups_of_experiment("e1").value().size(), 12u);
  EXPECT_EQ(s->groups_of_experiment("e1").value().back().id, "e1/12") << "by number, not by text";
  EXPECT_EQ(ids_of(s->groups_of_experiment("e10").value()), std::vector<std::string>{"e10/1"});
  EXPECT_EQ(to_text(store::open_reader(folder.store()).value()->get_group("e1/12").value()), to_text(last));
}

TEST(groups, that_are_closed_are_no_longer_open_and_stay) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(holds(s->put_group(make_group())));
  ASSERT_TRUE(holds(s->close_group("e1/2", {})));
  ASSERT_TRUE(holds(s->close_group("e1/2", {}))) << "a second time changes nothing";
  EXPECT_EQ(ids_of(s->open_groups("e1").value()), (std::vector<std::string>{"e1/1", "e1/3"}));
  EXPECT_TRUE(s->get_group("e1/2").value().closed);
  EXPECT_EQ(s->groups_of_experiment("e1").value().size(), 3u);
  auto changed = s->get_group("e1/3").value();
  changed.prompt = "of a blob";
  changed.closed = true;
  ASSERT_TRUE(holds(s->put_group(changed)));
  EXPECT_EQ(s->get_group("e1/3").value().prompt, "of a blob");
  EXPECT_EQ(ids_of(s->open_groups("e1").value()), std::vector<std::string>{"e1/1"});
  EXPECT_EQ(s->put_group(make_group()).value().id, "e1/4") << "a change takes no number";
}

TEST(groups, know_their_variants_in_the_order_of_reservation) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const auto g = s->put_group(make_group()).value(), other = s->put_group(make_group()).value();
  std::vector<std::string> wanted;
  ASSERT_TRUE(holds(s->write_together([&] {
    for (const char* name : {"c", "a", "b"}) {
      ASSERT_TRUE(holds(s->reserve(member(name, g.id), "e1")));
      wanted.push_back(make_variant(name).id);
    }
  })));
  ASSERT_TRUE(holds(s->reserve(member("d", other.id), "e1")));
  ASSERT_TRUE(holds(s->reserve(make_variant("of none"), "e1")));
  EXPECT_EQ(s->variants_of_group(g.id).value(), wanted);
  s.reset();
  s = store::open(folder.store()).value();
  ASSERT_TRUE(holds(s->reserve(member("c", g.id), "e1"))) << "a repeated attempt";
  EXPECT_EQ(s->variants_of_group(g.id).value(), wanted);
  EXPECT_TRUE(s->variants_of_group("e1/9").value().empty());
}

TEST(groups, of_another_experiment_get_no_variant_that_is_measured_again) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const auto g = s->put_group(make_group()).value();
  ASSERT_TRUE(holds(s->reserve(member("a", g.id), "e1")));
  ASSERT_TRUE(holds(s->reserve(member("a", g.id), "e2")));
  ASSERT_TRUE(holds(s->reserve(member("b", g.id), "e2")));
  EXPECT_EQ(s->variants_of_group(g.id).value(), std::vector<std::string>{make_variant("a").id});
}

TEST(groups, that_do_not_exist_or_are_of_another_task_are_errors) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  for (const char* id : {"e1/1", "e1/0", "e1/01", "e1", "/1", "1/1", "e1/1/1", "e1/-1", ""}) {
    EXPECT_EQ(s->get_group(id).error().code, errc::not_found) << id;
    EXPECT_EQ(s->close_group(id, {}).error().code, errc::not_found) << id;
    EXPECT_EQ(s->get_rewards(id).error().code, errc::not_found) << id;
  }
  EXPECT_EQ(s->reserve(member("a", "e1/1"), "e1").error().code, errc::not_found);
  EXPECT_FALSE(s->has_attempt("e1", "task-a", make_variant("a").id).value()) << "nothing was written";
  EXPECT_EQ(s->put_group({}).error().code, errc::invalid_argument);
  auto g = make_group();
  g.id = "e2/1";
  EXPECT_EQ(s->put_group(g).error().code, errc::invalid_argument);
  g.id = "";
  g.task = "task-b";
  g = s->put_group(g).value();
  EXPECT_EQ(s->reserve(member("a", g.id), "e1").error().code, errc::invalid_argument);
}

TEST(groups, of_a_reader_are_refused_to_be_written) {
  store_folder folder;
  { ASSERT_TRUE(holds(store::open(folder.store()).value()->put_group(make_group()))); }
  auto r = store::open_reader(folder.store()).value();
  EXPECT_EQ(r->put_group(make_group()).error().code, errc::invalid_argument);
  EXPECT_EQ(r->close_group("e1/1", {}).error().code, errc::invalid_argument);
  EXPECT_EQ(r->put_rewards({}).error().code, errc::invalid_argument);
  EXPECT_EQ(r->open_groups("e1").value().size(), 1u);
}

// ---- rewards --------------------------------------------------------------------------------------------------------

reward_record make_rewards(const std::string& group) {
  reward_record r;
  r.group = group;
  r.experiment = "e1";
  r.task = "task-a";
  r.variants = {make_variant("a").id, make_variant("b").id};
  r.attempts = {1, 2};
  r.scores = {1.0 / 3, 0};
  r.rewards = {0.1, -1.5};
  r.rule = "{\"rule\": \"score\"}";
  r.mean = 1.0 / 6;
  return r;
}

TEST(rewards_of_groups, are_kept_to_the_last_bit) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  ASSERT_TRUE(holds(s->put_group(make_group())));
  ASSERT_TRUE(holds(s->put_group(make_group())));
  auto r = make_rewards("e1/2");
  r.time_unix_ms = 7;
  ASSERT_TRUE(holds(s->put_rewards(make_rewards("e1/1"))));
  ASSERT_TRUE(holds(s->put_rewards(r)));
  s.reset();
  auto reader = store::open_reader(folder.store()).value();
  EXPECT_EQ(to_text(reader->get_rewards("e1/2").value()), to_text(r));
  EXPECT_GT(reader->get_rewards("e1/1").value().time_unix_ms, 7);
  const auto all = reader->rewards_of_experiment("e1").value();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].group, "e1/2");
  EXPECT_TRUE(reader->rewards_of_experiment("e2").value().empty());
}

TEST(rewards_of_groups, need_their_group_and_a_number_for_each_variant) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  EXPECT_EQ(s->put_rewards(make_rewards("e1/1")).error().code, errc::not_found);
  ASSERT_TRUE(holds(s->put_group(make_group())));
  auto r = make_rewards("e1/1");
  r.rewards.pop_back();
  EXPECT_EQ(s->put_rewards(r).error().code, errc::invalid_argument);
}

// ---- verdicts to reuse ----------------------------------------------------------------------------------------------

// Evaluates a variant in an experiment at a time.
verdict evaluate(store& s, const std::string& experiment, outcome result, int64_t time, const environment& where,
                 const std::string& reused_from = "") {
  const auto a = s.reserve(make_variant("v"), experiment).value();
  auto v = make_full_verdict(a, static_cast<uint64_t>(time));
  v.result = result;
  v.environment_id = where.id;
  v.time_unix_ms = time;
  v.reused_from = reused_from;
  EXPECT_TRUE(holds(s.commit(a, v, where)));
  return v;
}

std::optional<verdict> reusable(store& s, const environment& where) {
  return s.verdict_in_class("task-a", make_variant("v").id, environment_class(where)).value();
}

TEST(reused_verdicts, are_the_newest_of_the_class_with_details_and_their_experiment) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const auto here = environment_of("cuda:0");
  EXPECT_FALSE(reusable(*s, here));
  evaluate(*s, "e1", outcome::wrong_answer, 1, here);
  auto newest = evaluate(*s, "e2", outcome::correct, 3, environment_of("cuda:1"));
  evaluate(*s, "e3", outcome::correct, 2, here);
  evaluate(*s, "e4", outcome::correct, 9, environment_of("cuda:0", "CUDA 13.1"));
  s.reset();
  s = store::open_reader(folder.store()).value();
  newest.reused_from = "e2";
  const auto found = reusable(*s, here);
  ASSERT_TRUE(found);
  EXPECT_EQ(to_text(*found), to_text(newest));
  EXPECT_EQ(reusable(*s, environment_of("cuda:0", "CUDA 13.1"))->reused_from, "e4") << "another class";
  EXPECT_FALSE(s->verdict_in_class("task-b", make_variant("v").id, environment_class(here)).value());
}

TEST(reused_verdicts, are_conclusive_and_were_measured) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const auto here = environment_of("cuda:0");
  for (const auto result : {outcome::unmeasurable, outcome::unexplained, outcome::quarantined})
    evaluate(*s, fmt::format("e{}", 10 + static_cast<int>(result)), result, 5, here);
  EXPECT_FALSE(reusable(*s, here));
  evaluate(*s, "e1", outcome::correct, 1, here);
  evaluate(*s, "e2", outcome::correct, 2, here, "e1");
  EXPECT_EQ(reusable(*s, here)->reused_from, "e1") << "the original, not a verdict that was reused itself";
  evaluate(*s, "e3", outcome::crash, 3, here);
  EXPECT_EQ(reusable(*s, here)->result, outcome::crash);
}

TEST(reused_verdicts, are_found_in_a_store_of_schema_3) {
  store_folder folder;
  const auto here = environment_of("cuda:0");
  {
    auto s = store::open(folder.store()).value();
    evaluate(*s, "e1", outcome::correct, 1, here);
    evaluate(*s, "e2", outcome::unmeasurable, 2, here);
  }
  {
    const auto d = database::open_writer(folder.store()).value();
    std::vector<put> puts{{family::meta, "schema", "3"}};
    ASSERT_TRUE(holds(d->scan_alone("conclusions", [&](std::string_view key, std::string_view) -> expected<bool> {
      puts.push_back({family::conclusions, std::string(key), std::nullopt});
      return true;
    })));
    puts.push_back({family::conclusions, "of a conversion that was interrupted", "x"});
    ASSERT_TRUE(holds(d->write(puts)));
  }
  EXPECT_EQ(store::open_reader(folder.store()).error().code, errc::unsupported);
  EXPECT_EQ(reusable(*store::open(folder.store()).value(), here)->reused_from, "e1");
}

}  // namespace
}  // namespace cudal1
