// Sessions of browsers. A token is given once, in a form, and is not kept: the browser gets a cookie with random bits,
// and the node remembers their hash beside the token's, in memory only.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "config/base/error.hpp"

namespace cudal1::serve {

inline constexpr std::chrono::hours session_length{12};

struct web_session {
  std::string token_sha256;
  std::string form_key;  // in each form of its pages: another site does not know it
  std::string from;      // the address that it began at, and is used from
  std::chrono::steady_clock::time_point began;
};

// May be used from any thread.
class web_sessions {
 public:
  // The cookie's value. The oldest session ends where there are too many. errc::io_error.
  expected<std::string> begin(const std::string& token_sha256, const std::string& from,
                              std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  // Nothing for one that is not known, has ended, or began at another address.
  std::optional<web_session> find(const std::string& cookie, const std::string& from,
                                  std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  void end(const std::string& cookie);

 private:
  std::mutex mutex_;
  std::map<std::string, web_session> by_hash_;  // of the cookie
};

// The value of a cookie in the header Cookie; "" if it is not there.
std::string cookie_value(const std::string& header, const std::string& name);

}  // namespace cudal1::serve
