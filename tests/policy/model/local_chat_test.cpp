// A model of random weights that answers like an endpoint: batches, the cache, budgets, cancelling, errors.
#include "policy/model/local/local_chat.hpp"

#include <chrono>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/chat/request_text.hpp"
#include "tests/policy/model/tiny_model.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class local_chat_model : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new temporary_folder();
    write_tiny_model(path());
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string path() { return folder_->path() + "/tiny"; }

  static std::shared_ptr<const local_checkpoint> files() {
    auto made = local_checkpoint::open(path());
    if (!made) throw std::runtime_error(made.error().message);
    return *made;
  }
  static chat_model model() {
    chat_model m;
    m.name = "tiny";
    m.model = "tiny";
    m.path = path();
    m.device = "cpu";
    m.precision = "float32";
    m.parallel = 8;
    m.patience_s = 60;
    m.max_answer_tokens = 40;
    m.temperature = 1;
    m.top_p = 1;
    m.cache_mb = 64;
    m.price_prompt = 1;
    m.price_answer = 2;
    m.url = files()->url(m);
    return m;
  }
  static std::unique_ptr<local_chat> client(const chat_model& m, std::shared_ptr<answer_cache> cache = nullptr,
                                            std::shared_ptr<chat_budget> budget = chat_budget::make(0, 0),
                                            model_client::trouble notice = {},
                                            std::shared_ptr<device_turns> turns = nullptr) {
    return local_chat::start(m, files(), std::move(budget), std::move(cache), std::move(turns), std::move(notice));
  }

  static temporary_folder* folder_;
};
temporary_folder* local_chat_model::folder_ = nullptr;

chat_request request(const std::string& words, int64_t sample = 0) {
  chat_request r;
  r.messages = {{"system", "You write kernels."}, {"user", words}};
  r.sample = sample;
  r.seed = 5;
  return r;
}

using answer_future = std::future<expected<chat_answer>>;

std::pair<uint64_t, answer_future> begin(model_client& c, chat_request r) {
  auto promise = std::make_shared<std::promise<expected<chat_answer>>>();
  auto future = promise->get_future();
  const auto id = c.ask(std::move(r), [promise](expected<chat_answer> a) { promise->set_value(std::move(a)); });
  return {id, std::move(future)};
}

expected<chat_answer> ask(model_client& c, chat_request r) {
  auto future = begin(c, std::move(r)).second;
  if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready) return fail(errc::timeout, "no callback");
  return future.get();
}

TEST_F(local_chat_model, answers_with_counts_times_and_cost) {
  const auto budget = chat_budget::make(0, 0);
  const auto c = client(model(), nullptr, budget);
  const auto a = ask(*c, request("hello"));
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->prompt_tokens, *files()->tokens_of(request("hello").messages));
  EXPECT_GT(a->prompt_tokens, 10);
  EXPECT_TRUE(a->finish_reason == "stop" || a->finish_reason == "length");
  EXPECT_LE(a->answer_tokens, 40);
  EXPECT_EQ(a->finish_reason == "length", a->answer_tokens == 40);
  EXPECT_FALSE(a->tokens_estimated);
  EXPECT_GT(a->seconds, a->prompt_seconds);
  EXPECT_GT(a->prompt_seconds, 0);
  EXPECT_GT(a->cache_bytes, 0);
  EXPECT_EQ(a->model_bytes, files()->shape().parameters() * 4);
  EXPECT_EQ(a->model, "tiny");
  EXPECT_NEAR(a->cost, (static_cast<double>(a->prompt_tokens) + 2.0 * static_cast<double>(a->answer_tokens)) * 1e-6,
              1e-12);
  EXPECT_EQ(budget->spent().tokens(), a->prompt_tokens + a->answer_tokens);
}

TEST_F(local_chat_model, gives_each_request_the_answer_that_it_has_alone) {
  std::vector<std::string> alone, together;
  {
    auto m = model();
    m.parallel = 1;
    const auto c = client(m);
    for (int i = 0; i < 6; ++i)
      alone.push_back(ask(*c, request(i < 3 ? "one" : "another prompt", i)).value().text);
  }
  const auto c = client(model());
  std::vector<answer_future> waiting;
  for (int i = 0; i < 6; ++i)
    waiting.push_back(begin(*c, request(i < 3 ? "one" : "another prompt", i)).second);
  for (auto& w : waiting)
    together.push_back(w.get().value().text);
  EXPECT_EQ(alone, together);
  EXPECT_NE(alone[0], alone[1]) << "samples differ";
}

TEST_F(local_chat_model, takes_a_request_beside_those_that_are_generated) {
  auto m = model();
  m.max_answer_tokens = 1800;
  const auto c = client(m);
  auto long_one = begin(*c, request("long")).second;
  auto r = request("short");
  r.max_tokens = 1;
  EXPECT_EQ(ask(*c, r).value().answer_tokens, 1);
  EXPECT_EQ(long_one.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  const auto a = long_one.get();
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->answer_tokens == files()->longest_answer(m), a->finish_reason == "length");
}

TEST_F(local_chat_model, waits_for_its_turn_on_a_device_that_measures_and_gives_it_back) {
  const auto turns = std::make_shared<device_turns>();
  auto measuring = turns->wait_for("cpu");
  auto m = model();
  m.max_answer_tokens = 1800;
  m.parallel = 1;
  const auto c = client(m, nullptr, chat_budget::make(0, 0), {}, turns);
  auto answer = begin(*c, request("hello")).second;
  EXPECT_EQ(answer.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  EXPECT_TRUE(turns->is_awaited("cpu"));
  measuring.end();
  while (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    turns->wait_for("cpu");  // not for more than half a second while it goes on
  ASSERT_TRUE(answer.get());
  measuring = turns->wait_for("cpu");
  // What is cancelled while it waits gets no turn.
  auto other = begin(*c, request("other"));
  c->cancel(other.first);
  EXPECT_EQ(other.second.get().error().code, errc::cancelled);
  measuring.end();
  EXPECT_TRUE(turns->wait_for("cpu"));
}

TEST_F(local_chat_model, answers_from_the_cache_without_loading_weights) {
  const temporary_folder data;
  const auto cache = std::make_shared<answer_cache>(data.path() + "/answers");
  const auto first = ask(*client(model(), cache), request("hello")).value();
  auto gone = model();
  gone.path = "/nowhere";  // would be an error when it is loaded
  const auto again = ask(*client(gone, cache), request("hello"));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->cached);
  EXPECT_EQ(again->text, first.text);
  EXPECT_EQ(again->cost, 0);
  // As a replay finds it.
  auto asked = request("hello");
  asked.max_tokens = files()->longest_answer(model());
  asked.temperature = 1;
  asked.top_p = 1;
  EXPECT_TRUE(cache->find(answer_key(model().url, "tiny", asked)));
}

TEST_F(local_chat_model, is_named_by_the_content_of_its_files) {
  const temporary_folder other;
  write_tiny_model(other.path() + "/moved");
  EXPECT_EQ(*checkpoint_identity(other.path() + "/moved"), files()->identity()) << "the same files elsewhere";
  write_tiny_model(other.path() + "/trained", 2);
  EXPECT_NE(*checkpoint_identity(other.path() + "/trained"), files()->identity()) << "other weights";
  auto m = model();
  m.constrained = true;
  EXPECT_NE(files()->url(m), files()->url(model()));
  m = model();
  m.precision = "bfloat16";
  EXPECT_NE(files()->url(m), files()->url(model()));
}

TEST_F(local_chat_model, refuses_what_does_not_fit_with_the_numbers) {
  const auto c = client(model());
  const auto a = ask(*c, request(std::string(2100, '!')));
  ASSERT_FALSE(a);
  EXPECT_EQ(a.error().code, errc::invalid_argument);
  EXPECT_THAT(a.error().message, AllOf(HasSubstr("the answer may have 40, but the model's context is 2048"),
                                       HasSubstr("llm.prompt=compact"), HasSubstr("model tiny on cpu")));
  auto small = model();
  small.cache_mb = 0;
  const auto b = ask(*client(small), request("hello"));
  ASSERT_FALSE(b);
  EXPECT_THAT(b.error().message, HasSubstr("llm.cache_mb"));
  EXPECT_TRUE(ask(*c, request("hello"))) << "others are answered";
}

TEST_F(local_chat_model, says_what_is_wrong_with_its_files) {
  std::string last;
  auto m = model();
  m.path = "/nowhere/model";
  const auto c = client(m, nullptr, chat_budget::make(0, 0), [&](const std::string& what) { last = what; });
  const auto a = ask(*c, request("hello"));
  ASSERT_FALSE(a);
  EXPECT_THAT(a.error().message, HasSubstr("/nowhere/model"));
  EXPECT_THAT(last, HasSubstr("/nowhere/model"));
}

TEST_F(local_chat_model, keeps_the_budget) {
  const auto budget = chat_budget::make(130, 0);
  const auto c = client(model(), nullptr, budget);
  std::vector<answer_future> waiting;
  for (int i = 0; i < 4; ++i)
    waiting.push_back(begin(*c, request("hello", i)).second);
  int answered = 0, refused = 0;
  for (auto& w : waiting) {
    const auto a = w.get();
    answered += a ? 1 : 0;
    refused += !a && a.error().code == errc::out_of_budget ? 1 : 0;
  }
  EXPECT_GE(answered, 1);
  EXPECT_EQ(answered + refused, 4);
  EXPECT_LE(budget->spent().tokens(), 130);
}

TEST_F(local_chat_model, ends_a_cancelled_request_and_all_others_when_it_is_destroyed) {
  auto m = model();
  m.parallel = 1;
  m.max_answer_tokens = 1000;
  auto c = client(m);
  std::vector<std::pair<uint64_t, answer_future>> waiting;
  for (int i = 0; i < 4; ++i)
    waiting.push_back(begin(*c, request("hello", i)));
  c->cancel(waiting[2].first);
  c->cancel(waiting[0].first);
  for (const std::size_t i : {2, 0}) {
    const auto a = waiting[i].second.get();
    EXPECT_TRUE(a || a.error().code == errc::cancelled);
  }
  c.reset();
  for (const std::size_t i : {1, 3})
    ASSERT_EQ(waiting[i].second.wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

TEST_F(local_chat_model, is_given_up_after_its_patience) {
  auto m = model();
  m.patience_s = 0;
  const auto a = ask(*client(m), request("hello"));
  ASSERT_FALSE(a);
  EXPECT_EQ(a.error().code, errc::timeout);
  EXPECT_THAT(a.error().message, HasSubstr("llm.patience_s"));
}

}  // namespace
}  // namespace cudal1
