#include "tools/serve/mcp/resources.hpp"

#include <fmt/format.h>

#include "tools/serve/mcp/json_rpc.hpp"

namespace cudal1::serve::mcp {

namespace {

struct resource {
  const char *uri, *name, *kind, *about;
  const char* request;  // of the HTTP interface
  std::string (*text)(const json& answer);
};

// Adds "- TEXT" for each text of each list.
void add_points(std::string& out, const json& lists, std::string (*point)(const json&)) {
  for (const auto& list : lists.as_array())
    for (const auto& one : list.as_array())
      out += "- " + point(one) + "\n";
}

std::string guide_text(const json& guide) {
  std::string out;
  const auto add = [&](const char* title, const char* name) {
    out += fmt::format("# {}\n{}\n", title, text_member(guide, name));
  };
  add("Programs", "program");
  add("Schedules", "schedule");
  add("The device", "device");
  const auto plain = [](const json& text) { return text.as_string(); };
  out += "# Dialect\n";
  add_points(out, *guide.find("dialect"), plain);
  out += "# Refused\n";
  add_points(out, *guide.find("refused"),
             [](const json& r) { return text_member(r, "what") + ": " + text_member(r, "why"); });
  out += "# What is fast\n";
  add_points(out, json::make_array({*guide.find("performance")}), plain);
  return out;
}

std::string vocabulary_text(const json& vocabulary) {
  return vocabulary.find("operators")->text(1);
}

std::string examples_text(const json& answer) {
  std::string out;
  for (const auto& e : answer.find("examples")->as_array())
    out += fmt::format("## {}: {}\n\n```\n{}\n```\n\n", text_member(e, "task"), text_member(e, "name"),
                       text_member(e, "program"));
  return out;
}

constexpr resource resources[] = {
    {"cudal1://format", "format guide", "text/markdown",
     "how programs and schedules are written, what kernels may use, what is refused, what is fast", "format_guide",
     guide_text},
    {"cudal1://vocabulary", "vocabulary", "application/json", "the operators that steps may call", "vocabulary",
     vocabulary_text},
    {"cudal1://examples", "examples", "text/markdown", "good programs for the built-in tasks", "example_programs",
     examples_text},
};

}  // namespace

json resource_documents() {
  json::array all;
  for (const auto& r : resources)
    all.push_back(
        json::make_object({{"uri", r.uri}, {"name", r.name}, {"description", r.about}, {"mimeType", r.kind}}));
  return json(std::move(all));
}

api_result<json> read_resource(const own_requests& own, const std::string& uri) {
  for (const auto& r : resources) {
    if (uri != r.uri) continue;
    const auto answer = own.ask(r.request);
    if (!answer) return refuse(answer.error());
    return json::make_object(
        {{"contents",
          json::make_array({json::make_object({{"uri", uri}, {"mimeType", r.kind}, {"text", r.text(*answer)}})})}});
  }
  return refuse({404, "not_found", fmt::format("there is no resource {}", uri), "resources/list lists them"});
}

}  // namespace cudal1::serve::mcp
