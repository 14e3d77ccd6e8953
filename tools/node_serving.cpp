#include "tools/node_serving.hpp"

#include <filesystem>

#include "actors/clients/metrics_text.hpp"
#include "actors/messages/caf_layer.hpp"

namespace cudal1 {

expected<std::unique_ptr<serve::evaluation_server>> serve_evaluations(const serve::serving_options& serving,
                                                                      const node_options& o, caf::actor_system& system,
                                                                      const coordinator_actor& node, int devices) {
  if (serving.address.empty()) {
    std::error_code none;
    std::filesystem::remove(serve::address_file(o.data), none);  // of a node that was killed
    return nullptr;
  }
  const auto metrics = [&system, node]() -> expected<std::string> {
    caf::scoped_actor self(system);
    CUDAL1_TRY(const auto now,
               ask_blocking<message::node_metrics>(self, node, std::chrono::seconds(5), message::node_metrics_query{}));
    return metrics_text(now, metrics_of_this_process());
  };
  CUDAL1_TRY(auto made, serve::evaluation_server::listen({o.data, o.version, serving, devices, metrics}));
  spdlog::info("evaluations are served at {}", made->url());
  return made;
}

}  // namespace cudal1
