// POST and DELETE /mcp: the Model Context Protocol 2025-06-18 over streamable HTTP. A request is answered with JSON, or
// with a stream of events where it runs long, has a progressToken and its client accepts one. There is no stream of the
// server's own messages: GET is answered with 405, as the protocol allows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/serve/job_board.hpp"
#include "tools/serve/mcp/calls.hpp"
#include "tools/serve/mcp/json_rpc.hpp"
#include "tools/serve/mcp/tools.hpp"
#include "tools/serve/routes.hpp"

namespace cudal1::serve::mcp {

// Carries a call out in another thread. False if too many wait.
using later = std::function<bool(std::function<void()>)>;

struct endpoint_setup {
  std::string version;  // of cudal1
  const route_table* routes = nullptr;
  std::shared_ptr<job_board> board;
  later in_reading, in_waiting;  // by route_thread
};

// What the setup has, and the endpoint itself, must live longer than the server that calls it and the threads.
class endpoint {
 public:
  explicit endpoint(endpoint_setup setup) : setup_(std::move(setup)) {}
  static bool is_at(const std::string& target);
  // A refusal with its status, and a JSON-RPC error without an id as its body.
  static http_answer answer_of(const api_problem& p);

  // By the header alone; who asks and how often was checked before.
  std::optional<http_answer> refused_by_head(const http_call& call, const api_client& client) const;
  void take(http_call call, const api_client& client, const std::shared_ptr<http_reply>& reply);

 private:
  // A request on its way.
  struct exchange {
    rpc_message message;
    api_client client;
    std::string session, key;  // key: its Idempotency-Key
    bool takes_events = false;
    std::shared_ptr<http_reply> reply;
  };
  class answer_of_job;

  void post(const http_call& call, const api_client& client, const std::shared_ptr<http_reply>& reply);
  void carry_out(const exchange& e);
  void answer(const exchange& e);
  void read(const exchange& e) const;
  void call_tool(const exchange& e);
  void run_tool(const exchange& e, const tool& t, const json& arguments);
  void evaluate(const exchange& e, const json& arguments);
  void end_session(const http_call& call, const api_client& client, const std::shared_ptr<http_reply>& reply);
  void cancel(tool_call& call);
  static call_name name_of(const exchange& e);
  static void give_result(const exchange& e, json result);

  const endpoint_setup setup_;
  call_table calls_;
};

}  // namespace cudal1::serve::mcp
