#include "tools/serve/dashboard/actions.hpp"

#include <chrono>
#include <sstream>

#include <fmt/format.h>

#include "actors/clients/client.hpp"
#include "tools/serve/json_schema.hpp"

namespace cudal1::serve {

namespace {

std::string value_of(const std::map<std::string, std::string>& form, const std::string& name) {
  const auto found = form.find(name);
  return found == form.end() ? "" : found->second;
}

api_problem wrong_form(const std::string& message) {
  return {400, "invalid_argument", message, "go back, and change the form"};
}

api_result<std::string> start(const route_context& c, const std::map<std::string, std::string>& form) {
  auto body = search_of_form(form);
  if (!body) return refuse(body.error());
  auto started = start_search(c, *body);
  if (!started) return refuse(problem_of(started.error()));
  const json* id = started->find("experiment");
  return id != nullptr ? "/experiments/" + id->as_string() : "/experiments";
}

api_result<std::string> stop(const route_context& c, const std::string& experiment) {
  if (auto stopped = stop_search(c, experiment); !stopped) return refuse(problem_of(stopped.error()));
  return "/experiments/" + experiment;
}

api_result<std::string> drain(const route_context& c, const std::map<std::string, std::string>& form) {
  const auto choice = value_of(form, "drain"), machine = value_of(form, "machine");
  if (choice != "yes" && choice != "no") return refuse(wrong_form("the form does not say what to do"));
  const auto asked = [&]() -> expected<void> {
    CUDAL1_TRY(auto client, node_client::connect(c.data));
    client_request r;
    r.verb = client_verb::drain_machine;
    r.machine = machine == "(coordinator)" ? "" : machine;
    r.draining = choice == "yes";
    CUDAL1_CHECK(client.ask(r, std::chrono::seconds(10)));
    return {};
  }();
  if (!asked) return refuse(problem_of(asked.error()));
  return "/nodes";
}

}  // namespace

api_result<json> search_of_form(const std::map<std::string, std::string>& form) {
  json::array tasks;
  std::string names = value_of(form, "tasks");
  for (char& ch : names)
    if (ch == ',') ch = ' ';
  std::istringstream words(names);
  for (std::string name; words >> name;)
    tasks.emplace_back(name);
  json body = json::make_object({{"tasks", json(std::move(tasks))}});
  for (const char* name : {"device", "policy"})
    if (const auto value = value_of(form, name); !value.empty()) body.set(name, value);
  if (const auto text = value_of(form, "evaluations"); !text.empty()) {
    auto number = value_of_text(text, schema_of("integer"), "the number of evaluations");
    if (!number) return refuse(wrong_form(number.error().message));
    body.set("evaluations", std::move(*number));
  }
  if (const auto text = value_of(form, "minutes"); !text.empty()) {
    const auto number = value_of_text(text, schema_of("number"), "the number of minutes");
    if (!number) return refuse(wrong_form(number.error().message));
    body.set("time_s", 60 * number->as_number());
  }
  if (body.find("evaluations") == nullptr && body.find("time_s") == nullptr)
    return refuse(wrong_form("the search has no limit: give a number of evaluations, or minutes"));
  if (auto checked = check_schema(body, search_schema(), "form"); !checked)
    return refuse(wrong_form(checked.error().message));
  return body;
}

api_result<std::string> carry_out_action(const std::string& id, const route_context& c, const api_call& call,
                                         const std::map<std::string, std::string>& form) {
  if (id == "start") return start(c, form);
  if (id == "stop") return stop(c, call.text("experiment"));
  if (id == "drain") return drain(c, form);
  return refuse({404, "not_found", "there is no such form", "go back to the overview"});
}

}  // namespace cudal1::serve
