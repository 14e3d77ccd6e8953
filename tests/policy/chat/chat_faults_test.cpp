// The chat client against servers and connections that fail.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>

#include "asking.hpp"
#include "chat_server_process.hpp"
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/stopwatch.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* good = R"({"text": "größere Antwort"})";

std::string in_turn(const std::vector<std::string>& answers) {
  return fmt::format(R"({{"rules": [{{"answers": [{}]}}]}})", fmt::join(answers, ", "));
}

// A server that answers the prompt "i" with the answers of the i-th list, in turn.
std::string by_prompt(const std::vector<std::vector<std::string>>& lists) {
  std::vector<std::string> rules;
  for (std::size_t i = 0; i < lists.size(); ++i)
    rules.push_back(fmt::format(R"({{"match": "^{}$", "answers": [{}]}})", i, fmt::join(lists[i], ", ")));
  return fmt::format(R"({{"rules": [{}]}})", fmt::join(rules, ", "));
}

std::size_t requests_of_rule(const chat_server_process& server, std::size_t rule) {
  const auto asked = server.begun();
  return static_cast<std::size_t>(
      std::ranges::count_if(asked, [&](const json& e) { return *e.find("rule") == json(static_cast<int64_t>(rule)); }));
}

// What comes of one request.
struct outcome_of_request {
  expected<chat_answer> answer;
  std::size_t requests;
  double ms;
};

outcome_of_request ask_server(const std::string& script, const std::function<void(chat_model&)>& set = {}) {
  const chat_server_process server(script);
  auto m = test_model(server.url());
  if (set) set(m);
  const auto client = client_of(m);
  const stopwatch watch;
  auto answer = ask_and_wait(*client, request_for("hello"));
  const double ms = watch.ms();
  return {std::move(answer), server.begun().size(), ms};
}

TEST(chat_faults, a_failed_try_is_repeated_and_the_answer_is_whole) {
  const std::vector<std::string> faults = {"close",           "cut",      "cut_in_character", "malformed",
                                           "error_in_stream", "not_http", "interrupted"};
  std::vector<std::vector<std::string>> lists;
  for (const auto& fault : faults)
    lists.push_back({fmt::format(R"({{"text": "größere Antwort", "fault": "{}"}})", fault), good});
  const chat_server_process server(by_prompt(lists));
  const auto client = client_of(test_model(server.url()));
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const auto a = ask_and_wait(*client, request_for(std::to_string(i)));
    ASSERT_TRUE(a) << faults[i] << ": " << a.error().message;
    EXPECT_EQ(a->text, "größere Antwort") << faults[i];
    EXPECT_EQ(a->tries, 2) << faults[i];
    EXPECT_EQ(requests_of_rule(server, i), 2u) << faults[i];
  }
}

TEST(chat_faults, what_a_cut_stream_cost_is_counted) {
  const chat_server_process server(in_turn({R"({"text": "012345678901234567890123456789", "fault": "cut"})",
                                            R"({"text": "whole", "answer_tokens": 2, "prompt_tokens": 10})"}));
  auto m = test_model(server.url());
  m.price_answer = 1;
  const auto budget = chat_budget::make(0, 0);
  const auto client = client_of(m, nullptr, budget);
  const auto a = ask_and_wait(*client, request_for("hello"));
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_GT(a->lost_tokens, 4);
  EXPECT_GT(a->cost, 2e-6);
  EXPECT_EQ(budget->spent().tokens(), 12 + a->lost_tokens);
  EXPECT_NEAR(budget->spent().money, a->cost, 1e-12);
}

TEST(chat_faults, temporary_statuses_are_repeated) {
  const std::vector<int> statuses = {408, 409, 429, 500, 502, 503, 529};
  std::vector<std::vector<std::string>> lists;
  for (const int status : statuses)
    lists.push_back({fmt::format(R"({{"status": {}, "body": "busy"}})", status), good});
  const chat_server_process server(by_prompt(lists));
  const auto client = client_of(test_model(server.url()));
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    const auto a = ask_and_wait(*client, request_for(std::to_string(i)));
    ASSERT_TRUE(a) << statuses[i] << ": " << a.error().message;
    EXPECT_EQ(requests_of_rule(server, i), 2u) << statuses[i];
  }
}

TEST(chat_faults, permanent_statuses_are_not_repeated) {
  const std::vector<int> statuses = {400, 401, 402, 403, 404, 413, 422, 501};
  std::vector<std::vector<std::string>> lists;
  for (const int status : statuses)
    lists.push_back({fmt::format(R"({{"status": {}, "body": {{"error": {{"message": "no way"}}}}}})", status), good});
  const chat_server_process server(by_prompt(lists));
  const auto client = client_of(test_model(server.url()));
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    const auto a = ask_and_wait(*client, request_for(std::to_string(i)));
    ASSERT_FALSE(a) << statuses[i];
    EXPECT_EQ(a.error().code, errc::invalid_argument) << statuses[i];
    EXPECT_THAT(a.error().message, AllOf(HasSubstr("no way"), HasSubstr(std::to_string(statuses[i]))));
    EXPECT_EQ(requests_of_rule(server, i), 1u) << statuses[i];
  }
}

TEST(chat_faults, a_used_up_quota_is_not_waited_for) {
  const auto r = ask_server(in_turn(
      {R"({"status": 429, "body": {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}})",
       good}));
  ASSERT_FALSE(r.answer);
  EXPECT_THAT(r.answer.error().message, HasSubstr("no credit left"));
  EXPECT_EQ(r.requests, 1u);
}

TEST(chat_faults, a_wait_that_the_server_asks_for_is_obeyed) {
  const std::time_t until = std::time(nullptr) + 4;
  const auto date = fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(until));
  const std::vector<std::string> headers = {
      R"("retry-after": "1")", R"("retry-after-ms": "300")",
      R"("x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "300ms")",
      R"("x-ratelimit-remaining-tokens": "12", "x-ratelimit-reset-tokens": "0.4s")",
      fmt::format(R"("retry-after": "{}")", date)};
  std::vector<std::vector<std::string>> lists;
  for (const auto& h : headers)
    lists.push_back({fmt::format(R"({{"status": 429, "headers": {{{}}}}})", h), good});
  const chat_server_process server(by_prompt(lists));
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const auto client = client_of(test_model(server.url()));
    const bool is_date = i + 1 == headers.size();
    const stopwatch watch;
    const auto a = ask_and_wait(*client, request_for(std::to_string(i)));
    ASSERT_TRUE(a) << headers[i] << ": " << a.error().message;
    EXPECT_EQ(requests_of_rule(server, i), 2u) << headers[i];
    if (is_date) {
      // The two clocks may go apart by some milliseconds.
      EXPECT_GE(std::chrono::system_clock::now() + std::chrono::milliseconds(20),
                std::chrono::system_clock::from_time_t(until))
          << headers[i];
    } else {
      EXPECT_GE(watch.ms(), 290) << headers[i];
    }
  }
}

TEST(chat_faults, a_longer_wait_than_the_patience_is_an_error_at_once) {
  const auto r = ask_server(in_turn({R"({"status": 429, "headers": {"retry-after": "1000"}})", good}));
  ASSERT_FALSE(r.answer);
  EXPECT_EQ(r.answer.error().code, errc::timeout);
  EXPECT_THAT(r.answer.error().message, AllOf(HasSubstr("1000 s"), HasSubstr("llm.patience_s")));
  EXPECT_EQ(r.requests, 1u);
}

TEST(chat_faults, a_rate_limit_holds_back_the_requests_that_come_after) {
  const chat_server_process server(in_turn({R"({"status": 429, "headers": {"retry-after-ms": "400"}})", good}));
  auto m = test_model(server.url());
  m.parallel = 1;
  const auto client = client_of(m);
  auto first = begin_asking(*client, request_for("one")).second;
  auto second = begin_asking(*client, request_for("two")).second;
  ASSERT_TRUE(first.get());
  ASSERT_TRUE(second.get());
  const auto asked = server.begun();
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_GE(asked[1].find("time")->as_number() - asked[0].find("time")->as_number(), 0.39);
}

TEST(chat_faults, the_last_try_ends_with_the_last_problem) {
  const auto r = ask_server(in_turn({R"({"status": 503, "body": {"error": {"message": "overloaded"}}})"}));
  ASSERT_FALSE(r.answer);
  EXPECT_EQ(r.answer.error().code, errc::infrastructure);
  EXPECT_THAT(r.answer.error().message,
              AllOf(HasSubstr("model tester at http://127.0.0.1"), HasSubstr("4 tries"), HasSubstr("overloaded")));
  EXPECT_EQ(r.requests, 4u);
}

TEST(chat_faults, a_server_that_falls_silent_is_left_after_the_token_timeout) {
  const auto r = ask_server(in_turn({R"({"text": "abcdefgh", "fault": "stall"})", good}),
                            [](chat_model& m) { m.token_timeout_s = 0.3; });
  ASSERT_TRUE(r.answer) << r.answer.error().message;
  EXPECT_EQ(r.answer->tries, 2);
  EXPECT_LT(r.ms, 3000);
}

TEST(chat_faults, a_server_that_sends_no_token_is_left_after_its_own_timeout) {
  const auto r = ask_server(in_turn({R"({"text": "abcdefgh", "fault": "stall_at_start"})"}), [](chat_model& m) {
    m.first_token_timeout_s = 0.3;
    m.tries = 2;
  });
  ASSERT_FALSE(r.answer);
  EXPECT_EQ(r.answer.error().code, errc::timeout);
  EXPECT_THAT(r.answer.error().message, HasSubstr("took too long"));
}

TEST(chat_faults, slow_but_steady_tokens_and_a_late_first_one_succeed) {
  const auto r =
      ask_server(in_turn({R"({"text": "0123456789abcdef0123456789abcdef", "tokens_per_s": 8, "first_token_s": 0.8})"}),
                 [](chat_model& m) { m.token_timeout_s = 0.4; });
  ASSERT_TRUE(r.answer) << r.answer.error().message;
  EXPECT_EQ(r.answer->tries, 1);
  EXPECT_GT(r.ms, 1500) << "longer than the token timeout";
}

TEST(chat_faults, the_patience_of_one_answer_ends_all_its_tries) {
  const auto r = ask_server(in_turn({R"({"text": "0123456789abcdef", "tokens_per_s": 2})"}),
                            [](chat_model& m) { m.patience_s = 0.5; });
  ASSERT_FALSE(r.answer);
  EXPECT_EQ(r.answer.error().code, errc::timeout);
  EXPECT_THAT(r.answer.error().message, HasSubstr("llm.patience_s"));
  EXPECT_LT(r.ms, 1500);
}

TEST(chat_faults, a_wrong_model_is_an_error_that_says_what_to_correct) {
  const auto r = ask_server(R"({"models": ["another-model"], "rules": [{"answers": [{"text": "a"}]}]})");
  ASSERT_FALSE(r.answer);
  EXPECT_EQ(r.answer.error().code, errc::invalid_argument);
  EXPECT_THAT(r.answer.error().message, AllOf(HasSubstr("no model \"test-model\""), HasSubstr("--model")));
  EXPECT_EQ(r.requests, 1u);
}

TEST(chat_faults, a_refused_key_that_the_server_repeats_is_masked) {
  const auto r = ask_server(R"({"key": "sk-right", "rules": [{"answers": [{"text": "a"}]}]})", [](chat_model& m) {
    m.key = {secret("sk-wrong-and-very-secret"), "the environment variable OPENAI_API_KEY"};
  });
  ASSERT_FALSE(r.answer);
  EXPECT_EQ(r.answer.error().code, errc::invalid_argument);
  EXPECT_THAT(r.answer.error().message,
              AllOf(HasSubstr("OPENAI_API_KEY"), HasSubstr("[key]"), Not(HasSubstr("very-secret"))));
  EXPECT_EQ(r.requests, 1u);
}

TEST(chat_faults, a_missing_key_is_an_error_that_says_where_it_is_sought) {
  const auto r = ask_server(R"({"key": "sk-right", "rules": [{"answers": [{"text": "a"}]}]})",
                            [](chat_model& m) { m.key.origin = "the environment variable OPENAI_API_KEY"; });
  ASSERT_FALSE(r.answer);
  EXPECT_THAT(r.answer.error().message, AllOf(HasSubstr("wants a key"), HasSubstr("OPENAI_API_KEY")));
}

TEST(chat_faults, a_right_key_is_accepted) {
  const auto r = ask_server(R"({"key": "sk-right", "rules": [{"answers": [{"text": "a"}]}]})",
                            [](chat_model& m) { m.key.value = secret("sk-right"); });
  EXPECT_TRUE(r.answer) << r.answer.error().message;
}

TEST(chat_faults, a_refusal_within_the_stream_is_not_repeated) {
  const auto r = ask_server(in_turn({R"({"text": "abcd", "fault": "refusal_in_stream"})", good}));
  ASSERT_FALSE(r.answer);
  EXPECT_THAT(r.answer.error().message, HasSubstr("the prompt is too long"));
  EXPECT_EQ(r.requests, 1u);
}

TEST(chat_faults, fields_that_a_server_does_not_know_are_left_out) {
  const auto refuse = [](const std::string& message, const std::string& param) {
    return fmt::format(R"({{"status": 400, "body": {{"error": {{"message": "{}", "param": "{}"}}}}}})", message, param);
  };
  const chat_server_process server(in_turn(
      {refuse(
           "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
           "max_tokens"),
       refuse("Unsupported value: 'temperature' does not support 0.5 with this model.", "temperature"),
       refuse("Unrecognized request argument supplied: seed", ""), good}));
  auto m = test_model(server.url());
  m.tries = 1;
  const auto client = client_of(m);
  const auto a = ask_and_wait(*client, request_for("hello"));
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->tries, 1);
  ASSERT_TRUE(ask_and_wait(*client, request_for("again")));
  const auto asked = server.begun();
  ASSERT_EQ(asked.size(), 5u) << "the second request goes without them at once";
  EXPECT_FALSE(asked[0].find("seed")->is_null());
  EXPECT_TRUE(asked[4].find("seed")->is_null());
  EXPECT_EQ(asked[4].find("max_tokens")->as_int(), 1000);
}

TEST(chat_faults, a_redirection_is_an_error_that_names_its_target) {
  const auto r = ask_server(in_turn({R"({"status": 308, "headers": {"location": "https://elsewhere.example/v1"}})"}));
  ASSERT_FALSE(r.answer);
  EXPECT_THAT(r.answer.error().message, AllOf(HasSubstr("https://elsewhere.example/v1"), HasSubstr("set url")));
}

TEST(chat_faults, an_empty_reply_is_repeated_and_then_an_error) {
  const auto r = ask_server(in_turn({R"({"status": 204})"}), [](chat_model& m) { m.tries = 2; });
  ASSERT_FALSE(r.answer);
  EXPECT_EQ(r.requests, 2u);
}

// As llama-cpp-python's server does with a prompt that does not fit.
TEST(chat_faults, why_a_stream_ends_before_it_begins_is_asked_without_a_stream) {
  const std::string too_long = R"("status": 400, "body": {"error": {"message": "the maximum context length is 8192",
                                  "param": "messages", "code": "context_length_exceeded"}})";
  const auto refused = ask_server(in_turn({fmt::format(R"({{"fault": "empty_stream", {}}})", too_long)}));
  ASSERT_FALSE(refused.answer);
  EXPECT_EQ(refused.answer.error().code, errc::invalid_argument);
  EXPECT_THAT(refused.answer.error().message, HasSubstr("status 400: the maximum context length is 8192"));
  EXPECT_EQ(refused.requests, 2u);
  // One that answers then is understood, too.
  const auto r = ask_server(in_turn({R"({"text": "whole", "fault": "empty_stream"})"}));
  ASSERT_TRUE(r.answer) << r.answer.error().message;
  EXPECT_EQ(r.answer->text, "whole");
  EXPECT_EQ(r.answer->tries, 2);
}

TEST(chat_faults, a_port_where_nothing_listens_is_an_error_with_the_address) {
  int port = 0;
  {
    const chat_server_process gone(in_turn({good}));
    port = gone.port();
  }
  auto m = test_model(fmt::format("http://localhost:{}/v1", port));
  m.tries = 2;
  const auto client = client_of(m);
  const auto a = ask_and_wait(*client, request_for("hello"));
  ASSERT_FALSE(a);
  EXPECT_EQ(a.error().code, errc::infrastructure);
  EXPECT_THAT(a.error().message, AllOf(HasSubstr(fmt::format("localhost:{}", port)), HasSubstr("refused")));
}

}  // namespace
}  // namespace cudal1
