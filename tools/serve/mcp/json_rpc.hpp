// Messages of JSON-RPC 2.0, and what of the Model Context Protocol 2025-06-18 is only form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/json.hpp"

namespace cudal1::serve::mcp {

// Codes of errors. `no_resource` is the protocol's own.
enum class rpc_code {
  parse_error = -32700,
  invalid_request = -32600,
  no_method = -32601,
  invalid_params = -32602,
  internal = -32603,
  no_resource = -32002
};

struct rpc_problem {
  rpc_code code = rpc_code::internal;
  std::string message;
  json data;  // null: none
};

// A request (with an id), a notification (without), or a response to a request of the server, which has none.
struct rpc_message {
  std::string method;  // "" of a response
  json id;             // a text or an integer; null of a notification
  json params;         // an object

  bool is_request() const { return !method.empty() && !id.is_null(); }
};

// The message of a request's body. parse_error; invalid_request for what is no message, batches among them, which
// 2025-06-18 has not.
tl::expected<rpc_message, rpc_problem> read_message(std::string_view text);

std::string result_text(const json& id, json result);
// Without an id if it is null.
std::string error_text(const json& id, const rpc_problem& problem);
std::string notification_text(const std::string& method, json params);
// An event of a stream, with one message.
std::string event_text(const std::string& message);

// The newest first; a client of another version is offered that one.
inline constexpr std::string_view protocol_versions[] = {"2025-06-18", "2025-03-26", "2024-11-05"};
bool is_known_version(std::string_view version);

// The value of a member; "", 0 or an empty list where there is none of this kind.
std::string text_member(const json& object, std::string_view name);
double number_member(const json& object, std::string_view name);
const json::array& list_member(const json& object, std::string_view name);

// The result of a tool: a text, and the same for programs unless that is null.
json tool_result(std::string text, json document = {});
json tool_error(std::string text);

}  // namespace cudal1::serve::mcp
