#include "policy/chat/retry_rule.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>

namespace cudal1 {

namespace {

using clock = std::chrono::system_clock;

constexpr double longest_backoff_s = 60;

double seconds_since_epoch(clock::time_point t) {
  return std::chrono::duration<double>(t.time_since_epoch()).count();
}

// The number at the beginning of `text`, which is taken off it.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// "1.5" as seconds, or a Unix time in seconds or milliseconds.
std::optional<double> plain_seconds(std::string_view text, clock::time_point now) {
  const auto value = take_number(text);
  if (!value || !text.empty()) return std::nullopt;
  if (*value > 1e12) return std::max(0.0, *value / 1000 - seconds_since_epoch(now));
  if (*value > 1e9) return std::max(0.0, *value - seconds_since_epoch(now));
  return std::max(0.0, *value);
}

// "1h2m3.5s", "17ms".
std::optional<double> go_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 5> units = {
      {{"ms", 1e-3}, {"us", 1e-6}, {"h", 3600}, {"m", 60}, {"s", 1}}};
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const auto value = take_number(text);
    const auto* const unit = std::ranges::find_if(units, [&](const auto& u) { return text.starts_with(u.first); });
    if (!value || unit == units.end()) return std::nullopt;
    text.remove_prefix(unit->first.size());
    sum += *value * unit->second;
  }
  return std::max(0.0, sum);
}

// "Sun, 06 Nov 1994 08:49:37 GMT", in any locale.
std::optional<double> until_date(std::string_view text, clock::time_point now) {
  constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() < 29 || !text.ends_with("GMT")) return std::nullopt;
  const auto number = [&](std::size_t at, std::size_t digits) {
    int value = -1;
    std::from_chars(text.data() + at, text.data() + at + digits, value);
    return value;
  };
  const auto month = months.find(text.substr(8, 3));
  if (month == std::string_view::npos || month % 3 != 0) return std::nullopt;
  std::tm parts{};
  parts.tm_mday = number(5, 2);
  parts.tm_mon = static_cast<int>(month / 3);
  parts.tm_year = number(12, 4) - 1900;
  parts.tm_hour = number(17, 2);
  parts.tm_min = number(20, 2);
  parts.tm_sec = number(23, 2);
  if (parts.tm_mday < 1 || parts.tm_year < 70 || parts.tm_hour < 0 || parts.tm_min < 0 || parts.tm_sec < 0)
    return std::nullopt;
  return std::max(0.0, static_cast<double>(::timegm(&parts)) - seconds_since_epoch(now));
}

struct limit_headers {
  std::string_view remaining, reset;
};
constexpr std::array<limit_headers, 3> limits = {{{"x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"},
                                                  {"x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"},
                                                  {"x-ratelimit-remaining", "x-ratelimit-reset"}}};

std::optional<double> reset_of(const http_headers& headers, std::string_view name, clock::time_point now) {
  const auto text = header_value(headers, name);
  if (const auto seconds = plain_seconds(text, now)) return seconds;
  return go_duration(text);
}

}  // namespace

std::string_view header_value(const http_headers& headers, std::string_view name) {
  const auto found = std::ranges::find_if(headers, [&](const auto& h) { return h.first == name; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

bool is_temporary(const server_error& refusal) {
  constexpr std::array<int, 4> temporary = {408, 409, 425, 429};
  if (refusal.code == "insufficient_quota" || refusal.code == "billing_hard_limit_reached") return false;
  if (refusal.status == 501 || refusal.status == 505) return false;
  return refusal.status >= 500 || std::ranges::count(temporary, refusal.status) > 0;
}

std::optional<double> wait_asked_for(const http_headers& headers, clock::time_point now) {
  if (auto ms = plain_seconds(header_value(headers, "retry-after-ms"), now)) return *ms / 1000;
  const auto text = header_value(headers, "retry-after");
  if (const auto seconds = plain_seconds(text, now)) return seconds;
  if (const auto seconds = until_date(text, now)) return seconds;
  if (const auto last = wait_after_last(headers, now)) return last;
  // No limit is named as reached: fewer tokens may remain than the request needs.
  std::optional<double> longest;
  for (const auto& limit : limits)
    if (const auto reset = reset_of(headers, limit.reset, now)) longest = std::max(longest.value_or(0), *reset);
  return longest;
}

std::optional<double> wait_after_last(const http_headers& headers, clock::time_point now) {
  std::optional<double> longest;
  for (const auto& limit : limits)
    if (header_value(headers, limit.remaining) == "0")
      if (const auto reset = reset_of(headers, limit.reset, now)) longest = std::max(longest.value_or(0), *reset);
  return longest;
}

double backoff_s(double first_s, int64_t failures, uint64_t random) {
  const double cap =
      std::min(longest_backoff_s, first_s * std::exp2(static_cast<double>(std::clamp<int64_t>(failures, 1, 32) - 1)));
  return cap * (static_cast<double>(random >> 11) * 0x1p-53);
}

}  // namespace cudal1
