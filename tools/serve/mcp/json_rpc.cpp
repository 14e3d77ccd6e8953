#include "tools/serve/mcp/json_rpc.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "config/base/utf8.hpp"

namespace cudal1::serve::mcp {

namespace {

tl::unexpected<rpc_problem> invalid(std::string why) {
  return tl::unexpected<rpc_problem>({rpc_code::invalid_request, std::move(why), {}});
}

json text_content(std::string text) {
  return json::make_array({json::make_object({{"type", "text"}, {"text", std::move(text)}})});
}

}  // namespace

tl::expected<rpc_message, rpc_problem> read_message(std::string_view text) {
  if (!is_valid_utf8(text)) return tl::unexpected<rpc_problem>({rpc_code::parse_error, "the message is not UTF-8", {}});
  auto document = json::parse(text);
  if (!document)
    return tl::unexpected<rpc_problem>(
        {rpc_code::parse_error, "the message is not JSON: " + document.error().message, {}});
  if (document->is_array()) return invalid("batches are not taken: send each message by itself");
  if (text_member(*document, "jsonrpc") != "2.0") return invalid("the message is not JSON-RPC 2.0");
  rpc_message out;
  const json* id = document->find("id");
  if (id != nullptr && !id->is_string() && !id->is_int()) return invalid("the id is neither a text nor an integer");
  if (id != nullptr) out.id = *id;
  const json* method = document->find("method");
  if (method == nullptr) {
    const bool is_response = document->find("result") != nullptr || document->find("error") != nullptr;
    if (id == nullptr || !is_response) return invalid("the message has no method");
    return out;
  }
  if (!method->is_string() || method->as_string().empty()) return invalid("the method is not a name");
  out.method = method->as_string();
  const json* params = document->find("params");
  if (params != nullptr && !params->is_object()) return invalid("the parameters are not an object");
  out.params = params != nullptr ? *params : json::make_object();
  return out;
}

std::string result_text(const json& id, json result) {
  return json::make_object({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}}).text();
}

std::string error_text(const json& id, const rpc_problem& problem) {
  json e = json::make_object({{"code", static_cast<int>(problem.code)}, {"message", problem.message}});
  if (!problem.data.is_null()) e.set("data", problem.data);
  json out = json::make_object({{"jsonrpc", "2.0"}});
  if (!id.is_null()) out.set("id", id);
  out.set("error", std::move(e));
  return out.text();
}

std::string notification_text(const std::string& method, json params) {
  return json::make_object({{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}}).text();
}

std::string event_text(const std::string& message) {
  return fmt::format("event: message\ndata: {}\n\n", message);
}

bool is_known_version(std::string_view version) {
  return std::ranges::find(protocol_versions, version) != std::end(protocol_versions);
}

std::string text_member(const json& object, std::string_view name) {
  const json* found = object.find(name);
  return found != nullptr && found->is_string() ? found->as_string() : "";
}

double number_member(const json& object, std::string_view name) {
  const json* found = object.find(name);
  return found != nullptr && found->is_number() ? found->as_number() : 0;
}

const json::array& list_member(const json& object, std::string_view name) {
  static const json::array none;
  const json* found = object.find(name);
  return found != nullptr && found->is_array() ? found->as_array() : none;
}

json tool_result(std::string text, json document) {
  json out = json::make_object({{"content", text_content(std::move(text))}, {"isError", false}});
  if (document.is_object()) out.set("structuredContent", std::move(document));
  return out;
}

json tool_error(std::string text) {
  return json::make_object({{"content", text_content(std::move(text))}, {"isError", true}});
}

}  // namespace cudal1::serve::mcp
