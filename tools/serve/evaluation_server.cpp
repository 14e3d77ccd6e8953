#include "tools/serve/evaluation_server.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/transport/certificates.hpp"
#include "config/base/durable_file.hpp"
#include "tools/serve/dashboard/dashboard.hpp"
#include "tools/serve/evaluation_workers.hpp"
#include "tools/serve/mcp/mcp_endpoint.hpp"
#include "tools/serve/route_sets.hpp"
#include "tools/serve/thread_line.hpp"

namespace cudal1::serve {

namespace {

constexpr std::chrono::milliseconds flush_limit{500};
constexpr int most_exchanges = 1024, waiting_threads = 4, reading_threads = 2;
constexpr std::size_t most_calls_waiting = 512;
constexpr int least_workers = 3, most_workers = 24;  // a node has 32 clients at most

json health_of(const route_context& c) {
  const auto n = c.board->count();
  return json::make_object({{"status", c.board->is_ending() ? "ending" : "ready"},
                            {"version", c.version},
                            {"waiting", n.waiting},
                            {"running", n.running}});
}

std::string own_metrics(const route_context& c) {
  const auto n = c.board->count();
  std::string text;
  const auto add = [&](const char* name, const char* kind, const char* about, int64_t value) {
    text += fmt::format("# HELP cudal1_serve_{} {}\n# TYPE cudal1_serve_{} {}\ncudal1_serve_{} {}\n", name, about, name,
                        kind, name, value);
  };
  add("waiting", "gauge", "Evaluations that wait.", n.waiting);
  add("running", "gauge", "Evaluations that run.", n.running);
  add("jobs", "gauge", "Jobs that are kept.", n.jobs);
  add("clients", "gauge", "Clients whose jobs are kept.", n.clients);
  add("evaluations_total", "counter", "Evaluations that have a verdict, of this process.", n.finished);
  return text;
}

void add_own_routes(route_table& table, const route_context& c) {
  table.add({.method = "GET",
             .path = "/v1/health",
             .id = "health",
             .about = "whether evaluations are taken",
             .where = route_thread::own,
             .parameters = {},
             .body = {},
             .result = object_schema({}, {"status", "version"}, false),
             .handle = answer_with([c](const api_call&) -> api_result<json> { return health_of(c); })});
  table.add({.method = "GET",
             .path = "/v1/metrics",
             .id = "metrics",
             .about = "counters in the form of Prometheus",
             .where = route_thread::waiting,
             .parameters = {},
             .body = {},
             .result = schema_of("string"),
             .type = "text/plain",
             .handle = [c](const api_call&, const std::shared_ptr<http_reply>& reply) {
               const auto node = c.metrics();
               if (!node) return reply->answer(answer_of(problem_of(node.error())));
               reply->answer({200, *node + own_metrics(c), "text/plain; version=0.0.4; charset=utf-8"});
             }});
}

route_table table_of(const route_context& c) {
  route_table table;
  add_own_routes(table, c);
  add_reading_routes(table, c);
  add_format_routes(table, c);
  add_job_routes(table, c);
  add_search_routes(table, c);
  return table;
}

void add_openapi(route_table& table, const std::string& version) {
  auto document = std::make_shared<std::string>();
  table.add({.method = "GET",
             .path = "/v1/openapi.json",
             .id = "openapi",
             .about = "this description",
             .where = route_thread::own,
             .parameters = {},
             .body = {},
             .result = object_schema({}, {"openapi", "paths"}, false),
             .handle = [document](const api_call&, const std::shared_ptr<http_reply>& reply) {
               reply->answer({200, *document});
             }});
  *document = table.openapi(version).text(1);
}

// What a client's address must have before it is served.
expected<std::optional<identity>> check_exposure(const serving_setup& s, const http_address& where) {
  if (where.is_loopback) return std::nullopt;
  CUDAL1_TRY(const auto tokens, token_file(s.data).read());
  if (tokens.empty())
    return fail(errc::invalid_argument,
                "{} can be reached from other machines, and no client has a token yet: `cudal1 serve --new-token NAME` "
                "makes one; or serve 127.0.0.1",
                s.options.address);
  if (s.options.insecure) return std::nullopt;
  auto own = read_identity(cluster_folder(s.data) + "/coordinator.pem");
  if (!own)
    return fail(errc::invalid_argument,
                "{} can be reached from other machines, and tokens must not be sent without TLS: `cudal1 cluster init` "
                "makes a certificate; --insecure serves without, behind a proxy that has TLS ({})",
                s.options.address, own.error().message);
  return std::optional(std::move(*own));
}

class server final : public evaluation_server {
 public:
  explicit server(serving_setup setup) : setup_(std::move(setup)) {}
  ~server() override {
    if (http_) {
      std::error_code ignored;
      std::filesystem::remove(address_file(setup_.data), ignored);
    }
    if (board_) board_->end();  // answers those who wait
    if (dashboard_) dashboard_->end_events();
    workers_.reset();
    for (auto end = std::chrono::steady_clock::now() + flush_limit;
         http_ && http_->exchanges() > 0 && std::chrono::steady_clock::now() < end;)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    http_.reset();
    dashboard_.reset();
  }

  expected<void> start() {
    CUDAL1_TRY(const http_address where, read_http_address("--serve", setup_.options.address));
    CUDAL1_TRY(auto tls, check_exposure(setup_, where));
    access_.emplace(
        access_setup{setup_.data, where.is_loopback, setup_.options.require_token, setup_.options.local_import});
    CUDAL1_CHECK(make_folder());
    const int in_flight = std::clamp(2 * setup_.devices + 1, least_workers, most_workers);
    CUDAL1_TRY(board_, job_board::open(setup_.data, setup_.options));
    const route_context c{setup_.data, setup_.version, std::make_shared<const command_answers>(setup_.data), board_,
                          setup_.metrics};
    table_ = table_of(c);
    add_openapi(table_, setup_.version);
    mcp_ = std::make_unique<mcp::endpoint>(mcp::endpoint_setup{
        setup_.version, &table_, board_, [this](auto call) { return reading_.add(std::move(call)); },
        [this](auto call) { return waiting_.add(std::move(call)); }});
    const bool has_tls = tls.has_value();
    dashboard_ = dashboard::make(c, *access_, has_tls);
    CUDAL1_TRY(http_, http_server::listen(http_setup(std::move(tls))));
    workers_ = std::make_unique<evaluation_workers>(setup_.data, board_, in_flight);
    const bool is_v6 = where.host.find(':') != std::string::npos;
    url_ = fmt::format("{}://{}:{}", has_tls ? "https" : "http", is_v6 ? "[" + where.host + "]" : where.host,
                       http_->port());
    return write_durably({.path = address_file(setup_.data)}, url_ + "\n");
  }
  std::string url() const override { return url_; }
  bool is_busy() const override { return board_->is_busy() || http_->exchanges() > 0; }
  void take_no_more() override { board_->take_no_more(); }

 private:
  // For the owner only: it has the programs of all clients.
  expected<void> make_folder() const {
    const std::string folder = setup_.data + "/serve";
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    if (!problem) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, problem);
    if (problem) return fail(errc::io_error, "cannot make the folder {}: {}", folder, problem.message());
    return {};
  }

  http_server_setup http_setup(std::optional<identity> tls) {
    http_server_setup s;
    s.key = "--serve";
    s.address = setup_.options.address;
    s.what = "evaluations";
    s.may_leave_machine = true;
    s.tls = std::move(tls);
    s.most_body_bytes = static_cast<std::size_t>(setup_.options.body_mb) << 20;
    s.most_exchanges = most_exchanges;
    s.on_head = [this](const http_call& call) { return refused_by_head(call); };
    s.on_call = [this](http_call call, const std::shared_ptr<http_reply>& reply) { take(std::move(call), reply); };
    return s;
  }

  std::optional<http_answer> refused_by_head(const http_call& call) const {
    const bool is_mcp = mcp::endpoint::is_at(call.target);
    if (!is_mcp && dashboard::is_page(call.target)) return dashboard_->refused_by_head(call);
    const auto client = access_->client_of(call);
    const auto refusal = [&](const api_problem& p) { return is_mcp ? mcp::endpoint::answer_of(p) : answer_of(p); };
    if (!client) return refusal(client.error());
    if (const double wait = board_->count_request(client->name); wait > 0)
      return refusal({429, "too_many_requests",
                      fmt::format("{} sends more than {} requests a second (--serve-rate)", client->name,
                                  setup_.options.requests_per_s),
                      "wait as long as Retry-After says", wait});
    if (is_mcp) return mcp_->refused_by_head(call, *client);
    const auto found = table_.find(call.method, call.target);
    if (!found) return answer_of(found.error());
    if (auto allowed = require(*client, (*found)->permission); !allowed) return answer_of(allowed.error());
    return std::nullopt;
  }

  void take(http_call call, const std::shared_ptr<http_reply>& reply) {
    const bool is_mcp = mcp::endpoint::is_at(call.target);
    if (!is_mcp && dashboard::is_page(call.target)) return dashboard_->take(std::move(call), reply);
    const auto client = access_->client_of(call);
    if (is_mcp)
      return client ? mcp_->take(std::move(call), *client, reply)
                    : reply->answer(mcp::endpoint::answer_of(client.error()));
    if (!client) return reply->answer(answer_of(client.error()));
    const auto found = table_.find(call.method, call.target);
    if (!found) return reply->answer(answer_of(found.error()));
    const route& r = **found;
    if (r.where == route_thread::own) return carry_out(r, call, *client, reply);
    auto& line = r.where == route_thread::reading ? reading_ : waiting_;
    const bool taken =
        line.add([this, &r, call = std::move(call), client = *client, reply] { carry_out(r, call, client, reply); });
    if (!taken) reply->answer(answer_of({503, "busy", "too many requests wait", "repeat the request later", 2}));
  }

  void carry_out(const route& r, const http_call& call, const api_client& client,
                 const std::shared_ptr<http_reply>& reply) const {
    try {
      const auto read = table_.read(r, call, client);
      if (!read) return reply->answer(answer_of(read.error()));
      r.handle(*read, reply);
    } catch (const std::exception& e) {
      spdlog::error("{} {} failed: {}", r.method, r.path, e.what());
      reply->answer(answer_of({500, "internal", "the request could not be carried out",
                               "this is a bug of cudal1; DATA/node.log says more"}));
    }
  }

  const serving_setup setup_;
  std::optional<access_rules> access_;
  route_table table_;
  std::shared_ptr<job_board> board_;
  std::string url_;
  std::unique_ptr<dashboard> dashboard_;
  std::unique_ptr<mcp::endpoint> mcp_;
  std::unique_ptr<http_server> http_;
  std::unique_ptr<evaluation_workers> workers_;
  thread_line reading_{reading_threads, most_calls_waiting},
      waiting_{waiting_threads, most_calls_waiting};  // end first
};

}  // namespace

json openapi_document(const std::string& version) {
  route_table table = table_of({"", version, nullptr, nullptr, nullptr});
  add_openapi(table, version);
  return table.openapi(version);
}

expected<std::unique_ptr<evaluation_server>> evaluation_server::listen(serving_setup setup) {
  auto made = std::make_unique<server>(std::move(setup));
  CUDAL1_CHECK(made->start());
  return std::unique_ptr<evaluation_server>(std::move(made));
}

}  // namespace cudal1::serve
