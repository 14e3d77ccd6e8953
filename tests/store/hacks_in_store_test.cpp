// Hack cases in the store.
#include "config/base/describe.hpp"
#include "sandbox/verify/hack_index.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

hack_case make_case(const std::string& variant, hack_class kind = hack_class::writes_to_an_input) {
  hack_case c;
  c.kind = kind;
  c.variant = make_variant(variant).id;
  c.task = "task-a";
  c.experiment = "e1";
  c.result = outcome::wrote_input;
  c.gate = "run";
  c.reason = "a write into input \"x\"";
  c.origin = "hand: " + variant;
  c.signature = sign_source("__global__ void f(float* x) { x[0] = 1; } // " + variant);
  return c;
}

std::vector<std::string> ids_of(const std::vector<hack_case>& cases) {
  std::vector<std::string> ids;
  for (const auto& c : cases)
    ids.push_back(c.id);
  return ids;
}

using ids = std::vector<std::string>;

TEST(hack_cases_of_a_store, are_kept_as_they_are_with_ascending_ids) {
  store_folder folder;
  hack_case second;
  {
    auto s = store::open(folder.store()).value();
    EXPECT_EQ(s->put_hack_case(make_case("a")).value().id, "h1");
    second = s->put_hack_case(make_case("b", hack_class::forbidden_call)).value();
    EXPECT_EQ(second.id, "h2");
    EXPECT_GT(second.time_unix_ms, 0);
  }
  auto s = store::open(folder.store()).value();
  EXPECT_EQ(s->put_hack_case(make_case("c")).value().id, "h3") << "after a restart";
  EXPECT_EQ(to_text(s->hack_cases(hack_class::forbidden_call, 9).value().at(0)), to_text(second));
}

TEST(hack_cases_of_a_store, are_one_for_a_variant_and_a_class) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  ASSERT_TRUE(holds(s->put_hack_case(make_case("a"))));
  auto again = make_case("a");
  again.experiment = "e7";
  EXPECT_EQ(s->put_hack_case(again).value().experiment, "e1") << "the one that is there";
  EXPECT_EQ(s->put_hack_case(make_case("a", hack_class::state_between_calls)).value().id, "h2");
  EXPECT_EQ(ids_of(s->hack_cases_of_variant(make_variant("a").id).value()), (ids{"h1", "h2"}));
  EXPECT_TRUE(s->hack_cases_of_variant(make_variant("b").id).value().empty());
}

TEST(hack_cases_of_a_store, are_listed_by_class_newest_first_and_by_number) {
  store_folder folder;
  {
    auto s = store::open(folder.store()).value();
    for (int i = 1; i <= 12; ++i)
      ASSERT_TRUE(holds(s->put_hack_case(
          make_case(std::to_string(i), i % 3 == 0 ? hack_class::forbidden_call : hack_class::writes_to_an_input))));
  }
  auto s = store::open_reader(folder.store()).value();
  EXPECT_EQ(ids_of(s->hack_cases(hack_class::forbidden_call, 3).value()), (ids{"h12", "h9", "h6"}));
  EXPECT_TRUE(s->hack_cases(hack_class::forbidden_call, 0).value().empty());
  EXPECT_TRUE(s->hack_cases(hack_class::faster_than_memory, 9).value().empty());
  EXPECT_EQ(ids_of(s->newest_hack_cases(0, 3).value()), (ids{"h10", "h11", "h12"})) << "the newest, oldest first";
  EXPECT_EQ(ids_of(s->newest_hack_cases(10, 9).value()), (ids{"h11", "h12"}));
  EXPECT_TRUE(s->newest_hack_cases(12, 9).value().empty());
  EXPECT_EQ(s->newest_hack_cases(0, 100).value().size(), 12u);
  EXPECT_EQ(s->put_hack_case(make_case("x")).error().code, errc::invalid_argument) << "a reader";
}

TEST(hack_cases_of_a_store, need_a_variant_and_a_task) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  EXPECT_EQ(s->put_hack_case({}).error().code, errc::invalid_argument);
  EXPECT_TRUE(s->newest_hack_cases(0, 9).value().empty());
}

TEST(uses_of_a_variant, have_their_own_groups_and_verdicts) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  auto v = make_variant("v");
  v.time_unix_ms = 2;
  const auto a = s->reserve(v, "e1").value();
  v.time_unix_ms = 1;
  const auto b = s->reserve(v, "e2").value();
  ASSERT_TRUE(holds(s->commit(a, make_full_verdict(a, 1), make_environment())));
  ASSERT_TRUE(holds(s->commit(b, make_verdict(b, 3), make_environment())));
  const auto uses = s->uses_of_variant(v.id).value();
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].experiment, "e2") << "oldest first";
  const auto of_e1 = s->verdicts_in_experiment("e1", "task-a", v.id).value();
  ASSERT_EQ(of_e1.size(), 1u);
  EXPECT_EQ(of_e1[0].samples.size(), 72u);
  EXPECT_EQ(s->verdicts_in_experiment("e2", "task-a", v.id).value().at(0).score, 3);
  EXPECT_TRUE(s->verdicts_in_experiment("e3", "task-a", v.id).value().empty());
}

}  // namespace
}  // namespace cudal1
