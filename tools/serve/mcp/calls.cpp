#include "tools/serve/mcp/calls.hpp"

#include <algorithm>

#include "tools/serve/access.hpp"

namespace cudal1::serve::mcp {

namespace {

constexpr std::size_t most_early = 256, most_ended = 4096, session_bytes = 16;

}  // namespace

bool tool_call::set_job(const std::string& job) {
  const std::lock_guard guard(mutex_);
  job_ = job;
  return !is_cancelled_;
}

std::string tool_call::cancel() {
  const std::lock_guard guard(mutex_);
  if (is_cancelled_) return "";
  is_cancelled_ = true;
  return job_;
}

bool tool_call::is_cancelled() const {
  const std::lock_guard guard(mutex_);
  return is_cancelled_;
}

std::shared_ptr<tool_call> call_table::begin(call_name name, const api_client& client) {
  auto call = std::make_shared<tool_call>(std::move(name), client);
  if (call->name().session.empty()) return call;
  const std::lock_guard guard(mutex_);
  if (std::erase(early_, call->name()) > 0) call->cancel();
  calls_[call->name()] = call;
  return call;
}

void call_table::end(const tool_call& call) {
  const std::lock_guard guard(mutex_);
  const auto found = calls_.find(call.name());
  if (found != calls_.end() && found->second.get() == &call) calls_.erase(found);
}

std::shared_ptr<tool_call> call_table::to_cancel(const call_name& name) {
  if (name.session.empty()) return nullptr;
  const std::lock_guard guard(mutex_);
  const auto found = calls_.find(name);
  if (found != calls_.end()) return found->second;
  early_.push_back(name);
  if (early_.size() > most_early) early_.pop_front();
  return nullptr;
}

std::vector<std::shared_ptr<tool_call>> call_table::end_session(const std::string& client, const std::string& session) {
  const std::lock_guard guard(mutex_);
  ended_.emplace_back(client, session);
  if (ended_.size() > most_ended) ended_.pop_front();
  std::vector<std::shared_ptr<tool_call>> out;
  for (const auto& [name, call] : calls_)
    if (name.client == client && name.session == session) out.push_back(call);
  return out;
}

bool call_table::has_ended(const std::string& client, const std::string& session) const {
  const std::lock_guard guard(mutex_);
  return std::ranges::find(ended_, std::pair(client, session)) != ended_.end();
}

expected<std::string> new_session() {
  return random_hex(session_bytes);
}

bool is_session(const std::string& text) {
  return text.size() == 2 * session_bytes && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace cudal1::serve::mcp
