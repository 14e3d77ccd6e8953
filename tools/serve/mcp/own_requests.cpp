#include "tools/serve/mcp/own_requests.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "tools/serve/json_schema.hpp"
#include "tools/serve/mcp/json_rpc.hpp"

namespace cudal1::serve::mcp {

namespace {

class kept_answer final : public http_reply {
 public:
  void answer(http_answer a) override {
    const std::lock_guard guard(mutex_);
    if (!answer_) answer_ = std::move(a);
  }
  void begin_events() override {}
  void send_events(std::string) override {}
  void end() override {}
  void when_gone(std::function<void()>) override {}

  std::optional<http_answer> take() {
    const std::lock_guard guard(mutex_);
    return std::exchange(answer_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<http_answer> answer_;
};

api_problem internal_problem(const std::string& id) {
  return {500, "internal", fmt::format("the request {} could not be carried out", id),
          "this is a bug of cudal1; DATA/node.log says more"};
}

// Of the body that answer_of(api_problem) wrote.
api_problem problem_in(const http_answer& a, const json& document) {
  api_problem p;
  p.status = a.status;
  if (const json* e = document.find("error")) {
    p.code = text_member(*e, "code");
    p.message = text_member(*e, "message");
    p.hint = text_member(*e, "hint");
  }
  return p;
}

}  // namespace

api_result<json> own_requests::ask(const std::string& id, std::map<std::string, json> values, json body,
                                   http_fields headers) const {
  const auto& routes = table_->routes();
  const auto r = std::ranges::find(routes, id, &route::id);
  if (r == routes.end()) return refuse(internal_problem(id));
  if (auto allowed = require(client_, r->permission); !allowed) return refuse(allowed.error());
  api_call call{client_, {}, std::move(body), std::move(headers)};
  for (const auto& p : r->parameters) {
    const auto given = values.find(p.name);
    if (given == values.end() || given->second.is_null()) continue;
    if (auto checked = check_schema(given->second, p.schema, p.name); !checked) {
      const bool is_path = p.where == value_place::path;
      return refuse(
          {is_path ? 404 : 400, is_path ? "not_found" : "invalid_argument", checked.error().message, p.about});
    }
    call.values.insert(values.extract(given));
  }
  if (!r->body.is_null())
    if (auto checked = check_schema(call.body, r->body, "arguments"); !checked)
      return refuse({400, "invalid_argument", checked.error().message, "change the arguments"});
  const auto reply = std::make_shared<kept_answer>();
  r->handle(call, reply);
  const auto answer = reply->take();
  if (!answer) return refuse(internal_problem(id));
  auto document = json::parse(answer->body);
  if (!document) return refuse(internal_problem(id));
  if (answer->status >= 400) return refuse(problem_in(*answer, *document));
  return std::move(*document);
}

}  // namespace cudal1::serve::mcp
