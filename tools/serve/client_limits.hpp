// What each client may use: a rate of requests, and time on devices. Not thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace cudal1::serve {

class client_limits {
 public:
  using time = std::chrono::steady_clock::time_point;
  // `device_s_per_hour` 0: no limit of device time.
  client_limits(double requests_per_s, double device_s_per_hour)
      : rate_(requests_per_s), device_rate_(device_s_per_hour / 3600), device_most_(device_s_per_hour) {}

  // Counts a request. 0: it may go on; else in how many seconds one may.
  double request(const std::string& client, time now);
  // 0: the client may have an evaluation; else in how many seconds it may.
  double device_wait(const std::string& client, time now);
  void used_device(const std::string& client, double seconds, time now);

 private:
  struct account {
    double requests = 0, device_s = 0;  // that are left
    time filled{};
  };
  account& account_of(const std::string& client, time now);
  double rate_, device_rate_, device_most_;
  std::map<std::string, account> accounts_;
};

}  // namespace cudal1::serve
