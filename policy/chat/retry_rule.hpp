// When a failed try is repeated, and after how long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/chat/server_error.hpp"

namespace cudal1 {

using http_headers = std::vector<std::pair<std::string, std::string>>;  // names in lower case

// The value of the first header of that name (in lower case); "" if there is none.
std::string_view header_value(const http_headers& headers, std::string_view name);

// Whether the same request may succeed later: 408, 409, 425, 429 and 5xx. Not where the account's quota is used up,
// which servers report as 429, too.
bool is_temporary(const server_error& refusal);

// How long a server asks to wait, in seconds: Retry-After (seconds or a date), retry-after-ms, or else the
// x-ratelimit-reset-* headers of limits that are reached ("6m0s", "17ms", seconds, or a Unix time). None if it says
// nothing.
std::optional<double> wait_asked_for(const http_headers& headers, std::chrono::system_clock::time_point now);
// The same of an answer that came: how long until the next request, if the server says that this was the last one.
std::optional<double> wait_after_last(const http_headers& headers, std::chrono::system_clock::time_point now);

// Exponential back-off with full jitter (Brooker 2015): a delay between 0 and `first_s` doubled with each of the
// `failures` after the first one, at most 60 s. `random` is 64 random bits.
double backoff_s(double first_s, int64_t failures, uint64_t random);

}  // namespace cudal1
