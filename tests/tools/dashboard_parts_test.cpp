// The parts of the dashboard that need no node: sessions, forms, the index of variants.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "tests/tools/report_store.hpp"
#include "tools/cli/report/quick_rows.hpp"
#include "tools/serve/dashboard/actions.hpp"
#include "tools/serve/dashboard/page_access.hpp"
#include "tools/serve/dashboard/sessions.hpp"
#include "tools/serve/dashboard/variant_index.hpp"
#include "tools/serve/url_text.hpp"

namespace cudal1::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(web_sessions, end_by_time_by_logout_and_at_another_address) {
  web_sessions sessions;
  const auto now = std::chrono::steady_clock::now();
  const auto cookie = *sessions.begin("hash", "10.0.0.1", now);
  const auto other = *sessions.begin("hash", "10.0.0.1", now);
  ASSERT_TRUE(sessions.find(cookie, "10.0.0.1", now + 11h));
  EXPECT_NE(sessions.find(cookie, "10.0.0.1", now)->form_key, sessions.find(other, "10.0.0.1", now)->form_key);
  EXPECT_EQ(sessions.find(cookie, "10.0.0.1", now)->token_sha256, "hash");
  EXPECT_FALSE(sessions.find(cookie, "10.0.0.2", now));
  EXPECT_FALSE(sessions.find(cookie, "10.0.0.1", now + 13h));
  EXPECT_FALSE(sessions.find(cookie + "0", "10.0.0.1", now));
  EXPECT_FALSE(sessions.find("", "10.0.0.1", now));
  sessions.end(cookie);
  EXPECT_FALSE(sessions.find(cookie, "10.0.0.1", now));
  EXPECT_TRUE(sessions.find(other, "10.0.0.1", now));
}

TEST(web_sessions, the_oldest_ends_where_there_are_too_many) {
  web_sessions sessions;
  const auto now = std::chrono::steady_clock::now();
  const auto first = *sessions.begin("hash", "a", now);
  std::string last;
  for (int i = 1; i <= 256; ++i)
    last = *sessions.begin("hash", "a", now + std::chrono::seconds(i));
  EXPECT_FALSE(sessions.find(first, "a", now + 300s));
  EXPECT_TRUE(sessions.find(last, "a", now + 300s));
}

TEST(cookies, are_found_by_their_whole_name) {
  EXPECT_EQ(cookie_value("a=1; cudal1-session-80=abc; b=2", "cudal1-session-80"), "abc");
  EXPECT_EQ(cookie_value("xcudal1-session=no", "cudal1-session"), "");
  EXPECT_EQ(cookie_value("", "a"), "");
  EXPECT_EQ(cookie_value("a", "a"), "");
}

TEST(url_text, what_is_escaped_comes_back) {
  const std::string text = "a b+c&d=e/<\"'é%";
  EXPECT_EQ(url_unescaped(url_escaped(text), true), text);
  EXPECT_THAT(url_escaped(text), testing::Not(testing::ContainsRegex("[<>\"'&= ]")));
  const auto form = form_fields("a=1&b=x+y%26&c=&");
  ASSERT_TRUE(form);
  EXPECT_EQ(*form, (std::map<std::string, std::string>{{"a", "1"}, {"b", "x y&"}, {"c", ""}}));
  for (const char* wrong : {"a=%zz", "a=%00", "a=%ff", "a=1&a=2"})
    EXPECT_FALSE(form_fields(wrong)) << wrong;
}

TEST(safe_path, is_of_this_server) {
  EXPECT_EQ(safe_path("/experiments/e1"), "/experiments/e1");
  for (const char* other : {"", "x", "//evil.example", "/\\evil", "http://evil.example", "/a?b", "/a\r\nSet-Cookie: x",
                            "/login", "/logout"})
    EXPECT_EQ(safe_path(other), "/") << other;
}

TEST(search_of_form, is_the_body_of_the_api_or_says_what_is_wrong) {
  const auto body = search_of_form({{"tasks", "softmax, rms_norm\n mlp"}, {"device", "cpu"}, {"minutes", "1.5"}});
  ASSERT_TRUE(body) << body.error().message;
  EXPECT_EQ(body->text(), R"({"tasks":["softmax","rms_norm","mlp"],"device":"cpu","time_s":90.0})");
  const auto problem = [](const std::map<std::string, std::string>& form) {
    const auto made = search_of_form(form);
    return made ? "" : made.error().message;
  };
  EXPECT_THAT(problem({{"tasks", "a"}}), HasSubstr("no limit"));
  EXPECT_THAT(problem({{"tasks", ""}, {"minutes", "1"}}), HasSubstr("less than 1"));
  EXPECT_THAT(problem({{"tasks", "../x"}, {"minutes", "1"}}), HasSubstr("tasks"));
  EXPECT_THAT(problem({{"tasks", "a"}, {"evaluations", "many"}}), HasSubstr("evaluations"));
  EXPECT_THAT(problem({{"tasks", "a"}, {"minutes", "1"}, {"device", "gpu;rm"}}), HasSubstr("device"));
  EXPECT_THAT(problem({{"tasks", "a"}, {"minutes", "1"}, {"policy", "x"}}), HasSubstr("policy"));
}

// ---- the index of variants ------------------------------------------------------------------------------------------

class index_of_store : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<temporary_folder>();
    cli::write_report_store(folder_->path(), {.tasks = 4});
    store_ = std::move(*store::open(folder_->path() + "/store"));
  }
  static void TearDownTestSuite() {
    store_.reset();
    folder_.reset();
  }
  void SetUp() override { update(); }
  void update() {
    const auto read = [&](const std::function<expected<void>(store&)>& call) { return call(*store_); };
    const auto updated = index_.update(read, [] { return false; });
    ASSERT_TRUE(updated) << updated.error().message;
  }

  // One store for all tests.
  static inline std::unique_ptr<temporary_folder> folder_;
  static inline std::unique_ptr<store> store_;
  variant_index index_;
};

TEST_F(index_of_store, has_every_verdict_once) {
  int64_t evaluations = 0;
  const auto tallies = *store_->tallies();
  for (const auto& t : tallies)
    evaluations += t.evaluations;
  EXPECT_EQ(index_.state().read, evaluations);
  EXPECT_TRUE(index_.state().complete);
  const auto revision = index_.state().revision;
  update();
  EXPECT_EQ(index_.state().read, evaluations);
  EXPECT_EQ(index_.state().revision, revision) << "nothing is new";
  EXPECT_GE(index_.find({.most = 1000}).rows.size() + 1, static_cast<std::size_t>(evaluations))
      << "of one there are two";
}

TEST_F(index_of_store, sorts_by_every_column_and_pages) {
  for (const auto by : {variant_order::score, variant_order::time, variant_order::duration, variant_order::task,
                        variant_order::experiment, variant_order::outcome})
    for (const bool descending : {false, true}) {
      const auto all = index_.find({.by = by, .descending = descending, .most = 1000});
      std::vector<std::string> paged;
      for (std::size_t first = 0; first < all.found; first += 40)
        for (const auto& r : index_.find({.by = by, .descending = descending, .first = first, .most = 40}).rows)
          paged.push_back(r.variant);
      std::vector<std::string> at_once;
      for (const auto& r : all.rows)
        at_once.push_back(r.variant);
      EXPECT_EQ(paged, at_once);
    }
  const auto by_score = index_.find({.most = 1000}).rows;
  EXPECT_TRUE(std::ranges::is_sorted(by_score, std::greater(), &indexed_variant::score));
  EXPECT_EQ(index_.find({.first = 5000, .most = 50}).rows.size(), 0u);
}

TEST_F(index_of_store, filters) {
  const auto failed = index_.find({.experiment = "e2", .result = outcome::hang, .most = 1000}).rows;
  EXPECT_GT(failed.size(), 0u);
  for (const auto& r : failed)
    EXPECT_TRUE(r.experiment == "e2" && r.result == outcome::hang && r.score == 0);
  const auto task = failed.front().task;
  EXPECT_EQ(index_.find({.task = task, .experiment = "e2", .most = 1000}).found, 24u);
}

TEST_F(index_of_store, follows_the_events_of_a_search) {
  const auto experiment = *store_->get_experiment("e1");
  const auto task = experiment.tasks.front();
  variant_record v = index_.find({.task = task, .most = 1}).rows.empty()
                         ? variant_record()
                         : *store_->get_variant(index_.find({.task = task, .most = 1}).rows.front().variant);
  v.id = std::string(64, 'a');
  v.experiment = "e1";
  v.schedule = "unroll(group=0, loads=4)";
  const auto curve_before = index_.curves_of("e1").at(task);
  for (const bool confirmed : {false, true}) {
    const auto attempt = confirmed ? *store_->reserve_again(v, "e1") : *store_->reserve(v, "e1");
    verdict judged;
    judged.task = task;
    judged.variant = v.id;
    judged.score = confirmed ? 99 : 120;
    judged.score_interval = {90, 130};
    judged.confirmed = confirmed;
    judged.time_unix_ms = 1;
    ASSERT_TRUE(store_->commit(attempt, judged, {"cuda:0", "NVIDIA H200", "", "environment-h200"}));
    update();
    const auto best = index_.find({.most = 1}).rows.front();
    EXPECT_EQ(best.variant, v.id);
    EXPECT_EQ(best.score, judged.score);
    EXPECT_EQ(best.confirmed, confirmed);
  }
  const auto curve = index_.curves_of("e1").at(task);
  EXPECT_EQ(curve.verdicts, curve_before.verdicts + 2);
  EXPECT_EQ(curve.points.back(), (cli::best_so_far{curve.verdicts, 99}));
}

TEST_F(index_of_store, the_newest_event_is_found_from_anywhere) {
  const auto last = *last_event(*store_, 0);
  EXPECT_GT(last, 100);
  for (const int64_t known : {int64_t{0}, int64_t{1}, last / 2, last - 1, last})
    EXPECT_EQ(*last_event(*store_, known), last) << known;
}

TEST_F(index_of_store, quick_rows_say_what_a_report_says) {
  const auto report = *cli::report_experiment(*store_, "e1");
  cli::quick_rows rows;
  for (const auto& row : report.tasks) {
    tally_record counts;
    const auto tallies = *store_->tallies("e1");
    for (const auto& t : tallies)
      if (t.task == row.task) counts = t;
    const auto quick = *rows.row(*store_, *store_->get_task(row.task), "e1", counts);
    EXPECT_EQ(quick.variant, row.variant);
    EXPECT_EQ(quick.speedup, row.speedup);
    EXPECT_EQ(quick.evaluations, row.evaluations);
    EXPECT_EQ(quick.floor_us, row.floor_us);
    EXPECT_EQ(quick.beats_reference, row.beats_reference);
  }
}

}  // namespace
}  // namespace cudal1::serve
