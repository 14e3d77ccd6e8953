#include "tools/serve/api_problem.hpp"

#include <cmath>

#include "config/base/describe.hpp"
#include "config/base/json.hpp"

namespace cudal1::serve {

namespace {

struct answer_to_error {
  int status = 500;
  const char* hint = "";
};

answer_to_error answer_to(errc code) {
  switch (code) {
    case errc::invalid_argument:
    case errc::parse_error:
      return {400, "change the request as the message says; /v1/openapi.json describes it"};
    case errc::invalid_program:
    case errc::unsupported:
    case errc::compile_failed:
    case errc::variant_fault:
      return {422, "change the program; GET /v1/format describes programs and schedules"};
    case errc::refused:
      return {403, "ask whoever runs this node"};
    case errc::not_found:
      return {404, "GET /v1/tasks lists tasks; variants and jobs are named by their ids"};
    case errc::already_exists:
    case errc::cancelled:
      return {409, "ask for its state, then decide"};
    case errc::out_of_budget:
      return {429, "wait, or ask for less"};
    case errc::timeout:
      return {504, "repeat the request: nothing was scored"};
    case errc::infrastructure:
    case errc::out_of_memory:
      return {503, "repeat the request later: nothing was scored; DATA/node.log says more"};
    case errc::io_error:
    case errc::corrupt:
      return {500, "the node's disk or data need attention: DATA/node.log and `cudal1 store verify` say more"};
  }
  return {};
}

}  // namespace

api_problem problem_of(const error& e) {
  const auto [status, hint] = answer_to(e.code);
  return {status, enum_name(e.code), e.message, hint, status == 503 ? 5.0 : 0.0};
}

http_answer answer_of(const api_problem& p) {
  http_answer a;
  a.status = p.status;
  a.body =
      json::make_object({{"error", json::make_object({{"code", p.code}, {"message", p.message}, {"hint", p.hint}})}})
          .text();
  if (p.status == 401) a.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (!p.allow.empty()) a.headers.emplace_back("Allow", p.allow);
  if (p.retry_after_s > 0)
    a.headers.emplace_back("Retry-After", std::to_string(static_cast<int64_t>(std::ceil(p.retry_after_s))));
  return a;
}

}  // namespace cudal1::serve
