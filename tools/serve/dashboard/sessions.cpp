#include "tools/serve/dashboard/sessions.hpp"

#include <algorithm>

#include "config/base/hash.hpp"
#include "tools/serve/access.hpp"
#include "tools/serve/url_text.hpp"

namespace cudal1::serve {

namespace {

constexpr std::size_t most_sessions = 256;

}  // namespace

expected<std::string> web_sessions::begin(const std::string& token_sha256, const std::string& from,
                                          std::chrono::steady_clock::time_point now) {
  CUDAL1_TRY(std::string cookie, random_hex(secret_bytes));
  CUDAL1_TRY(std::string form_key, random_hex(secret_bytes));
  const std::lock_guard guard(mutex_);
  std::erase_if(by_hash_, [&](const auto& one) { return now - one.second.began > session_length; });
  if (by_hash_.size() >= most_sessions)
    by_hash_.erase(std::ranges::min_element(by_hash_, {}, [](const auto& one) { return one.second.began; }));
  by_hash_[sha256_hex(cookie)] = {token_sha256, std::move(form_key), from, now};
  return cookie;
}

std::optional<web_session> web_sessions::find(const std::string& cookie, const std::string& from,
                                              std::chrono::steady_clock::time_point now) {
  if (cookie.empty()) return std::nullopt;
  const std::lock_guard guard(mutex_);
  const auto found = by_hash_.find(sha256_hex(cookie));
  if (found == by_hash_.end() || found->second.from != from || now - found->second.began > session_length)
    return std::nullopt;
  return found->second;
}

void web_sessions::end(const std::string& cookie) {
  const std::lock_guard guard(mutex_);
  by_hash_.erase(sha256_hex(cookie));
}

std::string cookie_value(const std::string& header, const std::string& name) {
  for (auto part : split(header, ';')) {
    while (part.starts_with(' '))
      part.remove_prefix(1);
    const auto equals = part.find('=');
    if (equals != std::string_view::npos && part.substr(0, equals) == name) return std::string(part.substr(equals + 1));
  }
  return "";
}

}  // namespace cudal1::serve
