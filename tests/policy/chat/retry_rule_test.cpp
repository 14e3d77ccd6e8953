#include "policy/chat/retry_rule.hpp"

#include <chrono>

#include <gtest/gtest.h>

#include "config/base/split_mix.hpp"

namespace cudal1 {
namespace {

// Sun, 06 Nov 1994 08:49:37 GMT
const std::chrono::system_clock::time_point now{std::chrono::seconds(784111777)};

double wait(const http_headers& headers) {
  return wait_asked_for(headers, now).value_or(-1);
}

TEST(retry_rule, reads_every_form_of_a_wait) {
  EXPECT_DOUBLE_EQ(wait({{"retry-after", "7"}}), 7);
  EXPECT_DOUBLE_EQ(wait({{"retry-after", "0.5"}}), 0.5);
  EXPECT_DOUBLE_EQ(wait({{"retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"}}), 30);
  EXPECT_DOUBLE_EQ(wait({{"retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"}}), 0) << "it is over";
  EXPECT_DOUBLE_EQ(wait({{"retry-after-ms", "250"}, {"retry-after", "1"}}), 0.25);
  EXPECT_DOUBLE_EQ(wait({{"x-ratelimit-reset-requests", "6m0s"}}), 360);
  EXPECT_DOUBLE_EQ(wait({{"x-ratelimit-reset-tokens", "17ms"}}), 0.017);
  EXPECT_DOUBLE_EQ(wait({{"x-ratelimit-reset-tokens", "1h2m3.5s"}}), 3723.5);
  EXPECT_DOUBLE_EQ(wait({{"x-ratelimit-reset", "784111787"}}), 784111787) << "seconds, as it is below a billion";
}

TEST(retry_rule, reads_unix_times_in_seconds_and_milliseconds) {
  const std::chrono::system_clock::time_point later{std::chrono::seconds(1790000000)};
  EXPECT_DOUBLE_EQ(wait_asked_for({{"x-ratelimit-reset", "1790000010"}}, later).value(), 10);
  EXPECT_DOUBLE_EQ(wait_asked_for({{"x-ratelimit-reset", "1790000010500"}}, later).value(), 10.5);
}

TEST(retry_rule, waits_for_the_limit_that_is_reached) {
  const http_headers headers = {{"x-ratelimit-remaining-requests", "59"},
                                {"x-ratelimit-reset-requests", "1h"},
                                {"x-ratelimit-remaining-tokens", "0"},
                                {"x-ratelimit-reset-tokens", "6s"}};
  EXPECT_DOUBLE_EQ(wait(headers), 6);
  EXPECT_DOUBLE_EQ(wait_after_last(headers, now).value(), 6);
  EXPECT_FALSE(wait_after_last({{"x-ratelimit-remaining-tokens", "5"}, {"x-ratelimit-reset-tokens", "6s"}}, now));
}

TEST(retry_rule, nonsense_is_no_wait) {
  for (const char* text : {"", "soon", "5 minutes", "nan", "Sun, 06 Foo 1994 08:50:07 GMT", "1994-11-06T08:49:37Z"})
    EXPECT_EQ(wait({{"retry-after", text}, {"x-ratelimit-reset-tokens", text}}), -1) << text;
  EXPECT_EQ(wait({{"retry-after", "-3"}}), 0);
}

TEST(retry_rule, the_delay_is_spread_below_a_bound_that_doubles) {
  uint64_t state = 1;
  for (const auto& [failures, bound] : {std::pair(1, 2.0), std::pair(2, 4.0), std::pair(3, 8.0), std::pair(9, 60.0)}) {
    double sum = 0, most = 0;
    for (int i = 0; i < 2000; ++i) {
      const double delay = backoff_s(2, failures, split_mix(state += split_mix_step));
      sum += delay;
      most = std::max(most, delay);
    }
    EXPECT_LT(most, bound);
    EXPECT_GT(most, 0.98 * bound);
    EXPECT_NEAR(sum / 2000, bound / 2, 0.04 * bound);
  }
}

TEST(retry_rule, knows_what_passes) {
  for (const int status : {408, 409, 425, 429, 500, 502, 503, 504, 529})
    EXPECT_TRUE(is_temporary({.status = status, .message = "", .param = "", .code = ""})) << status;
  for (const int status : {301, 400, 401, 402, 403, 404, 413, 422, 501})
    EXPECT_FALSE(is_temporary({.status = status, .message = "", .param = "", .code = ""})) << status;
  EXPECT_FALSE(is_temporary({.status = 429, .message = "", .param = "", .code = "insufficient_quota"}));
}

}  // namespace
}  // namespace cudal1
