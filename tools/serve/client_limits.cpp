#include "tools/serve/client_limits.hpp"

#include <algorithm>

namespace cudal1::serve {

namespace {
constexpr double in_a_row = 2;  // seconds' worth of requests that may come at once
constexpr std::size_t most_accounts = 4096;
}  // namespace

client_limits::account& client_limits::account_of(const std::string& client, time now) {
  const double burst = std::max(1.0, in_a_row * rate_);
  if (accounts_.size() > most_accounts)
    std::erase_if(accounts_, [&](const auto& a) {
      return a.second.device_s >= device_most_ && now - a.second.filled > std::chrono::minutes(1);
    });
  auto [at, is_new] = accounts_.try_emplace(client, account{burst, device_most_, now});
  auto& a = at->second;
  const double passed = std::chrono::duration<double>(now - a.filled).count();
  a.filled = now;
  a.requests = std::min(burst, a.requests + passed * rate_);
  a.device_s = std::min(device_most_, a.device_s + passed * device_rate_);
  return a;
}

double client_limits::request(const std::string& client, time now) {
  auto& a = account_of(client, now);
  if (a.requests < 1) return (1 - a.requests) / rate_;
  a.requests -= 1;
  return 0;
}

double client_limits::device_wait(const std::string& client, time now) {
  if (device_most_ <= 0) return 0;
  const auto& a = account_of(client, now);
  return a.device_s > 0 ? 0 : std::max(1.0, -a.device_s / device_rate_);
}

void client_limits::used_device(const std::string& client, double seconds, time now) {
  if (device_most_ > 0) account_of(client, now).device_s -= seconds;
}

}  // namespace cudal1::serve
