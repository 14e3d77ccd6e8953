#include "tools/serve/dashboard/page_routes.hpp"

#include "tools/serve/dashboard/pages.hpp"
#include "tools/serve/dashboard/variant_rows.hpp"

namespace cudal1::serve {

namespace {

constexpr const char* task_id_pattern = "^[A-Za-z0-9_.-]{1,100}$";
constexpr const char* path_pattern = "^[A-Za-z0-9/_.-]{1,200}$";
constexpr double last_page = 1e7;

using page_maker = expected<page_parts> (*)(const page_input&);

struct served_page {
  const char *path, *id;
  page_maker make;
};
constexpr served_page served_pages[] = {{"/", "overview", overview_page},
                                        {"/experiments", "experiments", experiments_page},
                                        {"/experiments/{experiment}", "experiment", experiment_page},
                                        {"/tasks", "tasks", tasks_page},
                                        {"/tasks/{task}", "task", one_task_page},
                                        {"/variants", "variants", variants_page},
                                        {"/variants/{variant}", "variant", one_variant_page},
                                        {"/nodes", "devices", devices_page},
                                        {"/queue", "queue", queue_page},
                                        {"/log", "log", log_page},
                                        {"/start", "start", start_page}};

// A filter that a form leaves empty is none.
json or_empty(const std::string& pattern) {
  return pattern_schema("^$|" + pattern);
}

std::vector<route_parameter> parameters_of(const std::string& id) {
  const auto page = query_value("page", number_schema("integer", 1, last_page), "from 1");
  if (id == "experiments") return {page};
  if (id == "experiment") return {path_value("experiment", experiment_pattern, "its id")};
  if (id == "task") return {path_value("task", task_id_pattern, "its id")};
  if (id == "variant") return {path_value("variant", variant_pattern, "its id, or the first digits")};
  if (id == "start") return {query_value("tasks", schema_of("string"), "names to begin with")};
  if (id != "variants") return {};
  auto outcomes = outcome_names();
  outcomes.emplace_back("");
  return {query_value("task", or_empty(task_id_pattern), "its id"),
          query_value("experiment", or_empty(experiment_pattern), "its id"),
          query_value("outcome", choice_schema(outcomes), "of the verdict"),
          query_value("sort", choice_schema({"score", "time", "duration", "task", "experiment", "outcome"}), "column"),
          query_value("order", choice_schema({"ascending", "descending"}), "of the rows"),
          page};
}

route form_route(const char* path, const char* id, const char* permission) {
  route r;
  r.method = "POST";
  r.path = path;
  r.id = id;
  r.permission = permission;
  return r;
}

}  // namespace

void add_page_routes(route_table& table) {
  for (const auto& page : served_pages) {
    route r;
    r.method = "GET";
    r.path = page.path;
    r.id = page.id;
    r.parameters = parameters_of(page.id);
    table.add(std::move(r));
  }
  route login;
  login.method = "GET";
  login.path = "/login";
  login.id = "login";
  login.parameters = {query_value("next", pattern_schema(path_pattern), "the path to go on with")};
  table.add(std::move(login));
  route events;
  events.method = "GET";
  events.path = "/events";
  events.id = "events";
  table.add(std::move(events));
  table.add(form_route("/login", "log_in", ""));
  table.add(form_route("/logout", "log_out", ""));
  table.add(form_route("/searches", "start", "search"));
  auto stop = form_route("/experiments/{experiment}/stop", "stop", "stop");
  stop.parameters = {path_value("experiment", experiment_pattern, "its id")};
  table.add(std::move(stop));
  table.add(form_route("/nodes/drain", "drain", "stop"));
}

expected<page_parts> page_of(const std::string& id, const page_input& in) {
  for (const auto& page : served_pages)
    if (page.id == id) return page.make(in);
  return fail(errc::not_found, "there is no page \"{}\"", id);
}

}  // namespace cudal1::serve
