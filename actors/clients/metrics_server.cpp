#include "actors/clients/metrics_server.hpp"

#include <charconv>
#include <chrono>
#include <optional>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <fmt/format.h>

#include "actors/clients/metrics_text.hpp"

namespace cudal1 {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

constexpr std::chrono::seconds exchange_limit{10}, answer_limit{5};
constexpr std::chrono::milliseconds retry_delay{100};
constexpr std::size_t most_header_bytes = 8192;
constexpr int most_exchanges = 16;

expected<tcp::endpoint> read_endpoint(const std::string& text) {
  const auto malformed = [&] {
    return fail(errc::invalid_argument, "operation.metrics: {} is not an address and a port, as in 127.0.0.1:9464",
                text);
  };
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return malformed();
  std::string host = text.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code problem;
  const auto address = asio::ip::make_address(host, problem);
  unsigned port = 0;
  const auto [end, bad] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  if (problem || bad != std::errc{} || end != text.data() + text.size() || port > 65535) return malformed();
  if (!address.is_loopback())
    return fail(errc::invalid_argument,
                "operation.metrics: {} can be reached from other machines, and metrics have no authentication: use "
                "127.0.0.1 or [::1], and a proxy or a tunnel",
                host);
  return tcp::endpoint(address, static_cast<unsigned short>(port));
}

class server final : public metrics_server {
 public:
  server(caf::actor_system& system, coordinator_actor node) : self_(system), node_(std::move(node)) {}
  ~server() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  expected<void> start(const tcp::endpoint& where) {
    try {
      acceptor_.open(where.protocol());
      acceptor_.set_option(asio::socket_base::reuse_address(true));
      acceptor_.bind(where);
      acceptor_.listen();
    } catch (const boost::system::system_error& e) {
      return fail(errc::io_error, "the metrics cannot be served at {}:{}: {}", where.address().to_string(),
                  where.port(), e.code().message());
    }
    accept();
    thread_ = std::thread([this] { log_exceptions("metrics", [this] { io_.run(); }); });
    return {};
  }
  int port() const override { return acceptor_.local_endpoint().port(); }

 private:
  // One request and its answer; all of it runs on the server's thread.
  class exchange : public std::enable_shared_from_this<exchange> {
   public:
    exchange(server& of, tcp::socket socket) : server_(&of), stream_(std::move(socket)) {
      ++server_->exchanges_;
      parser_.header_limit(most_header_bytes);
      parser_.body_limit(0);
    }
    ~exchange() { --server_->exchanges_; }
    exchange(const exchange&) = delete;
    exchange& operator=(const exchange&) = delete;

    void begin() {
      stream_.expires_after(exchange_limit);
      http::async_read_header(stream_, buffer_, parser_, [self = shared_from_this()](beast::error_code e, std::size_t) {
        if (!e) self->answer();
      });
    }

   private:
    void answer() {
      const auto method = parser_.get().method();
      const std::string_view target(parser_.get().target().data(), parser_.get().target().size());
      if (method != http::verb::get && method != http::verb::head) {
        fill(http::status::method_not_allowed, "text/plain", "only GET\n");
      } else if (target.substr(0, target.find('?')) != "/metrics") {
        fill(http::status::not_found, "text/plain", "metrics are at /metrics\n");
      } else if (auto text = server_->text(); text) {
        fill(http::status::ok, "text/plain; version=0.0.4; charset=utf-8", *text);
      } else {
        fill(http::status::service_unavailable, "text/plain", text.error().message + "\n");
      }
      stream_.expires_after(exchange_limit);
      asio::async_write(stream_, asio::buffer(answer_), [self = shared_from_this()](beast::error_code, std::size_t) {
        beast::error_code ignored;
        self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
      });
    }
    // Written as text: Beast's writer of messages takes a compiler several seconds.
    void fill(http::status status, const char* type, const std::string& body) {
      const unsigned version = parser_.get().version();
      const std::string_view reason(http::obsolete_reason(status));
      answer_ = fmt::format("HTTP/{}.{} {} {}\r\nConnection: close\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
                            version / 10, version % 10, static_cast<unsigned>(status), reason, type, body.size());
      if (parser_.get().method() != http::verb::head) answer_ += body;
    }

    server* server_;
    beast::tcp_stream stream_;
    beast::flat_buffer buffer_{most_header_bytes};
    http::request_parser<http::empty_body> parser_;
    std::string answer_;
  };

  void accept() {
    acceptor_.async_accept([this](beast::error_code e, tcp::socket socket) {
      if (e == asio::error::operation_aborted) return;
      if (e) {  // out of file descriptors, for example
        retry_.expires_after(retry_delay);
        retry_.async_wait([this](beast::error_code) { accept(); });
        return;
      }
      // The rest is closed unanswered.
      if (exchanges_ < most_exchanges) std::make_shared<exchange>(*this, std::move(socket))->begin();
      accept();
    });
  }

  expected<std::string> text() {
    CUDAL1_TRY(const auto now,
               ask_blocking<message::node_metrics>(self_, node_, answer_limit, message::node_metrics_query{}));
    return metrics_text(now, metrics_of_this_process());
  }

  caf::scoped_actor self_;
  coordinator_actor node_;
  int exchanges_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer retry_{io_};
  std::thread thread_;
};

}  // namespace

expected<std::unique_ptr<metrics_server>> metrics_server::listen(caf::actor_system& system, const std::string& address,
                                                                 coordinator_actor node) {
  CUDAL1_TRY(const tcp::endpoint where, read_endpoint(address));
  auto made = std::make_unique<server>(system, std::move(node));
  CUDAL1_CHECK(made->start(where));
  return std::unique_ptr<metrics_server>(std::move(made));
}

}  // namespace cudal1
