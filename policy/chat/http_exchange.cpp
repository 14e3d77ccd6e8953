#include "policy/chat/http_exchange.hpp"

#include <cctype>
#include <cerrno>
#include <exception>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl.hpp>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cudal1 {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

class tls_settings {
 public:
  asio::ssl::context context{asio::ssl::context::tls_client};
};

expected<std::shared_ptr<tls_settings>> make_tls_settings(const std::string& ca_file) {
  auto settings = std::make_shared<tls_settings>();
  auto& context = settings->context;
  error_code problem;
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  context.set_verify_mode(asio::ssl::verify_peer, problem);
  if (!problem) context.set_default_verify_paths(problem);
  if (problem) return fail(errc::infrastructure, "TLS cannot be set up: {}", problem.message());
  if (ca_file.empty()) return settings;
  context.load_verify_file(ca_file, problem);
  if (problem)
    return fail(
        errc::invalid_argument,
        "the file of certificates {} cannot be used: {}; ca_file should name a readable file of certificates in "
        "PEM format",
        ca_file, problem.message());
  return settings;
}

namespace {

constexpr std::size_t header_limit = 64 << 10, body_limit = 256 << 20;
// A slow line may take this long for a prompt.
constexpr std::chrono::seconds send_timeout{120};

using tls_stream = beast::ssl_stream<beast::tcp_stream>;

http_headers headers_of(const http::response<http::string_body>& reply) {
  http_headers out;
  for (const auto& field : reply) {
    std::string name(field.name_string());
    for (char& c : name)
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    out.emplace_back(std::move(name), std::string(field.value()));
  }
  return out;
}

// The key is in memory twice while a request is sent: here and in its owner.
std::string request_of(http_post& post) {
  std::string request = "POST " + post.to.target + " HTTP/1.1\r\n";
  const auto set = [&](const char* field, const std::string& value) {
    request.append(field).append(": ").append(value).append("\r\n");
  };
  set("Host", post.to.host_header());
  set("User-Agent", "cudal1");
  set("Content-Type", "application/json");
  set("Accept", "text/event-stream, application/json");
  set("Accept-Encoding", "identity");
  set("Connection", "close");
  if (!post.key.is_empty()) set("Authorization", "Bearer " + post.key.reveal());
  set("Content-Length", std::to_string(post.body.size()));
  return request + "\r\n" + std::exchange(post.body, {});
}

// The two kinds of stream behind one interface. Beast's and Asio's operations on whole messages would be compiled for
// each of them, which takes a compiler half a minute.
class byte_stream {
 public:
  explicit byte_stream(beast::tcp_stream& lowest) : lowest_(&lowest) {}
  virtual ~byte_stream() = default;
  virtual asio::awaitable<std::size_t> read_some(asio::mutable_buffer into, error_code& problem) = 0;
  virtual asio::awaitable<std::size_t> write_some(asio::const_buffer from, error_code& problem) = 0;
  void expires_after(std::chrono::nanoseconds time) { lowest_->expires_after(time); }

 private:
  beast::tcp_stream* lowest_;
};

template <class Stream>
class byte_stream_of final : public byte_stream {
 public:
  explicit byte_stream_of(Stream& stream) : byte_stream(beast::get_lowest_layer(stream)), stream_(&stream) {}
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer into, error_code& problem) override {
    co_return co_await stream_->async_read_some(into, asio::redirect_error(asio::use_awaitable, problem));
  }
  asio::awaitable<std::size_t> write_some(asio::const_buffer from, error_code& problem) override {
    co_return co_await stream_->async_write_some(from, asio::redirect_error(asio::use_awaitable, problem));
  }

 private:
  Stream* stream_;
};

asio::awaitable<void> write_all(byte_stream& stream, const std::string& text, error_code& problem) {
  for (std::size_t done = 0; done < text.size() && !problem;)
    done += co_await stream.write_some(asio::buffer(text) + done, problem);
}

// Reads and parses the next part of a reply: until `parser` has taken some bytes, or the reply has ended.
asio::awaitable<void> read_part(byte_stream& stream, beast::flat_buffer& buffer,
                                http::response_parser<http::string_body>& parser, error_code& problem) {
  constexpr std::size_t most_at_once = 64 << 10;
  for (;;) {
    problem = http::error::need_more;
    if (buffer.size() > 0) buffer.consume(parser.put(buffer.data(), problem));
    if (problem != http::error::need_more) co_return;
    problem = {};
    const auto got = co_await stream.read_some(buffer.prepare(most_at_once), problem);
    buffer.commit(got);
    if (problem == asio::error::eof) {
      problem = http::error::end_of_stream;
      if (parser.got_some()) {
        problem = {};
        parser.put_eof(problem);
      }
      co_return;
    }
    if (problem) co_return;
  }
}

class exchange final : public http_exchange, public std::enable_shared_from_this<exchange> {
 public:
  exchange(asio::io_context& io, std::shared_ptr<tls_settings> tls, http_post post, http_timeouts timeouts,
           http_listener listener)
      : io_(io),
        tls_(std::move(tls)),
        post_(std::move(post)),
        timeouts_(timeouts),
        listener_(std::move(listener)),
        resolver_(io) {}

  // `self` keeps the object until the coroutine ends.
  static asio::awaitable<void> run(std::shared_ptr<exchange> self) {
    try {
      co_await self->talk();
    } catch (const std::exception& e) {  // out of memory
      self->ended(http_end::cut, e.what());
    }
    self->lowest_ = nullptr;
    if (!self->is_aborted_ && self->listener_.on_end) self->listener_.on_end(self->end_, self->why_);
    self->listener_ = {};  // which may hold whoever holds this
  }

  void abort() override {
    is_aborted_ = true;
    resolver_.cancel();
    if (lowest_ != nullptr) lowest_->close();
  }

 private:
  asio::awaitable<void> talk() {
    if (!post_.to.tls) {
      beast::tcp_stream stream(io_);
      lowest_ = &stream;
      byte_stream_of bytes(stream);
      if (co_await connect(stream)) co_await converse(bytes);
      lowest_ = nullptr;
      co_return;
    }
    tls_stream stream(io_, tls_->context);
    lowest_ = &beast::get_lowest_layer(stream);
    bool is_ready = co_await connect(*lowest_);
    if (is_ready) is_ready = co_await shake_hands(stream);
    byte_stream_of bytes(stream);
    if (is_ready) co_await converse(bytes);
    lowest_ = nullptr;
  }

  void ended(http_end end, std::string why) {
    end_ = end;
    why_ = std::move(why);
  }
  void ended(http_end end, const std::string& doing, const error_code& problem) {
    const bool is_closed = problem == http::error::end_of_stream || problem == http::error::partial_message ||
                           problem == asio::error::eof || problem == asio::ssl::error::stream_truncated;
    if (problem == beast::error::timeout) {
      ended(end == http_end::cut ? http_end::silent : end, doing + " took too long");
    } else {
      ended(end, doing + ": " + (is_closed ? "the server closed the connection" : problem.message()));
    }
  }

  std::string address() const { return post_.to.host + ":" + post_.to.port; }

  asio::awaitable<bool> connect(beast::tcp_stream& stream) {
    error_code problem;
    const auto found = co_await resolver_.async_resolve(post_.to.host, post_.to.port,
                                                        asio::redirect_error(asio::use_awaitable, problem));
    if (is_aborted_) co_return false;
    if (problem) {
      ended(http_end::not_connected, "the host " + post_.to.host + " was not found", problem);
      co_return false;
    }
    stream.expires_after(timeouts_.connect);
    for (const auto& one : found) {
      open_socket(stream.socket(), one.endpoint(), problem);
      if (!problem) co_await stream.async_connect(one.endpoint(), asio::redirect_error(asio::use_awaitable, problem));
      if (is_aborted_) co_return false;
      if (!problem) co_return true;
      ended(http_end::not_connected, "the connection to " + address(), problem);
      if (problem == beast::error::timeout) break;
      error_code ignored;
      stream.socket().close(ignored);
    }
    co_return false;
  }

  // Asio's own sockets are inherited by the processes that the node starts.
  static void open_socket(tcp::socket& socket, const tcp::endpoint& to, error_code& problem) {
    const int fd = ::socket(to.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0) {
      problem.assign(errno, boost::system::system_category());
      return;
    }
    socket.assign(to.protocol(), fd, problem);
    if (problem) ::close(fd);
  }

  asio::awaitable<bool> shake_hands(tls_stream& stream) {
    SSL* const ssl = stream.native_handle();
    error_code not_an_address;
    asio::ip::make_address(post_.to.host, not_an_address);
    if (not_an_address) {
      SSL_set_tlsext_host_name(ssl, post_.to.host.c_str());
      SSL_set1_host(ssl, post_.to.host.c_str());
    } else {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), post_.to.host.c_str());
    }
    error_code problem;
    co_await stream.async_handshake(asio::ssl::stream_base::client, asio::redirect_error(asio::use_awaitable, problem));
    if (!problem || is_aborted_) co_return !is_aborted_;
    if (const long refusal = SSL_get_verify_result(ssl); refusal != X509_V_OK) {
      ended(http_end::not_trusted,
            std::string("its certificate is refused: ") + X509_verify_cert_error_string(refusal));
    } else {
      ended(http_end::not_connected, "the TLS handshake with " + address(), problem);
    }
    co_return false;
  }

  asio::awaitable<void> converse(byte_stream& stream) {
    error_code problem;
    {
      const auto request = request_of(post_);
      stream.expires_after(send_timeout);
      co_await write_all(stream, request, problem);
    }
    if (is_aborted_) co_return;
    if (problem) {
      ended(http_end::cut, "sending the request", problem);
      co_return;
    }
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.header_limit(header_limit);
    parser.body_limit(body_limit);
    stream.expires_after(timeouts_.first_byte);
    while (!parser.is_header_done() && !problem && !is_aborted_)
      co_await read_part(stream, buffer, parser, problem);
    if (is_aborted_) co_return;
    if (problem) {
      ended(http_end::cut, "waiting for the reply", problem);
      co_return;
    }
    if (listener_.on_head) listener_.on_head(parser.get().result_int(), headers_of(parser.get()));
    co_await read_body(stream, buffer, parser);
  }

  asio::awaitable<void> read_body(byte_stream& stream, beast::flat_buffer& buffer,
                                  http::response_parser<http::string_body>& parser) {
    while (!is_aborted_ && !parser.is_done()) {
      error_code problem;
      co_await read_part(stream, buffer, parser, problem);
      if (is_aborted_) co_return;
      const std::string part = std::exchange(parser.get().body(), {});
      auto wish = http_listener::wish::more;
      if (!part.empty()) wish = listener_.on_body(part);
      if (is_aborted_) co_return;
      if (wish == http_listener::wish::enough) {
        ended(http_end::enough, "");
        co_return;
      }
      if (problem) {
        ended(http_end::cut, "reading the reply", problem);
        co_return;
      }
      if (wish == http_listener::wish::nearly_over) {
        stream.expires_after(timeouts_.at_end);
      } else if (!part.empty()) {
        stream.expires_after(timeouts_.between);
      }
    }
    if (!is_aborted_) ended(http_end::whole, "");
  }

  asio::io_context& io_;
  std::shared_ptr<tls_settings> tls_;
  http_post post_;
  http_timeouts timeouts_;
  http_listener listener_;
  tcp::resolver resolver_;
  beast::tcp_stream* lowest_ = nullptr;  // while it exists
  bool is_aborted_ = false;
  http_end end_ = http_end::cut;
  std::string why_;
};

}  // namespace

std::shared_ptr<http_exchange> start_exchange(asio::io_context& io, std::shared_ptr<tls_settings> tls, http_post post,
                                              http_timeouts timeouts, http_listener listener) {
  auto made = std::make_shared<exchange>(io, std::move(tls), std::move(post), timeouts, std::move(listener));
  asio::co_spawn(io, exchange::run(made), asio::detached);
  return made;
}

}  // namespace cudal1
