#include "tools/cli/commands/model_endpoints.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "actors/transport/tcp_sockets.hpp"
#include "config/base/process_environment.hpp"
#include "policy/chat/chat_models.hpp"
#include "policy/chat/endpoint.hpp"
#include "tools/cli/report/model_rows.hpp"

namespace cudal1::cli {

namespace {

expected<std::vector<chat_model>> models_of_request(const client_request& r, const node_flags& flags,
                                                    const context& c) {
  CUDAL1_TRY(const configuration settings, configuration_of(flags, c.data));
  return read_chat_models(r.models, settings.llm, c.data, process_environment());
}

expected<void> try_connection(const chat_model& model, int wake_fd) {
  constexpr auto limit = std::chrono::seconds(3);
  CUDAL1_TRY(const endpoint to, parse_endpoint(model.url));
  const std::string& host = model.proxy ? model.proxy->host : to.host;
  const std::string& port_text = model.proxy ? model.proxy->port : to.port;
  uint16_t port = 0;
  std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  const auto connected = connect_to(host, port, wake_fd, std::chrono::steady_clock::now() + limit);
  if (connected) return {};
  return fail(connected.error().code, "{} cannot be reached: {}", model.proxy ? model.proxy->name() : to.host_header(),
              connected.error().message);
}

}  // namespace

std::vector<std::string> with_absolute_paths(std::vector<std::string> names) {
  for (auto& name : names) {
    if (!names_local_model(name)) continue;
    // Links stay: the file that one points to may have no ending.
    name = std::filesystem::absolute(name).lexically_normal().string();
    if (name.size() > 1 && name.ends_with('/')) name.pop_back();
  }
  return names;
}

std::vector<std::string> unreachable_models(const client_request& r, const node_flags& flags, const context& c,
                                            int wake_fd) {
  // A coordinator asks from its machine; a replay asks nobody.
  if (r.policy != "llm" || c.coordinator || !r.replays.empty()) return {};
  const auto models = models_of_request(r, flags, c);
  if (!models) return {};  // the node refuses them with the same message
  std::vector<std::string> sentences;
  for (const auto& model : *models) {
    if (model.is_local()) continue;
    const auto connected = try_connection(model, wake_fd);
    if (connected || connected.error().code == errc::cancelled) continue;
    sentences.push_back(fmt::format("model {}: {}; each request is tried {} times, see {}/node.log", model.name,
                                    connected.error().message, model.tries, c.data));
  }
  return sentences;
}

expected<void> check_answers(const std::string& experiment, const std::string& last_problem, const context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto e, reader->get_experiment(experiment));
  if (e.policy != "llm" || !e.replays.empty()) return {};
  CUDAL1_TRY(const auto rows, models_of(*reader, e));
  const bool any =
      std::ranges::any_of(rows, [](const model_row& row) { return row.cost.answers > 0 || row.evaluations > 0; });
  if (any) return {};
  std::string why = last_problem;
  for (const auto& [task, reason] : e.ended)
    if (why.empty()) why = reason;
  if (why.empty()) why = fmt::format("{}/node.log says why", place_of(c));
  return fail(
      errc::infrastructure,
      "no language model answered a request of {}: {}. Check the model's path, or llm.url and the key, or give the "
      "search more time",
      experiment, why);
}

}  // namespace cudal1::cli
