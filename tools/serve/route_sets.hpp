// The routes of the HTTP interface, by what they are about. Internal to evaluation_server.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tools/serve/command_answers.hpp"
#include "tools/serve/job_board.hpp"
#include "tools/serve/routes.hpp"

namespace cudal1::serve {

struct route_context {
  std::string data, version;
  std::shared_ptr<const command_answers> commands;
  std::shared_ptr<job_board> board;
  std::function<expected<std::string>()> metrics;  // of the node
};

// Names of tasks, without what would be a file or a flag; and ids.
inline constexpr const char* task_pattern = "^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}$";
inline constexpr const char* variant_pattern = "^[0-9a-f]{4,64}$";
inline constexpr const char* experiment_pattern = "^e[0-9]{1,12}$";
inline constexpr const char* job_pattern = "^j[0-9a-f]{16}$";
inline constexpr const char* device_pattern =
    "^([a-z0-9-]{1,63}/)?(cpu|cuda(:[0-9]{1,3})?|replay)(,([a-z0-9-]{1,63}/)?cuda(:[0-9]{1,3})?){0,31}$";

// 404 for a task that is neither built in nor imported, a name that would be a file, and a device that is not there.
api_result<void> check_task_name(const route_context& c, const std::string& task, const std::string& device);

// Starts a search as POST /v1/searches does, of a body that follows search_schema() and has a limit; ends one. The
// document says how far it is.
json search_schema();
expected<json> start_search(const route_context& c, const json& body);
expected<json> stop_search(const route_context& c, const std::string& experiment);

// What is known: tasks, variants, prompts, devices, the format.
void add_reading_routes(route_table& table, const route_context& c);
void add_format_routes(route_table& table, const route_context& c);
// Evaluations and their jobs.
void add_job_routes(route_table& table, const route_context& c);
// Searches, and the import of models.
void add_search_routes(route_table& table, const route_context& c);

}  // namespace cudal1::serve
