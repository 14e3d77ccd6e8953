#include "actors/clients/metrics_server.hpp"

#include <chrono>

#include "actors/clients/http_server.hpp"
#include "actors/clients/metrics_text.hpp"

namespace cudal1 {

namespace {

constexpr std::chrono::seconds answer_limit{5};

http_answer text_answer(int status, std::string body) {
  return {status, std::move(body), status == 200 ? "text/plain; version=0.0.4; charset=utf-8" : "text/plain"};
}

class server final : public metrics_server {
 public:
  server(caf::actor_system& system, coordinator_actor node) : self_(system), node_(std::move(node)) {}

  expected<void> start(const std::string& address) {
    http_server_setup setup;
    setup.key = "operation.metrics";
    setup.address = address;
    setup.what = "the metrics";
    setup.on_call = [this](const http_call& call, const std::shared_ptr<http_reply>& reply) {
      reply->answer(answer_to(call));
    };
    CUDAL1_TRY(http_, http_server::listen(std::move(setup)));
    return {};
  }
  int port() const override { return http_->port(); }

 private:
  // Called in the thread of the server, which has nothing else to do.
  http_answer answer_to(const http_call& call) {
    if (call.method != "GET" && call.method != "HEAD") return text_answer(405, "only GET\n");
    if (call.target.substr(0, call.target.find('?')) != "/metrics")
      return text_answer(404, "metrics are at /metrics\n");
    const auto now = ask_blocking<message::node_metrics>(self_, node_, answer_limit, message::node_metrics_query{});
    if (!now) return text_answer(503, now.error().message + "\n");
    return text_answer(200, metrics_text(*now, metrics_of_this_process()));
  }

  caf::scoped_actor self_;
  coordinator_actor node_;
  std::unique_ptr<http_server> http_;  // ends first
};

}  // namespace

expected<std::unique_ptr<metrics_server>> metrics_server::listen(caf::actor_system& system, const std::string& address,
                                                                 coordinator_actor node) {
  auto made = std::make_unique<server>(system, std::move(node));
  CUDAL1_CHECK(made->start(address));
  return std::unique_ptr<metrics_server>(std::move(made));
}

}  // namespace cudal1
