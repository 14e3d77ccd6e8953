#include "policy/chat/http_connection.hpp"

#include <cerrno>
#include <utility>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cudal1 {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

const http_failure closed_by_us{http_end::cut, "the connection was closed"};

// Asio's own sockets are inherited by the processes that the node starts.
void open_socket(tcp::socket& socket, const tcp::endpoint& to, error_code& problem) {
  const int fd = ::socket(to.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
  if (fd < 0) {
    problem.assign(errno, boost::system::system_category());
    return;
  }
  socket.assign(to.protocol(), fd, problem);
  if (problem) ::close(fd);
}

// Which name the certificate must have.
void set_name(SSL* ssl, const std::string& host) {
  error_code not_an_address;
  asio::ip::make_address(host, not_an_address);
  if (not_an_address) {
    SSL_set_tlsext_host_name(ssl, host.c_str());
    SSL_set1_host(ssl, host.c_str());
  } else {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  }
}

std::string tunnel_request(const endpoint& to, const proxy_server& proxy) {
  std::string request = "CONNECT " + to.authority() + " HTTP/1.1\r\nHost: " + to.authority() +
                        "\r\nUser-Agent: " + http_user_agent + "\r\n";
  if (!proxy.authorization.is_empty()) request += "Proxy-Authorization: Basic " + proxy.authorization.reveal() + "\r\n";
  return request + "\r\n";
}

}  // namespace

http_failure http_failure_of(http_end end, const std::string& doing, const error_code& problem) {
  if (problem == beast::error::timeout)
    return {end == http_end::cut ? http_end::silent : end, doing + " took too long"};
  const bool is_closed = problem == http::error::end_of_stream || problem == http::error::partial_message ||
                         problem == asio::error::eof || problem == asio::ssl::error::stream_truncated;
  return {end, doing + ": " + (is_closed ? "the other side closed the connection" : problem.message())};
}

http_connection::http_connection(asio::io_context& io, std::shared_ptr<tls_settings> tls, endpoint to,
                                 std::optional<proxy_server> through)
    : settings_(std::move(tls)), to_(std::move(to)), through_(std::move(through)), resolver_(io), tcp_(io) {}

asio::awaitable<std::optional<http_failure>> http_connection::open(std::chrono::milliseconds limit) {
  auto failure = co_await connect(limit);
  if (!failure && through_ && to_.tls) failure = co_await open_tunnel();
  if (!failure && to_.tls) failure = co_await shake_hands();
  co_return failure;
}

void http_connection::close() {
  is_closed_ = true;
  resolver_.cancel();
  tcp_.close();
}

asio::awaitable<std::optional<http_failure>> http_connection::connect(std::chrono::milliseconds limit) {
  error_code problem;
  const std::string& host = through_ ? through_->host : to_.host;
  const std::string& port = through_ ? through_->port : to_.port;
  const auto found = co_await resolver_.async_resolve(host, port, asio::redirect_error(asio::use_awaitable, problem));
  if (is_closed_) co_return closed_by_us;
  if (problem)
    co_return http_failure_of(http_end::not_connected,
                              "the host " + (through_ ? "of " + through_->name() : host) + " was not found", problem);
  tcp_.expires_after(limit);
  http_failure failure{http_end::not_connected, "the host " + host + " has no address"};
  for (const auto& one : found) {
    open_socket(tcp_.socket(), one.endpoint(), problem);
    if (!problem) co_await tcp_.async_connect(one.endpoint(), asio::redirect_error(asio::use_awaitable, problem));
    if (is_closed_) co_return closed_by_us;
    if (!problem) co_return std::nullopt;
    failure = http_failure_of(http_end::not_connected,
                              "the connection to " + (through_ ? through_->name() : to_.authority()), problem);
    if (problem == beast::error::timeout) break;
    error_code ignored;
    tcp_.socket().close(ignored);
  }
  co_return failure;
}

asio::awaitable<std::optional<http_failure>> http_connection::open_tunnel() {
  const std::string request = tunnel_request(to_, *through_);
  error_code problem;
  co_await write(request, problem);
  http_reply_parser reply;
  reply.header_limit(http_header_limit);
  reply.skip(true);  // the tunnel begins after the header, whatever that says of a body
  while (!problem && !is_closed_ && !reply.is_header_done())
    co_await read_part(reply, problem);
  if (is_closed_) co_return closed_by_us;
  if (problem)
    co_return http_failure_of(http_end::not_connected,
                              "asking " + through_->name() + " for a connection to " + to_.authority(), problem);
  const int status = static_cast<int>(reply.get().result_int());
  if (status < 200 || status >= 300) co_return proxy_failure(*through_, to_, status);
  buffer_.clear();  // a server of TLS does not speak first
  co_return std::nullopt;
}

asio::awaitable<std::optional<http_failure>> http_connection::shake_hands() {
  tls_.emplace(tcp_, settings_->context);
  SSL* const ssl = tls_->native_handle();
  set_name(ssl, to_.host);
  error_code problem;
  co_await tls_->async_handshake(asio::ssl::stream_base::client, asio::redirect_error(asio::use_awaitable, problem));
  if (is_closed_) co_return closed_by_us;
  if (!problem) co_return std::nullopt;
  if (const long refusal = SSL_get_verify_result(ssl); refusal != X509_V_OK)
    co_return http_failure{http_end::not_trusted,
                           std::string("its certificate is refused: ") + X509_verify_cert_error_string(refusal)};
  co_return http_failure_of(http_end::not_connected, "the TLS handshake with " + to_.authority(), problem);
}

asio::awaitable<std::size_t> http_connection::read_some(asio::mutable_buffer into, error_code& problem) {
  if (tls_) co_return co_await tls_->async_read_some(into, asio::redirect_error(asio::use_awaitable, problem));
  co_return co_await tcp_.async_read_some(into, asio::redirect_error(asio::use_awaitable, problem));
}

asio::awaitable<std::size_t> http_connection::write_some(asio::const_buffer from, error_code& problem) {
  if (tls_) co_return co_await tls_->async_write_some(from, asio::redirect_error(asio::use_awaitable, problem));
  co_return co_await tcp_.async_write_some(from, asio::redirect_error(asio::use_awaitable, problem));
}

asio::awaitable<void> http_connection::write(const std::string& text, error_code& problem) {
  for (std::size_t done = 0; done < text.size() && !problem;)
    done += co_await write_some(asio::buffer(text) + done, problem);
}

asio::awaitable<void> http_connection::read_part(http_reply_parser& reply, error_code& problem) {
  constexpr std::size_t most_at_once = 64 << 10;
  for (;;) {
    problem = http::error::need_more;
    if (buffer_.size() > 0) buffer_.consume(reply.put(buffer_.data(), problem));
    if (problem != http::error::need_more) co_return;
    problem = {};
    const auto got = co_await read_some(buffer_.prepare(most_at_once), problem);
    buffer_.commit(got);
    if (problem == asio::error::eof) {
      problem = http::error::end_of_stream;
      if (reply.got_some()) {
        problem = {};
        reply.put_eof(problem);
      }
      co_return;
    }
    if (problem) co_return;
  }
}

}  // namespace cudal1
