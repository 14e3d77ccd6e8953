// Drawing exemplars: against the formula, and against a plain model of the index.
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "store/exemplar_index.hpp"
#include "store/task_similarity.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

environment environment_of(const std::string& device, const std::string& model = "a GPU",
                           const std::string& libraries = "CUDA 13.0") {
  return {device, model, "driver 1, " + libraries, sha256_hex(device + model + libraries), libraries};
}

const std::string some_class = environment_class(make_environment());

// Chi-squared of counts against probabilities; with 60 degrees of freedom or fewer, 110 is exceeded once in 10^4 runs.
double chi_squared(const std::map<std::string, int64_t>& counts, const std::map<std::string, double>& probabilities) {
  double total = 0, sum = 0;
  for (const auto& [name, n] : counts)
    total += static_cast<double>(n);
  for (const auto& [name, p] : probabilities) {
    const auto found = counts.find(name);
    const double seen = found == counts.end() ? 0 : static_cast<double>(found->second);
    sum += (seen - total * p) * (seen - total * p) / (total * p);
  }
  return sum;
}

// Evaluates a variant: 0 is a wrong one.
void evaluate(store& s, const std::string& name, double score, const environment& where = make_environment(),
              const std::string& experiment = "e1", const std::string& task = "task-a", int64_t island = no_island,
              bool confirmed = false) {
  auto v = make_variant(name, task);
  v.island = island;
  const auto a = s.reserve(v, experiment);
  ASSERT_TRUE(holds(a));
  auto result = make_verdict(*a, score, confirmed);
  result.environment_id = where.id;
  ASSERT_TRUE(holds(s.commit(*a, result, where)));
}

exemplar_query query_of(uint64_t seed, std::size_t correct = 2, std::size_t failed = 0) {
  exemplar_query q;
  q.task = "task-a";
  q.environment_class = some_class;
  q.correct = correct;
  q.failed = failed;
  q.seed = seed;
  return q;
}

task_record task_of(const std::string& id, const std::string& family, const std::string& steps, int size = 1024,
                    const std::string& profile = "cpu") {
  return {id,
          id,
          "",
          family,
          profile,
          fmt::format(R"({{"inputs": [{{"name": "x", "dtype": "float32", "shape": [{}, 8]}}], "steps": [{}]}})", size,
                      steps)};
}

constexpr const char* softmax = R"({"aten": "aten::softmax.int"})";
constexpr const char* norm = R"({"aten": "aten::layer_norm"}, {"aten": "aten::softmax.int"})";

// ---- the formula ----------------------------------------------------------------------------------------------------

TEST(exemplar_draws, probabilities_are_a_softmax_over_mean_scores) {
  const auto p = bucket_probabilities({{4, 4.0}, {2, 4.0}, {1, 3.0}}, 0.5);  // means 1, 2, 3
  const double mean = 2, sum = std::exp((1 - mean) / 0.5) + std::exp(0.0) + std::exp((3 - mean) / 0.5);
  ASSERT_EQ(p.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(p[i], std::exp((static_cast<double>(i) + 1 - mean) / 0.5) / sum, 1e-12);
  EXPECT_NEAR(bucket_probabilities({{1, 1.0}, {1, 256.0}}, 1e-3)[1], 1, 1e-12) << "nothing overflows";
  EXPECT_TRUE(bucket_probabilities({}, 1).empty());
}

TEST(exemplar_draws, buckets_are_a_tenth_wide_and_their_number_is_bounded) {
  EXPECT_EQ(bucket_of(1.0), 0);
  EXPECT_EQ(bucket_of(1.09), 0);
  EXPECT_EQ(bucket_of(1.11), 1);
  EXPECT_EQ(bucket_of(0.95), -1);
  EXPECT_EQ(bucket_of(1e30), bucket_of(256));
  EXPECT_EQ(bucket_of(1e-30), bucket_of(1.0 / 256));
}

TEST(exemplar_draws, pairs_of_buckets_follow_the_formula_without_replacement) {
  const std::vector<exemplar_list> buckets{{3, 3.0}, {1, 1.4}, {2, 3.6}, {5, 12.5}};  // means 1, 1.4, 1.8, 2.5
  const auto p = bucket_probabilities(buckets, 0.7);
  std::map<std::string, double> expected;
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 4; ++j)
      if (i != j) expected[fmt::format("{} {}", i, j)] = p[i] * p[j] / (1 - p[i]);
  std::map<std::string, int64_t> counts;
  uint64_t random = 7;
  for (int i = 0; i < 40000; ++i) {
    const auto drawn = draw_buckets(buckets, 0.7, 2, random);
    ASSERT_EQ(drawn.size(), 2u);
    ++counts[fmt::format("{} {}", drawn[0], drawn[1])];
  }
  EXPECT_LT(chi_squared(counts, expected), 45) << "11 degrees of freedom";
  EXPECT_EQ(draw_buckets(buckets, 0.7, 9, random).size(), 4u);
}

TEST(exemplar_draws, slots_are_distinct_and_uniform) {
  uint64_t random = 3;
  std::map<std::string, int64_t> counts;
  std::map<std::string, double> expected;
  for (int i = 0; i < 10; ++i)
    expected[std::to_string(i)] = 0.1;
  for (int i = 0; i < 20000; ++i) {
    const auto drawn = draw_slots(10, 3, random);
    EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), 3u);
    for (const auto slot : drawn)
      ++counts[std::to_string(slot)];
  }
  EXPECT_LT(chi_squared(counts, expected), 40) << "9 degrees of freedom";
  EXPECT_EQ(draw_slots(2, 5, random).size(), 2u);
  EXPECT_TRUE(draw_slots(0, 5, random).empty());
}

TEST(exemplars, of_a_store_are_drawn_by_the_formula) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  const std::map<std::string, double> scores{{"a", 1.0},  {"b", 1.02}, {"c", 1.05}, {"d", 1.3},
                                             {"e", 1.75}, {"f", 1.8},  {"g", 2.6}};
  for (const auto& [name, score] : scores)
    evaluate(*s, name, score);
  std::map<int, exemplar_list> by_bucket;
  for (const auto& [name, score] : scores) {
    auto& b = by_bucket[bucket_of(score)];
    ++b.count;
    b.sum += score;
  }
  std::vector<exemplar_list> buckets;
  for (const auto& [number, b] : by_bucket)
    buckets.push_back(b);
  const auto p = bucket_probabilities(buckets, 1);
  std::map<std::string, double> expected;
  for (const auto& [name, score] : scores) {
    const auto place = std::distance(by_bucket.begin(), by_bucket.find(bucket_of(score)));
    expected[make_variant(name).id] =
        p[static_cast<std::size_t>(place)] / static_cast<double>(by_bucket[bucket_of(score)].count);
  }
  std::map<std::string, int64_t> counts;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const auto drawn = s->sample_exemplars(query_of(seed * 0x9e3779b97f4a7c15 + 1, 1));
    ASSERT_TRUE(holds(drawn));
    ASSERT_EQ(drawn->correct.size(), 1u);
    ++counts[drawn->correct[0].variant.id];
  }
  EXPECT_LT(chi_squared(counts, expected), 32) << "6 degrees of freedom";
}

// ---- the index ------------------------------------------------------------------------------------------------------

// The places of all variants and the lists, against what they should be; and each slot's variant has that place.
void expect_index(const write_batch& batch, const exemplar_scope& scope, const std::string& population,
                  const std::map<std::string, exemplar_entry>& wanted) {
  std::map<std::string, exemplar_list> lists;
  for (const auto& [variant, entry] : wanted) {
    const auto name =
        entry.result == outcome::correct ? std::to_string(bucket_of(entry.score)) : enum_name(entry.result);
    ++lists[name].count;
    lists[name].sum += entry.score;
    const auto place = read_place(batch, batch.on_disk(), scope, population, variant).value();
    ASSERT_TRUE(place) << variant;
    EXPECT_EQ(place->list, name);
    EXPECT_EQ(place->by.attempt, entry.attempt);
    EXPECT_EQ(read_slot(batch, batch.on_disk(), scope, population, name, place->slot).value(), variant);
  }
  const auto stored = read_lists(batch, batch.on_disk(), scope, population).value();
  ASSERT_EQ(stored.lists.size(), lists.size());
  for (const auto& [name, list] : lists) {
    EXPECT_EQ(stored.lists.at(name).count, list.count) << name;
    EXPECT_NEAR(stored.lists.at(name).sum, list.sum, 1e-9) << name;
    EXPECT_FALSE(read_slot(batch, batch.on_disk(), scope, population, name, list.count)) << "a slot behind the last";
  }
}

TEST(exemplar_index, is_what_a_plain_model_has_after_any_verdicts) {
  store_folder folder;
  const auto d = database::open_writer(folder.store()).value();
  write_batch batch(*d);
  const exemplar_scope scope{"task", "class"};
  std::mt19937_64 random(11);
  std::map<std::string, exemplar_entry> wanted;
  for (int i = 0; i < 3000; ++i) {
    const auto variant = std::to_string(random() % 60);
    exemplar_entry e{"e1", i, outcome::correct, 0.5 + static_cast<double>(random() % 300) / 100, random() % 3 == 0, i};
    if (random() % 4 == 0)
      e = {"e1", i, random() % 2 == 0 ? outcome::wrong_answer : outcome::unmeasurable, 0, false, i};
    ASSERT_TRUE(holds(index_verdict(batch, scope, variant, no_island, e)));
    const auto before = wanted.find(variant);
    const bool was_correct = before != wanted.end() && before->second.result == outcome::correct;
    const bool keeps = was_correct && (e.result == outcome::unmeasurable ||
                                       (e.result == outcome::correct && before->second.confirmed && !e.confirmed));
    if (!keeps) wanted[variant] = e;
    if (i % 500 == 499) {
      expect_index(batch, scope, "", wanted);
      ASSERT_TRUE(holds(batch.write()));
    }
  }
  expect_index(batch, scope, "", wanted);
}

// ---- the store ------------------------------------------------------------------------------------------------------

TEST(exemplars, come_from_all_experiments_of_a_class_with_their_verdicts) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  evaluate(*s, "a", 1.5, environment_of("cuda:0"), "e1");
  evaluate(*s, "b", 2.5, environment_of("cuda:1"), "e2");
  evaluate(*s, "c", 3.5, environment_of("cuda:0", "another GPU"), "e2");
  evaluate(*s, "d", 4.5, environment_of("cuda:0", "a GPU", "CUDA 13.1"), "e2");
  evaluate(*s, "e", 0, environment_of("cuda:1"), "e2");
  auto q = query_of(1, 10, 10);
  q.environment_class = environment_class(environment_of("cuda:7"));
  const auto drawn = s->sample_exemplars(q);
  ASSERT_TRUE(holds(drawn));
  ASSERT_EQ(drawn->correct.size(), 2u) << "other models and other libraries are other classes";
  EXPECT_EQ(drawn->correct[0].result.score, 2.5) << "best first";
  EXPECT_EQ(drawn->correct[0].variant.experiment, "e2");
  EXPECT_EQ(drawn->correct[1].variant.id, make_variant("a").id);
  EXPECT_EQ(drawn->correct[1].similarity, 1);
  ASSERT_EQ(drawn->failed.size(), 1u);
  EXPECT_EQ(drawn->failed[0].result.reason, "it is wrong");
  EXPECT_EQ(drawn->island, no_island);
}

TEST(exemplars, have_the_details_of_their_verdicts_and_the_same_seed_draws_the_same) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  for (int i = 0; i < 30; ++i) {
    const auto a = s->reserve(make_variant(std::to_string(i)), "e1").value();
    auto v = make_full_verdict(a, static_cast<uint64_t>(i));
    v.score = 1 + i * 0.1;
    ASSERT_TRUE(holds(s->commit(a, v, make_environment())));
  }
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto once = s->sample_exemplars(query_of(seed)).value(), again = s->sample_exemplars(query_of(seed)).value();
    ASSERT_EQ(once.correct.size(), 2u);
    EXPECT_NE(bucket_of(once.correct[0].result.score), bucket_of(once.correct[1].result.score)) << "distinct buckets";
    EXPECT_EQ(once.correct[0].result.samples.size(), 72u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(once.correct[i].variant.id, again.correct[i].variant.id);
      seen.insert(once.correct[i].variant.id);
    }
  }
  EXPECT_GT(seen.size(), 5u) << "other seeds draw others";
}

TEST(exemplars, of_few_buckets_are_more_of_one_and_all_are_drawn_once) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  for (const auto& [name, score] : std::map<std::string, double>{{"a", 1.01}, {"b", 1.02}, {"c", 1.03}, {"d", 2}})
    evaluate(*s, name, score);
  for (const auto& [wanted, got] : {std::pair<std::size_t, std::size_t>{3, 3}, {4, 4}, {9, 4}, {0, 0}}) {
    const auto drawn = s->sample_exemplars(query_of(5, wanted)).value().correct;
    std::set<std::string> ids;
    for (const auto& e : drawn)
      ids.insert(e.variant.id);
    EXPECT_EQ(drawn.size(), got);
    EXPECT_EQ(ids.size(), got);
  }
}

TEST(exemplars, stand_by_the_newest_verdict_and_a_confirmed_one_stays) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  ASSERT_TRUE(holds(s->put_task(task_of("task-a", "row", softmax))));
  evaluate(*s, "a", 1.5, make_environment(), "e1");
  evaluate(*s, "a", 1.7, make_environment(), "e2");
  EXPECT_EQ(s->sample_exemplars(query_of(1)).value().correct.at(0).result.score, 1.7);
  evaluate(*s, "a", 1.6, make_environment(), "e3", "task-a", no_island, true);
  evaluate(*s, "a", 1.9, make_environment(), "e4");
  const auto drawn = s->sample_exemplars(query_of(1)).value().correct;
  ASSERT_EQ(drawn.size(), 1u);
  EXPECT_EQ(drawn[0].result.score, 1.6);
  evaluate(*s, "a", 0, make_environment(), "e5");
  EXPECT_TRUE(s->sample_exemplars(query_of(1)).value().correct.empty()) << "it was found to be wrong";
  EXPECT_EQ(s->sample_exemplars(query_of(1, 1, 1)).value().failed.size(), 1u);
}

TEST(exemplars, of_a_malformed_query_are_an_error) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  auto q = query_of(1);
  q.temperature = 0;
  EXPECT_EQ(s->sample_exemplars(q).error().code, errc::invalid_argument);
  q = query_of(1);
  q.scheme = sampling_scheme::islands;
  q.islands = 0;
  EXPECT_EQ(s->sample_exemplars(q).error().code, errc::invalid_argument);
}

TEST(exemplars, are_read_in_another_process_and_from_a_store_of_schema_2) {
  store_folder folder;
  {
    auto s = store::open(folder.store()).value();
    for (int i = 0; i < 50; ++i)
      evaluate(*s, std::to_string(i), i % 5 == 0 ? 0 : 1 + i * 0.05);
  }
  const auto ids = [](store& s) {
    std::set<std::string> all;
    const auto drawn = s.sample_exemplars(query_of(1, 100, 100)).value();
    for (const auto& e : drawn.correct)
      all.insert(e.variant.id);
    for (const auto& e : drawn.failed)
      all.insert("failed " + e.variant.id);
    return all;
  };
  const auto wanted = ids(*store::open_reader(folder.store()).value());
  EXPECT_EQ(wanted.size(), 50u);
  {
    const auto d = database::open_writer(folder.store()).value();
    std::vector<put> puts{{family::meta, "schema", "2"}};
    ASSERT_TRUE(holds(d->scan_alone("exemplars", [&](std::string_view key, std::string_view) -> expected<bool> {
      puts.push_back({family::exemplars, std::string(key), std::nullopt});
      return true;
    })));
    puts.push_back({family::exemplars, "of a conversion that was interrupted", "x"});
    ASSERT_TRUE(holds(d->write(puts)));
  }
  EXPECT_EQ(store::open_reader(folder.store()).error().code, errc::unsupported);
  EXPECT_EQ(ids(*store::open(folder.store()).value()), wanted);
}

// ---- islands --------------------------------------------------------------------------------------------------------

exemplar_query of_islands(uint64_t seed, int64_t islands) {
  auto q = query_of(seed, 100);
  q.scheme = sampling_scheme::islands;
  q.islands = islands;
  return q;
}

// The ids on each island, by drawing all.
std::map<int64_t, std::set<std::string>> islands_of(store& s, int64_t islands) {
  std::map<int64_t, std::set<std::string>> all;
  for (uint64_t seed = 0; all.size() < static_cast<std::size_t>(islands) && seed < 1000; ++seed) {
    const auto drawn = s.sample_exemplars(of_islands(seed, islands)).value();
    for (const auto& e : drawn.correct)
      all[drawn.island].insert(e.variant.id);
  }
  return all;
}

TEST(islands, hold_what_was_made_from_them_and_begin_with_what_all_have) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  evaluate(*s, "first", 1.1);
  for (const auto& [island, ids] : islands_of(*s, 4))
    EXPECT_EQ(ids, std::set<std::string>{make_variant("first").id}) << island;
  evaluate(*s, "second", 1.2, make_environment(), "e1", "task-a", 2);
  const auto now = islands_of(*s, 4);
  EXPECT_EQ(now.at(2), std::set<std::string>{make_variant("second").id});
  EXPECT_EQ(now.at(0).size(), 2u);
}

TEST(islands, of_the_worse_half_are_reset_from_the_best_of_the_others) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  EXPECT_EQ(s->reset_islands("task-a", some_class, 1).error().code, errc::not_found);
  const std::array<double, 4> bests{1.5, 3.0, 1.2, 2.0};
  for (int64_t i = 0; i < 4; ++i) {
    evaluate(*s, fmt::format("best of {}", i), bests[static_cast<std::size_t>(i)], make_environment(), "e1", "task-a",
             i);
    evaluate(*s, fmt::format("slow of {}", i), 0.9, make_environment(), "e1", "task-a", i);
  }
  ASSERT_TRUE(holds(s->reset_islands("task-a", some_class, 9)));
  const auto now = islands_of(*s, 4);
  const auto best_of = [](int i) { return make_variant(fmt::format("best of {}", i)).id; };
  for (const int kept : {1, 3})
    EXPECT_EQ(now.at(kept), (std::set<std::string>{best_of(kept), make_variant(fmt::format("slow of {}", kept)).id}));
  for (const int emptied : {0, 2}) {
    ASSERT_EQ(now.at(emptied).size(), 1u);
    EXPECT_TRUE(now.at(emptied).contains(best_of(1)) || now.at(emptied).contains(best_of(3)));
  }
  evaluate(*s, "new", 5, make_environment(), "e1", "task-a", 0);
  EXPECT_EQ(islands_of(*s, 4).at(0).size(), 2u);
  EXPECT_EQ(s->sample_exemplars(query_of(1, 100)).value().correct.size(), 9u) << "all are kept";
  EXPECT_EQ(islands_of(*store::open_reader(folder.store()).value(), 4).at(0).size(), 2u);
}

TEST(islands, forget_a_best_variant_that_was_found_to_be_wrong) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  evaluate(*s, "cheat", 9, make_environment(), "e1", "task-a", 0);
  evaluate(*s, "honest", 1.5, make_environment(), "e1", "task-a", 0);
  evaluate(*s, "other", 2, make_environment(), "e1", "task-a", 1);
  evaluate(*s, "cheat", 0, make_environment(), "e2", "task-a", 0);
  ASSERT_TRUE(holds(s->reset_islands("task-a", some_class, 1)));
  EXPECT_EQ(islands_of(*s, 2).at(0), std::set<std::string>{make_variant("other").id});
}

// ---- borrowing ------------------------------------------------------------------------------------------------------

TEST(similarity, is_one_for_equal_tasks_and_falls_with_operators_family_and_size) {
  const auto of = [](const task_record& t) { return features_of(t).value(); };
  const auto a = of(task_of("a", "row", softmax));
  EXPECT_DOUBLE_EQ(similarity(a, a), 1);
  EXPECT_DOUBLE_EQ(similarity(a, of(task_of("b", "row", norm))), 0.6 * 0.5 + 0.4);
  EXPECT_DOUBLE_EQ(similarity(a, of(task_of("b", "pointwise", softmax))), 0.8);
  EXPECT_NEAR(similarity(a, of(task_of("b", "row", softmax, 1024 * 16))), 0.9, 1e-3);
  EXPECT_EQ(similarity(a, of(task_of("b", "row", softmax, 1024, "cuda"))), 0);
  EXPECT_EQ(features_of({"a", "a", "", "row", "cpu", "{}"}).error().code, errc::corrupt);
}

TEST(exemplars, of_a_task_without_any_are_borrowed_from_the_most_similar_one) {
  store_folder folder;
  auto s = store::open(folder.store()).value();
  for (const auto& t :
       {task_of("task-a", "row", softmax), task_of("alike", "row", norm), task_of("most alike", "row", softmax, 2048),
        task_of("other", "conv", R"({"aten": "aten::conv2d"})")})
    ASSERT_TRUE(holds(s->put_task(t)));
  EXPECT_TRUE(s->sample_exemplars(query_of(1)).value().correct.empty());
  evaluate(*s, "far", 9, make_environment(), "e1", "other");
  EXPECT_TRUE(s->sample_exemplars(query_of(1)).value().correct.empty()) << "too unlike";
  evaluate(*s, "near", 2, make_environment(), "e1", "alike");
  evaluate(*s, "nearest", 1.5, make_environment(), "e1", "most alike");
  const auto one = s->sample_exemplars(query_of(1, 1)).value().correct;
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].variant.task, "most alike");
  EXPECT_NEAR(one[0].similarity, 0.96, 0.01);
  EXPECT_EQ(s->sample_exemplars(query_of(1, 2)).value().correct.size(), 2u) << "the rest is the next task's";
  evaluate(*s, "own", 1.01);
  const auto own = s->sample_exemplars(query_of(1, 2)).value().correct;
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].variant.task, "task-a");
}

}  // namespace
}  // namespace cudal1
