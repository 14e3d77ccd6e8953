#include "actors/clients/http_server.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <thread>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cudal1 {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::seconds head_limit{10}, body_limit{30}, write_limit{10};
constexpr std::chrono::milliseconds retry_delay{100};
constexpr std::size_t read_at_once = 64 << 10;
constexpr std::size_t most_unsent = 4 << 20;      // of a stream's events
constexpr std::size_t most_after_end = 64 << 10;  // what a client may send after its request

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

asio::awaitable<void> handshake(asio::ssl::stream<beast::tcp_stream&>& tls, error_code& problem) {
  co_await tls.async_handshake(asio::ssl::stream_base::server, asio::redirect_error(asio::use_awaitable, problem));
}

struct shared_state {
  http_server_setup setup;
  asio::io_context io{1};
  std::optional<asio::ssl::context> tls;
  std::atomic<int> exchanges = 0;
  bool ended = false;  // in the server's thread, or when that has ended
};

// One request and its answer. The connection's part runs on the server's thread.
class exchange final : public http_reply, public std::enable_shared_from_this<exchange> {
 public:
  exchange(std::shared_ptr<shared_state> of, tcp::socket socket) : state_(std::move(of)), stream_(std::move(socket)) {
    ++state_->exchanges;
    error_code problem;
    const auto peer = stream_.socket().remote_endpoint(problem);
    if (!problem) {
      call_.from = peer.address().to_string();
      call_.from_this_machine = peer.address().is_loopback();
    }
    if (state_->tls) tls_.emplace(stream_, *state_->tls);
    parser_.header_limit(static_cast<std::uint32_t>(state_->setup.most_header_bytes));
    parser_.body_limit(state_->setup.most_body_bytes);
  }
  ~exchange() override { --state_->exchanges; }
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;

  void begin() {
    asio::co_spawn(
        state_->io, [self = shared_from_this()] { return self->run(); },
        [](const std::exception_ptr& thrown) {
          if (!thrown) return;
          try {
            std::rethrow_exception(thrown);
          } catch (const std::exception& e) {
            spdlog::error("a request of HTTP failed: {}", e.what());
          }
        });
  }

  void answer(http_answer a) override {
    post([this, a = std::move(a)] {
      if (is_answered_) return;
      is_answered_ = true;
      write(text_of(a), true);
    });
  }
  void begin_events() override {
    post([this] {
      if (is_answered_) return;
      is_answered_ = true;
      write(
          "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\r\n",
          false);
    });
  }
  void send_events(std::string text) override {
    post([this, text = std::move(text)] { write(text, false); });
  }
  void end() override {
    post([this] { write("", true); });
  }
  void when_gone(std::function<void()> call) override {
    post([this, call = std::move(call)]() mutable {
      when_gone_ = std::move(call);
      if (is_gone_) tell_gone();
    });
  }

 private:
  template <class Call>
  void post(Call call) {
    asio::post(state_->io, [self = shared_from_this(), call = std::move(call)]() mutable { call(); });
  }

  asio::awaitable<void> run() {
    error_code problem;
    stream_.expires_after(head_limit);
    if (tls_) co_await handshake(*tls_, problem);
    while (!problem && !parser_.is_header_done())
      co_await read_part(problem);
    if (problem) co_return refuse(problem);
    read_head();
    if (state_->setup.on_head)
      if (auto early = state_->setup.on_head(call_)) {
        is_answered_ = true;
        write(text_of(*early), true);
        co_return co_await watch();
      }
    if (lower_case(call_.header("expect")) == "100-continue")
      co_await write_all("HTTP/1.1 100 Continue\r\n\r\n", problem);
    stream_.expires_after(body_limit);
    while (!problem && !parser_.is_done())
      co_await read_part(problem);
    if (problem) co_return refuse(problem);
    call_.body = std::move(parser_.get().body());
    state_->setup.on_call(std::move(call_), shared_from_this());
    co_await watch();
  }

  asio::awaitable<void> read_part(error_code& problem) {
    for (;;) {
      if (buffer_.size() > 0) {
        problem = {};
        buffer_.consume(parser_.put(buffer_.data(), problem));
        if (problem != http::error::need_more) co_return;
      }
      problem = {};
      const auto got = co_await read_some(buffer_.prepare(read_at_once), problem);
      buffer_.commit(got);
      if (problem) co_return;
    }
  }
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer into, error_code& problem) {
    if (tls_) co_return co_await tls_->async_read_some(into, asio::redirect_error(asio::use_awaitable, problem));
    co_return co_await stream_.async_read_some(into, asio::redirect_error(asio::use_awaitable, problem));
  }
  // As in read_some: without a conditional expression, in which some compilers lose a temporary of co_await.
  asio::awaitable<std::size_t> write_some(asio::const_buffer from, error_code& problem) {
    if (tls_) co_return co_await tls_->async_write_some(from, asio::redirect_error(asio::use_awaitable, problem));
    co_return co_await stream_.async_write_some(from, asio::redirect_error(asio::use_awaitable, problem));
  }
  asio::awaitable<void> write_all(std::string text, error_code& problem) {
    for (std::size_t done = 0; done < text.size() && !problem;) {
      stream_.expires_after(write_limit);
      done += co_await write_some(asio::buffer(text) + done, problem);
    }
  }

  void read_head() {
    const auto& head = parser_.get();
    call_.method = std::string(head.method_string());
    call_.target = std::string(head.target());
    for (const auto& field : head)
      call_.headers.emplace_back(lower_case(std::string_view(field.name_string().data(), field.name_string().size())),
                                 std::string(field.value()));
  }

  // Of a request that cannot be read. A connection that broke, or said nothing in time, gets no answer.
  void refuse(error_code problem) {
    int status = 400;
    const char* why = "the request is not HTTP/1.1";
    if (problem == http::error::body_limit) {
      status = 413;
      why = "the body is too large";
    } else if (problem == http::error::header_limit || problem == http::error::buffer_overflow) {
      status = 431;
      why = "the header is too large";
    } else if (problem.category() != make_error_code(http::error::bad_method).category()) {
      return close();
    }
    is_answered_ = true;
    http_answer a;
    a.status = status;
    a.body =
        fmt::format(R"({{"error": {{"code": "bad_request", "message": "{}", "hint": "see /v1/openapi.json"}}}})", why);
    write(text_of(a), true);
  }

  // Notices that the client goes before it has its answer.
  asio::awaitable<void> watch() {
    stream_.expires_never();
    error_code problem;
    std::size_t unexpected = 0;
    while (!problem && unexpected < most_after_end) {
      buffer_.clear();
      unexpected += co_await read_some(buffer_.prepare(read_at_once), problem);
    }
    is_gone_ = true;
    if (!is_ended_) {
      tell_gone();
      close();
    }
  }
  void tell_gone() {
    if (state_->ended || !when_gone_) return;
    const auto call = std::move(when_gone_);
    when_gone_ = nullptr;
    call();
  }

  // Written as text: Beast's writer of messages takes a compiler several seconds.
  std::string text_of(const http_answer& a) const {
    const auto reason = http::obsolete_reason(static_cast<http::status>(a.status));
    std::string text = fmt::format(
        "HTTP/1.1 {} {}\r\nConnection: close\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
        a.status, std::string_view(reason.data(), reason.size()), a.type, a.body.size());
    for (const auto& [name, value] : a.headers)
      text += fmt::format("{}: {}\r\n", name, value);
    text += "\r\n";
    if (parser_.is_header_done() && parser_.get().method() == http::verb::head) return text;
    return text + a.body;
  }

  void write(std::string_view text, bool is_last) {
    if (is_ended_ || is_gone_) return;
    is_ended_ = is_last;
    unsent_ += text;
    if (unsent_.size() > most_unsent && !is_last) {  // of events: it reads too slowly
      is_gone_ = true;
      tell_gone();
      return close();
    }
    if (is_writing_) return;
    is_writing_ = true;
    asio::co_spawn(
        state_->io, [self = shared_from_this()] { return self->write_unsent(); }, [](const std::exception_ptr&) {});
  }
  asio::awaitable<void> write_unsent() {
    error_code problem;
    while (!unsent_.empty() && !problem) {
      std::string now;
      now.swap(unsent_);
      co_await write_all(std::move(now), problem);
    }
    is_writing_ = false;
    if (!is_ended_ && !problem) co_return;
    is_ended_ = true;
    if (!problem && tls_) co_await say_goodbye();
    // The rest of what the client sends is read, a while, so that the answer is not taken from it by a reset.
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    asio::steady_timer linger(state_->io, is_gone_ ? std::chrono::milliseconds(0) : std::chrono::milliseconds(500));
    while (!is_gone_ && linger.expiry() > std::chrono::steady_clock::now()) {
      asio::steady_timer tick(state_->io, std::chrono::milliseconds(5));
      co_await tick.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    close();
  }
  // TLS's end of the stream. Its peer's is not waited for long: watch() reads meanwhile.
  asio::awaitable<void> say_goodbye() {
    asio::steady_timer limit(state_->io, std::chrono::seconds(2));
    limit.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) self->close();
    });
    error_code ignored;
    co_await tls_->async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
  }
  void close() {
    is_ended_ = true;
    error_code ignored;
    stream_.socket().close(ignored);
  }

  std::shared_ptr<shared_state> state_;
  beast::tcp_stream stream_;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls_;
  beast::flat_buffer buffer_;
  http::request_parser<http::string_body> parser_;
  http_call call_;
  std::function<void()> when_gone_;
  std::string unsent_;
  bool is_answered_ = false, is_ended_ = false, is_gone_ = false, is_writing_ = false;
};

// Asio's own sockets are inherited by the processes that the node starts.
void keep_from_children(int fd) {
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) spdlog::warn("a socket may be inherited by other processes");
}

class server final : public http_server {
 public:
  explicit server(http_server_setup setup) : state_(std::make_shared<shared_state>()) {
    state_->setup = std::move(setup);
  }
  ~server() override {
    state_->io.stop();
    if (thread_.joinable()) thread_.join();
    state_->ended = true;
  }

  expected<void> start() {
    const auto& setup = state_->setup;
    CUDAL1_TRY(const http_address where, read_http_address(setup.key, setup.address));
    if (!setup.may_leave_machine && !where.is_loopback)
      return fail(errc::invalid_argument,
                  "{}: {} can be reached from other machines, and {} have no authentication: use 127.0.0.1 or [::1], "
                  "and a proxy or a tunnel",
                  setup.key, where.host, setup.what);
    if (setup.tls) CUDAL1_CHECK(prepare_tls(*setup.tls));
    const tcp::endpoint to(asio::ip::make_address(where.host), where.port);
    try {
      acceptor_.emplace(state_->io);
      acceptor_->open(to.protocol());
      keep_from_children(acceptor_->native_handle());
      acceptor_->set_option(asio::socket_base::reuse_address(true));
      acceptor_->bind(to);
      acceptor_->listen();
      port_ = acceptor_->local_endpoint().port();
    } catch (const boost::system::system_error& e) {
      return fail(errc::io_error, "{} cannot be served at {}:{}: {}", setup.what, where.host, where.port,
                  e.code().message());
    }
    accept();
    thread_ = std::thread([state = state_] {
      for (;;) {
        try {
          state->io.run();
          return;
        } catch (const std::exception& e) {
          spdlog::error("{}: {}", state->setup.what, e.what());
        }
      }
    });
    return {};
  }
  int port() const override { return port_; }
  int exchanges() const override { return state_->exchanges; }

 private:
  expected<void> prepare_tls(const identity& own) {
    auto& context = state_->tls.emplace(asio::ssl::context::tls_server);
    error_code problem;
    context.set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1, problem);
    if (!problem) context.use_certificate_chain(asio::buffer(own.certificate + own.authority), problem);
    if (!problem) context.use_private_key(asio::buffer(own.key), asio::ssl::context::pem, problem);
    if (problem)
      return fail(errc::invalid_argument, "{}: the certificate of {} cannot be used: {}", state_->setup.key, own.name,
                  problem.message());
    return {};
  }

  void accept() {
    acceptor_->async_accept([this](error_code e, tcp::socket socket) {
      if (e == asio::error::operation_aborted) return;
      if (e) {  // out of file descriptors, for example
        retry_.expires_after(retry_delay);
        retry_.async_wait([this](error_code) { accept(); });
        return;
      }
      keep_from_children(socket.native_handle());
      // The rest is closed unanswered.
      if (state_->exchanges < state_->setup.most_exchanges)
        std::make_shared<exchange>(state_, std::move(socket))->begin();
      accept();
    });
  }

  std::shared_ptr<shared_state> state_;
  std::optional<tcp::acceptor> acceptor_;
  asio::steady_timer retry_{state_->io};
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

std::string http_call::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_case_name) return value;
  return "";
}

expected<http_address> read_http_address(const std::string& key, const std::string& text) {
  const auto malformed = [&] {
    return fail(errc::invalid_argument, "{}: {} is not an address and a port, as in 127.0.0.1:9464", key, text);
  };
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return malformed();
  http_address out;
  out.host = text.substr(0, colon);
  if (out.host == "localhost") out.host = "127.0.0.1";
  if (out.host.starts_with('[') && out.host.ends_with(']')) out.host = out.host.substr(1, out.host.size() - 2);
  error_code problem;
  const auto address = asio::ip::make_address(out.host, problem);
  unsigned port = 0;
  const auto [end, bad] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  if (problem || bad != std::errc{} || end != text.data() + text.size() || port > 65535) return malformed();
  out.port = static_cast<unsigned short>(port);
  out.is_loopback = address.is_loopback();
  return out;
}

expected<std::unique_ptr<http_server>> http_server::listen(http_server_setup setup) {
  auto made = std::make_unique<server>(std::move(setup));
  CUDAL1_CHECK(made->start());
  return std::unique_ptr<http_server>(std::move(made));
}

}  // namespace cudal1
