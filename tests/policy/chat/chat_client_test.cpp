#include "policy/chat/chat_client.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "asking.hpp"
#include "chat_server_process.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A script with one rule for everything.
std::string always(const std::string& answers) {
  return R"({"rules": [{"answers": [)" + answers + "]}]}";
}

TEST(chat_client, puts_a_streamed_answer_together_with_its_counts_and_cost) {
  const chat_server_process server(always(
      R"({"text": "Ein schöner Kernel: π ≈ 3.14", "reasoning": "größer denken", "prompt_tokens": 2000, "answer_tokens": 500})"));
  auto m = test_model(server.url());
  m.price_prompt = 3;
  m.price_answer = 10;
  const auto budget = chat_budget::make(0, 0);
  const auto client = client_of(m, nullptr, budget);
  const auto a = ask_and_wait(*client, request_for("hello"));
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->text, "Ein schöner Kernel: π ≈ 3.14");
  EXPECT_EQ(a->reasoning, "größer denken");
  EXPECT_EQ(a->model, "test-model");
  EXPECT_EQ(a->finish_reason, "stop");
  EXPECT_EQ(a->prompt_tokens, 2000);
  EXPECT_EQ(a->answer_tokens, 500);
  EXPECT_FALSE(a->tokens_estimated);
  EXPECT_NEAR(a->cost, 0.006 + 0.005, 1e-12);
  EXPECT_EQ(a->tries, 1);
  EXPECT_FALSE(a->cached);
  EXPECT_GT(a->seconds, 0);
  EXPECT_EQ(budget->spent().tokens(), 2500);
  EXPECT_NEAR(budget->spent().money, 0.011, 1e-12);
  ASSERT_EQ(server.begun().size(), 1u);
  EXPECT_FALSE(server.begun()[0].find("authorized")->as_bool()) << "there is no key";
  EXPECT_EQ(server.begun()[0].find("max_tokens")->as_int(), 1000);
}

TEST(chat_client, accepts_what_servers_send_beyond_the_protocol) {
  const std::vector<std::string> faults = {"role_only",    "keep_alive", "crlf",
                                           "no_done",      "no_finish",  "cut_after_finish",
                                           "not_streamed", "think_tags", "unknown_length"};
  std::vector<std::string> rules;
  for (const auto& fault : faults)
    rules.push_back(fmt::format(
        R"({{"match": "^{}$", "answers": [{{"text": "größere Antwort", "reasoning": "weil", "fault": "{}"}}]}})", fault,
        fault));
  const chat_server_process server(fmt::format(R"({{"rules": [{}]}})", fmt::join(rules, ", ")));
  const auto client = client_of(test_model(server.url()));
  for (const auto& fault : faults) {
    const auto a = ask_and_wait(*client, request_for(fault));
    ASSERT_TRUE(a) << fault << ": " << a.error().message;
    EXPECT_THAT(a->text, HasSubstr("größere Antwort")) << fault;
    EXPECT_THAT(a->text, testing::Not(HasSubstr("think>"))) << fault;
    EXPECT_THAT(a->reasoning, HasSubstr("weil")) << fault;
    EXPECT_EQ(a->tries, 1) << fault;
    EXPECT_EQ(a->tokens_estimated, fault == "cut_after_finish") << fault;
    EXPECT_GT(a->answer_tokens, 0) << fault;
  }
}

TEST(chat_client, reads_reasoning_of_either_name_and_estimates_tokens_that_nobody_counted) {
  const chat_server_process server(
      always(R"({"text": "yes", "reasoning": "thought", "reasoning_name": "reasoning", "usage": "none"})"));
  const auto client = client_of(test_model(server.url()));
  const auto a = ask_and_wait(*client, request_for(std::string(300, 'x')));
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->reasoning, "thought");
  EXPECT_TRUE(a->tokens_estimated);
  EXPECT_GE(a->prompt_tokens, 100);
  EXPECT_EQ(a->answer_tokens, 4);
}

TEST(chat_client, tells_of_each_failed_try_and_when_it_answers_again) {
  const chat_server_process server(
      R"({"rules": [{"answers": [{"status": 500, "body": "out of memory"}, {"text": "yes"}]}]})");
  std::vector<std::string> told;
  {
    const auto client = chat_client::start(test_model(server.url()), chat_budget::make(0, 0), nullptr,
                                           [&](const std::string& what) { told.push_back(what); });
    ASSERT_TRUE(client) << client.error().message;
    EXPECT_TRUE(ask_and_wait(**client, request_for("hello")));
  }
  ASSERT_EQ(told.size(), 2U);
  EXPECT_THAT(told[0], HasSubstr("model tester at http://127.0.0.1:"));
  EXPECT_THAT(told[0], HasSubstr("status 500: out of memory (try 1 of 4)"));
  EXPECT_EQ(told[1], "");
}

TEST(chat_client, never_has_more_requests_in_flight_than_its_limit) {
  const chat_server_process server(always(R"({"text": "abcdefgh", "tokens_per_s": 40})"));
  auto m = test_model(server.url());
  m.parallel = 5;
  const auto client = client_of(m);
  std::vector<answer_future> futures;
  for (int i = 0; i < 32; ++i)
    futures.push_back(begin_asking(*client, request_for("hello", i)).second);
  for (auto& f : futures) {
    const auto a = f.get();
    ASSERT_TRUE(a) << a.error().message;
    EXPECT_EQ(a->text, "abcdefgh");
  }
  int64_t most = 0;
  for (const auto& entry : server.begun())
    most = std::max(most, entry.find("in_flight")->as_int());
  EXPECT_EQ(server.begun().size(), 32u);
  EXPECT_LT(most, 2 * m.parallel) << "the server sees ends of replies after the client, on a busy machine later; "
                                     "without a limit there are 32";
  EXPECT_GE(most, 4);
}

TEST(chat_client, has_thirty_two_requests_in_flight_at_once) {
  const chat_server_process server(always(R"({"text": "abcd", "delay_s": 0.5})"));
  const auto client = client_of(test_model(server.url()));
  std::vector<answer_future> futures;
  for (int i = 0; i < 32; ++i)
    futures.push_back(begin_asking(*client, request_for("hello", i)).second);
  for (auto& f : futures)
    EXPECT_TRUE(f.get());
  int64_t most = 0;
  for (const auto& entry : server.begun())
    most = std::max(most, entry.find("in_flight")->as_int());
  EXPECT_EQ(most, 32);
}

TEST(chat_client, samples_of_one_prompt_differ_in_the_seed_that_is_sent) {
  const chat_server_process server(always(R"({"text": "a"})"));
  const auto client = client_of(test_model(server.url()));
  ASSERT_TRUE(ask_and_wait(*client, request_for("hello", 0)));
  ASSERT_TRUE(ask_and_wait(*client, request_for("hello", 1)));
  const auto asked = server.begun();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].find("prompt")->as_string(), asked[1].find("prompt")->as_string());
  EXPECT_NE(asked[0].find("seed")->as_int(), asked[1].find("seed")->as_int());
}

TEST(chat_client, a_cancelled_request_ends_at_once_wherever_it_is) {
  const chat_server_process server(always(R"({"text": "abcdefgh", "fault": "stall"})"));
  auto m = test_model(server.url());
  m.parallel = 1;
  const auto client = client_of(m);
  auto [running, first] = begin_asking(*client, request_for("hello"));
  auto [queued, second] = begin_asking(*client, request_for("again"));
  ASSERT_TRUE(server.wait_until_begun(1));
  client->cancel(queued);
  const auto b = second.get();
  ASSERT_FALSE(b);
  EXPECT_EQ(b.error().code, errc::cancelled);
  client->cancel(running);
  const auto a = first.get();
  ASSERT_FALSE(a);
  EXPECT_EQ(a.error().code, errc::cancelled);
  EXPECT_TRUE(server.wait_until_ended(1)) << "the connection is closed";
  client->cancel(running);  // of no effect
  client->cancel(12345);
}

TEST(chat_client, the_destructor_answers_every_request_and_nothing_comes_after_it) {
  const chat_server_process server(always(R"({"text": "abcdefgh", "fault": "stall"})"));
  std::atomic<int> cancelled = 0, others = 0;
  auto m = test_model(server.url());
  m.parallel = 4;
  auto client = client_of(m);
  for (int i = 0; i < 20; ++i)
    client->ask(request_for("hello", i), [&](const expected<chat_answer>& a) {
      ++(!a && a.error().code == errc::cancelled ? cancelled : others);
    });
  ASSERT_TRUE(server.wait_until_begun(4));
  client.reset();
  EXPECT_EQ(cancelled, 20);
  EXPECT_EQ(others, 0);
}

TEST(chat_client, stops_at_the_budget_and_says_what_was_spent) {
  const chat_server_process server(always(R"({"text": "abcd", "prompt_tokens": 100, "answer_tokens": 500})"));
  const auto budget = chat_budget::make(5000, 0, {.prompt_tokens = 1000, .answer_tokens = 0, .money = 0});
  const auto client = client_of(test_model(server.url()), nullptr, budget);
  // Each may need about 1023 tokens, and uses 600: the last one fits while at most 3977 are spent.
  std::vector<answer_future> futures;
  for (int i = 0; i < 20; ++i)
    futures.push_back(begin_asking(*client, request_for("hello", i)).second);
  int answered = 0, refused = 0;
  for (auto& f : futures) {
    const auto a = f.get();
    a ? ++answered : ++refused;
    if (!a) {
      EXPECT_EQ(a.error().code, errc::out_of_budget);
      EXPECT_THAT(a.error().message, AllOf(HasSubstr("of 5000 tokens are spent"), HasSubstr("llm.budget_tokens")));
    }
  }
  EXPECT_EQ(answered, 5) << "requests that did not fit beside others in flight waited for them";
  EXPECT_EQ(refused, 15);
  EXPECT_EQ(budget->spent().tokens(), 1000 + 5 * 600);
  EXPECT_EQ(server.begun().size(), 5u);
}

TEST(chat_client, several_clients_share_a_budget) {
  const chat_server_process server(
      always(R"({"text": "abcd", "prompt_tokens": 0, "answer_tokens": 1000, "delay_s": 0.1})"));
  const auto budget = chat_budget::make(0, 0.0105);
  auto m = test_model(server.url());
  m.price_answer = 1;  // 0.001 an answer
  const auto one = client_of(m, nullptr, budget), two = client_of(m, nullptr, budget);
  std::vector<answer_future> futures;
  for (int i = 0; i < 20; ++i)
    futures.push_back(begin_asking(i % 2 == 0 ? *one : *two, request_for("hello", i)).second);
  const auto answered = std::ranges::count_if(futures, [](auto& f) { return f.get().has_value(); });
  EXPECT_EQ(answered, 10);
  EXPECT_LE(budget->spent().money, 0.0105);
}

TEST(chat_client, an_answer_is_asked_for_once_by_any_number_of_clients) {
  const chat_server_process server(always(R"({"text": "abcd", "answer_tokens": 50})"));
  const temporary_folder data;
  auto m = test_model(server.url());
  m.price_answer = 2;
  {
    const auto client = client_of(m, std::make_shared<answer_cache>(data.path() + "/answers"));
    const auto a = ask_and_wait(*client, request_for("hello"));
    ASSERT_TRUE(a) << a.error().message;
    EXPECT_FALSE(a->cached);
    EXPECT_GT(a->cost, 0);
  }
  const auto budget = chat_budget::make(0, 0);
  const auto client = client_of(m, std::make_shared<answer_cache>(data.path() + "/answers"), budget);
  const auto a = ask_and_wait(*client, request_for("hello"));
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_TRUE(a->cached);
  EXPECT_EQ(a->text, "abcd");
  EXPECT_EQ(a->cost, 0);
  EXPECT_EQ(budget->spent().tokens(), 0);
  EXPECT_EQ(server.begun().size(), 1u);
  const auto other = ask_and_wait(*client, request_for("hello", 1));
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->cached) << "another sample of the same prompt";
}

TEST(chat_client, no_socket_is_inherited_by_the_processes_that_are_started) {
  const chat_server_process server(always(R"({"text": "abcdefgh", "fault": "stall"})"));
  const auto client = client_of(test_model(server.url()));
  auto asked = begin_asking(*client, request_for("hello")).second;
  ASSERT_TRUE(server.wait_until_begun(1));
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (!std::filesystem::read_symlink(entry.path(), gone).string().starts_with("socket:")) continue;
    ++sockets;
    const int fd = std::stoi(entry.path().filename().string());
    if (fd > 2) {
      EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
    }
  }
  EXPECT_GE(sockets, 1);
}

TEST(chat_client, a_url_that_cannot_be_used_is_an_error_with_examples) {
  const auto none = chat_client::start(test_model(""), chat_budget::make(0, 0), nullptr);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("llm.url"), HasSubstr("https://api.openai.com/v1"),
                                          HasSubstr("vLLM"), HasSubstr("Ollama")));
}

}  // namespace
}  // namespace cudal1
