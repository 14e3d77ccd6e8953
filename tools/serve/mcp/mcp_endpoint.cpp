#include "tools/serve/mcp/mcp_endpoint.hpp"

#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "config/base/utf8.hpp"
#include "tools/serve/json_schema.hpp"
#include "tools/serve/mcp/resources.hpp"

namespace cudal1::serve::mcp {

namespace {

using clock = std::chrono::steady_clock;

constexpr const char *session_header = "mcp-session-id", *version_header = "mcp-protocol-version";
constexpr const char* instructions =
    "Write fast CUDA programs for tasks, and have them judged strictly. Read the resource cudal1://format first, then "
    "describe_task and prompt; begin with a schedule (moves) or the best variant; evaluate; on a refusal follow its "
    "hint. A score counts when its 95% interval lies above 1.";

json known_versions() {
  json::array all;
  for (const auto version : protocol_versions)
    all.emplace_back(version);
  return json(std::move(all));
}

json initialized(const json& params, const std::string& version) {
  const auto wanted = text_member(params, "protocolVersion");
  return json::make_object(
      {{"protocolVersion", is_known_version(wanted) ? wanted : std::string(protocol_versions[0])},
       {"capabilities", json::make_object({{"tools", json::make_object()}, {"resources", json::make_object()}})},
       {"serverInfo", json::make_object({{"name", "cudal1"}, {"version", version}})},
       {"instructions", instructions}});
}

json tool_documents() {
  json::array all;
  for (const auto& t : tools())
    all.push_back(t.document());
  return json(std::move(all));
}

// Null where the client wants no progress.
json progress_token(const json& params) {
  const json* meta = params.find("_meta");
  const json* token = meta != nullptr ? meta->find("progressToken") : nullptr;
  return token != nullptr && (token->is_string() || token->is_int()) ? *token : json();
}

http_answer rpc_answer(std::string text, int status = 200) {
  http_answer a;
  a.status = status;
  a.body = std::move(text);
  if (a.body.empty()) a.type = "text/plain";
  return a;
}

void refuse_message(const std::shared_ptr<http_reply>& reply, const json& id, const rpc_problem& problem) {
  reply->answer(rpc_answer(error_text(id, problem)));
}

bool has_ended(const json& job) {
  const auto state = text_member(job, "state");
  return state != "waiting" && state != "running";
}

}  // namespace

bool endpoint::is_at(const std::string& target) {
  return target.substr(0, target.find('?')) == "/mcp";
}

http_answer endpoint::answer_of(const api_problem& p) {
  auto a = serve::answer_of(p);  // its status and headers
  const auto code = p.status >= 500 ? rpc_code::internal : rpc_code::invalid_request;
  a.body = error_text({}, {code, text_of(p), json::make_object({{"code", p.code}, {"hint", p.hint}})});
  return a;
}

std::optional<http_answer> endpoint::refused_by_head(const http_call& call, const api_client& client) const {
  if (call.method != "POST" && call.method != "DELETE") {
    api_problem p{405, "method_not_allowed", call.method + " is not served there: there is no stream of its own",
                  "send messages with POST, and end a session with DELETE"};
    p.allow = "POST, DELETE";
    return answer_of(p);
  }
  if (const auto version = call.header(version_header); !version.empty() && !is_known_version(version)) {
    auto a = answer_of({400, "invalid_argument", "", ""});
    a.body = error_text({}, {rpc_code::invalid_request,
                             fmt::format("MCP-Protocol-Version {} is not known here", replace_invalid_utf8(version)),
                             json::make_object({{"supported", known_versions()}})});
    return a;
  }
  const auto session = call.header(session_header);
  if (!session.empty() && (!is_session(session) || calls_.has_ended(client.name, session)))
    return answer_of({404, "not_found", "there is no such session, or it has ended", "begin one with initialize"});
  const auto type = call.header("content-type");
  if (call.method == "POST" && type.substr(0, type.find(';')) != "application/json")
    return answer_of(
        {415, "unsupported_type", "the body is not application/json", "send JSON with Content-Type: application/json"});
  return std::nullopt;
}

void endpoint::take(http_call call, const api_client& client, const std::shared_ptr<http_reply>& reply) {
  const bool is_end = call.method == "DELETE";
  const bool taken = setup_.in_waiting([this, call = std::move(call), client, reply, is_end] {
    try {
      is_end ? end_session(call, client, reply) : post(call, client, reply);
    } catch (const std::exception& e) {
      spdlog::error("a message of the Model Context Protocol failed: {}", e.what());
      reply->answer(answer_of({500, "internal", "the message could not be carried out",
                               "this is a bug of cudal1; DATA/node.log says more"}));
    }
  });
  if (!taken) reply->answer(answer_of({503, "busy", "too many requests wait", "repeat the request later", 2}));
}

void endpoint::post(const http_call& call, const api_client& client, const std::shared_ptr<http_reply>& reply) {
  auto message = read_message(call.body);
  if (!message) return reply->answer(rpc_answer(error_text({}, message.error()), 400));
  exchange e;
  e.message = std::move(*message);
  e.client = client;
  e.session = call.header(session_header);
  e.key = call.header("idempotency-key");
  e.takes_events = call.header("accept").find("text/event-stream") != std::string::npos;
  e.reply = reply;
  if (e.message.is_request()) return carry_out(e);
  if (e.message.method == "notifications/cancelled")
    if (const json* id = e.message.params.find("requestId"))
      if (const auto running = calls_.to_cancel({client.name, e.session, id->text()})) cancel(*running);
  reply->answer(rpc_answer("", 202));
}

void endpoint::carry_out(const exchange& e) {
  try {
    answer(e);
  } catch (const std::exception& problem) {
    spdlog::error("{} of the Model Context Protocol failed: {}", e.message.method, problem.what());
    refuse_message(e.reply, e.message.id, {rpc_code::internal, "a bug of cudal1; DATA/node.log says more", {}});
  }
}

void endpoint::answer(const exchange& e) {
  const auto& method = e.message.method;
  if (method == "initialize") {
    auto session = new_session();
    if (!session) return refuse_message(e.reply, e.message.id, {rpc_code::internal, session.error().message, {}});
    auto a = rpc_answer(result_text(e.message.id, initialized(e.message.params, setup_.version)));
    a.headers.emplace_back("Mcp-Session-Id", std::move(*session));
    return e.reply->answer(std::move(a));
  }
  if (method == "ping") return give_result(e, json::make_object());
  if (method == "tools/list") return give_result(e, json::make_object({{"tools", tool_documents()}}));
  if (method == "tools/call") return call_tool(e);
  if (method == "resources/list") return give_result(e, json::make_object({{"resources", resource_documents()}}));
  if (method == "resources/templates/list")
    return give_result(e, json::make_object({{"resourceTemplates", json(json::array())}}));
  if (method == "resources/read") return read(e);
  refuse_message(e.reply, e.message.id, {rpc_code::no_method, "there is no method " + method, {}});
}

void endpoint::read(const exchange& e) const {
  const own_requests own(*setup_.routes, e.client);
  const bool taken = setup_.in_reading([own, e] {
    const auto text = read_resource(own, text_member(e.message.params, "uri"));
    if (text) return e.reply->answer(rpc_answer(result_text(e.message.id, *text)));
    const auto code = text.error().code == "not_found" ? rpc_code::no_resource : rpc_code::internal;
    refuse_message(e.reply, e.message.id, {code, text_of(text.error()), {}});
  });
  if (!taken)
    refuse_message(e.reply, e.message.id, {rpc_code::internal, "too many requests wait: repeat it later", {}});
}

// ---- tools ----------------------------------------------------------------------------------------------------------

call_name endpoint::name_of(const exchange& e) {
  return {e.client.name, e.session, e.message.id.text()};
}

void endpoint::give_result(const exchange& e, json result) {
  e.reply->answer(rpc_answer(result_text(e.message.id, std::move(result))));
}

void endpoint::call_tool(const exchange& e) {
  const auto name = text_member(e.message.params, "name");
  const tool* t = find_tool(name);
  if (t == nullptr)
    return refuse_message(
        e.reply, e.message.id,
        {rpc_code::invalid_params, fmt::format("there is no tool \"{}\": tools/list has all", name), {}});
  const json* given = e.message.params.find("arguments");
  json arguments = given != nullptr && !given->is_null() ? *given : json::make_object();
  if (auto checked = check_schema(arguments, t->arguments, t->name); !checked)
    return give_result(e, tool_error(checked.error().message));
  if (!t->run) return evaluate(e, arguments);
  if (!t->only_reads) return run_tool(e, *t, arguments);
  const bool taken = setup_.in_reading([this, e, t, arguments] { run_tool(e, *t, arguments); });
  if (!taken) give_result(e, tool_error("too many requests wait: repeat it later"));
}

// A tool that answers at once. It is not interrupted: a cancelled call is only not answered.
void endpoint::run_tool(const exchange& e, const tool& t, const json& arguments) {
  const auto call = calls_.begin(name_of(e), e.client);
  api_result<json> made;
  try {
    if (!call->is_cancelled()) made = t.run(own_requests(*setup_.routes, e.client), arguments);
  } catch (const std::exception& problem) {
    spdlog::error("the tool {} failed: {}", t.name, problem.what());
    made = refuse({500, "internal", "the tool failed", "this is a bug of cudal1; DATA/node.log says more"});
  }
  calls_.end(*call);
  if (call->is_cancelled()) return e.reply->answer(rpc_answer("", 202));
  give_result(e, made ? std::move(*made) : tool_error(text_of(made.error())));
}

// The answer to a call that is a job: what is sent at its changes, and at its end.
class endpoint::answer_of_job {
 public:
  answer_of_job(const exchange& e, double limit_s)
      : id_(e.message.id),
        token_(progress_token(e.message.params)),
        reply_(e.reply),
        is_stream_(!token_.is_null() && e.takes_events),
        limit_s_(limit_s),
        end_(clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(limit_s))) {
    if (is_stream_) reply_->begin_events();
  }
  void progress(const json& job) {
    if (!is_stream_) return;
    json params =
        json::make_object({{"progressToken", token_}, {"progress", ++told_}, {"message", progress_text(job)}});
    reply_->send_events(event_text(notification_text("notifications/progress", std::move(params))));
  }
  // What the last document of the job says.
  json result_of(const json& job) const {
    if (has_ended(job)) return evaluation_result(job);
    if (is_late())
      return tool_error(fmt::format("there was no verdict within {:g} s (limit_s), so it is cancelled", limit_s_));
    return tool_error(fmt::format("the node is ending: {} goes on with the next one", text_member(job, "id")));
  }
  bool is_late() const { return clock::now() >= end_; }
  void finish(json result) {
    const auto text = result_text(id_, std::move(result));
    if (!is_stream_) return reply_->answer(rpc_answer(text));
    reply_->send_events(event_text(text));
    reply_->end();
  }
  // As the protocol says, what was cancelled is not answered.
  void leave() {
    if (is_stream_) return reply_->end();
    reply_->answer(rpc_answer("", 202));
  }

 private:
  const json id_, token_;
  const std::shared_ptr<http_reply> reply_;
  const bool is_stream_;
  const double limit_s_;
  const clock::time_point end_;
  int64_t told_ = 0;
};

void endpoint::evaluate(const exchange& e, const json& arguments) {
  const double limit_s = evaluation_limit_s(arguments);
  const auto call = calls_.begin(name_of(e), e.client);
  http_fields headers;
  if (!e.key.empty()) headers.emplace_back("idempotency-key", e.key);
  const own_requests own(*setup_.routes, e.client);
  const auto job = own.ask("evaluate", {}, evaluation_body(arguments), std::move(headers));
  if (!job) {
    calls_.end(*call);
    return give_result(e, tool_error(text_of(job.error())));
  }
  const auto id = text_member(*job, "id");
  const auto sent = std::make_shared<answer_of_job>(e, limit_s);
  if (!call->set_job(id)) setup_.board->cancel(e.client, id);
  // The client's connection keeps this call, and must not keep what answers it.
  e.reply->when_gone([this, call] { cancel(*call); });
  setup_.board->watch(id, limit_s, [this, call, sent](const json& now, bool is_last) {
    if (!is_last) return sent->progress(now);
    calls_.end(*call);
    if (call->is_cancelled()) return sent->leave();
    sent->finish(sent->result_of(now));
    if (has_ended(now) || !sent->is_late()) return;
    setup_.in_waiting([this, call] { cancel(*call); });  // the board is locked now
  });
}

void endpoint::cancel(tool_call& call) {
  const auto job = call.cancel();
  if (job.empty()) return;
  if (const auto cancelled = setup_.board->cancel(call.client(), job); !cancelled)
    spdlog::info("job {} was not cancelled: {}", job, cancelled.error().message);
}

void endpoint::end_session(const http_call& call, const api_client& client, const std::shared_ptr<http_reply>& reply) {
  const auto session = call.header(session_header);
  if (session.empty())
    return reply->answer(answer_of({400, "invalid_argument", "no session is named", "send the header Mcp-Session-Id"}));
  for (const auto& running : calls_.end_session(client.name, session))
    cancel(*running);
  reply->answer(rpc_answer("{}"));
}

}  // namespace cudal1::serve::mcp
