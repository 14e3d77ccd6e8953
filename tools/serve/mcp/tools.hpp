// The tools that an agent sees: what they take, and what they say. Each asks routes of the HTTP interface.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/base/json.hpp"
#include "tools/serve/mcp/own_requests.hpp"

namespace cudal1::serve::mcp {

struct tool {
  std::string name, about;
  json arguments;          // the schema
  bool only_reads = true;  // for clients, which ask a person before other tools
  // The result, at once. None for `evaluate`, which is a job that is followed.
  std::function<api_result<json>(const own_requests&, const json& arguments)> run = {};

  json document() const;
};

const std::vector<tool>& tools();
const tool* find_tool(const std::string& name);

// ---- evaluate
inline constexpr double default_limit_s = 600;
// The body of the request `evaluate`, without wait_s.
json evaluation_body(const json& arguments);
// In how many seconds it is cancelled.
double evaluation_limit_s(const json& arguments);
// Of the document of a job that runs: where it stands.
std::string progress_text(const json& job);
// Of the document of a job of one evaluation that has ended: the verdict, or why there is none.
json evaluation_result(const json& job);

// What a client is told of a request that was refused.
std::string text_of(const api_problem& p);

}  // namespace cudal1::serve::mcp
