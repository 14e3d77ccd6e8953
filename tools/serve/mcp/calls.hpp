// Calls of tools that run, so that their client can cancel them: by a notification of its session, by the end of the
// session, or by going. May be used from any thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "tools/serve/access.hpp"

namespace cudal1::serve::mcp {

// Ids of requests are the client's own, so they name a call only together with its session.
struct call_name {
  std::string client, session;  // session: "" of a client that began none; its calls end only when it goes
  std::string id;               // as JSON

  bool operator==(const call_name&) const = default;
  bool operator<(const call_name& other) const {
    return std::tie(client, session, id) < std::tie(other.client, other.session, other.id);
  }
};

class tool_call {
 public:
  tool_call(call_name name, api_client client) : name_(std::move(name)), client_(std::move(client)) {}
  const call_name& name() const { return name_; }
  const api_client& client() const { return client_; }

  // The job that carries it out. False if the call was cancelled before: then the caller cancels the job.
  bool set_job(const std::string& job);
  // The job to cancel; "" where there is none yet, or the call was cancelled before.
  std::string cancel();
  bool is_cancelled() const;

 private:
  const call_name name_;
  const api_client client_;
  mutable std::mutex mutex_;
  std::string job_;
  bool is_cancelled_ = false;
};

class call_table {
 public:
  // Already cancelled if its cancellation has overtaken it: the two come by connections of their own.
  std::shared_ptr<tool_call> begin(call_name name, const api_client& client);
  void end(const tool_call& call);
  // Null where no such call runs.
  std::shared_ptr<tool_call> to_cancel(const call_name& name);

  // The calls of the session, which is known no more.
  std::vector<std::shared_ptr<tool_call>> end_session(const std::string& client, const std::string& session);
  bool has_ended(const std::string& client, const std::string& session) const;

 private:
  mutable std::mutex mutex_;
  std::map<call_name, std::shared_ptr<tool_call>> calls_;
  std::deque<call_name> early_;                            // cancelled before they began, or after they ended
  std::deque<std::pair<std::string, std::string>> ended_;  // client and session
};

// A session is only what tells the calls of one connection to the protocol from those of another: nothing is kept of
// it before it ends, so that it outlives a restart of the node. 128 random bits in hexadecimal digits; errc::io_error.
expected<std::string> new_session();
bool is_session(const std::string& text);

}  // namespace cudal1::serve::mcp
