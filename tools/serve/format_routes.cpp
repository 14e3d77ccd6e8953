#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "policy/prompt/device_guide.hpp"
#include "policy/prompt/format_guide.hpp"
#include "policy/prompt/tile_guide.hpp"
#include "sandbox/device/device_type.hpp"
#include "sandbox/program/program_library.hpp"
#include "tools/cli/imported_tasks.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/serve/route_sets.hpp"

namespace cudal1::serve {

namespace {

json refused_of(const std::vector<prohibition>& all) {
  json::array items;
  for (const auto& p : all)
    items.push_back(json::make_object({{"what", p.what}, {"why", p.why}}));
  return json(std::move(items));
}

expected<json> guide_for(const std::string& device) {
  const std::string target(device.empty() ? preferred_device_type().traits().target : traits_of(device).target);
  CUDAL1_TRY(const device_guide* guide, guide_of(target));
  return json::make_object(
      {{"target", target},
       {"device", guide->about},
       {"program", format_guide()},
       {"answer", answer_guide(answer_form::program)},
       {"schedule", schedule_guide()},
       {"tile", tile_guide()},
       {"dialect", json::make_array({to_json(common_dialect()), to_json(guide->dialect)})},
       {"refused", json::make_array({refused_of(common_prohibitions()), refused_of(guide->refused)})},
       {"performance", to_json(guide->performance)}});
}

expected<json> examples_for(const std::string& device) {
  const std::string profile(device.empty() ? cli::default_profile() : traits_of(device).profile);
  CUDAL1_TRY(const auto programs, load_program_library(profile));
  json::array items;
  for (const auto& p : programs)
    items.push_back(
        json::make_object({{"name", p.name}, {"task", p.task}, {"program", print_program(p.program.text)}}));
  return json::make_object({{"profile", profile}, {"examples", json(std::move(items))}});
}

template <class Make>
api_handler by_device(Make make) {
  return answer_with([make](const api_call& call) -> api_result<json> {
    const auto device = call.text("device");
    if (!device.empty())
      if (const auto known = cli::profile_of(device); !known) return refuse(problem_of(known.error()));
    auto made = make(device);
    if (!made) return refuse(problem_of(made.error()));
    return std::move(*made);
  });
}

}  // namespace

void add_format_routes(route_table& table, const route_context& c) {
  const auto device = query_value("device", choice_schema({"cpu", "cuda"}), "the kind of device");
  table.add({.method = "GET",
             .path = "/v1/format",
             .id = "format_guide",
             .about = "how programs and schedules are written, what kernels may use, what is refused, what is fast",
             .parameters = {device},
             .body = {},
             .result = object_schema({}, {"program", "schedule", "dialect", "refused", "performance"}, false),
             .handle = by_device(guide_for)});
  table.add({.method = "GET",
             .path = "/v1/examples",
             .id = "example_programs",
             .about = "good programs for the built-in tasks, to start from",
             .parameters = {device},
             .body = {},
             .result = object_schema({}, {"examples"}, false),
             .handle = by_device(examples_for)});
  table.add({.method = "GET",
             .path = "/v1/imported",
             .id = "list_imported",
             .about = "the tasks that were imported into the data folder",
             .parameters = {},
             .body = {},
             .result = object_schema({}, {"tasks"}, false),
             .handle = answer_with([c](const api_call&) -> api_result<json> {
               json::array names;
               for (const auto& v : cli::imported_versions(c.data))
                 if (v.is_newest)
                   names.push_back(json::make_object({{"name", v.name}, {"imported_unix_ms", v.time_unix_ms}}));
               return json::make_object({{"tasks", json(std::move(names))}});
             })});
}

}  // namespace cudal1::serve
