// One connection to a server of HTTP, perhaps through a proxy, with TLS if its URL says https. For http_exchange alone.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "policy/chat/endpoint.hpp"
#include "policy/chat/http_end.hpp"
#include "policy/chat/proxy.hpp"
#include "policy/chat/tls_settings.hpp"

namespace cudal1 {

using http_reply_parser = boost::beast::http::response_parser<boost::beast::http::string_body>;

// Who we are, and the most that is read of a reply's header.
constexpr const char* http_user_agent = "cudal1";
constexpr std::size_t http_header_limit = 64 << 10;

// Of a step that `doing` describes, as "sending the request". A time limit that was exceeded is http_end::silent where
// another problem is http_end::cut.
http_failure http_failure_of(http_end end, const std::string& doing, const boost::system::error_code& problem);

// To be used in the thread of the io_context only. Whoever awaits one of its operations keeps it until that has ended.
class http_connection {
 public:
  template <class T>
  using awaitable = boost::asio::awaitable<T>;
  using error_code = boost::system::error_code;

  // Nothing begins yet. `tls` may be null for http. `through`: none for a direct connection. For https a proxy makes a
  // tunnel (CONNECT, RFC 9110, section 9.3.6), in which the handshake is with the server; it sees nothing but its host
  // and port. For http the connection is to the proxy, which wants to see whole URLs.
  http_connection(boost::asio::io_context& io, std::shared_ptr<tls_settings> tls, endpoint to,
                  std::optional<proxy_server> through);

  // Connects, has the tunnel made and shakes hands, all within `limit` once the host is found. No value: the connection
  // is ready.
  awaitable<std::optional<http_failure>> open(std::chrono::milliseconds limit);
  awaitable<void> write(const std::string& text, error_code& problem);
  // Reads and parses the next part of a reply: until `reply` has taken some bytes, or the reply has ended.
  awaitable<void> read_part(http_reply_parser& reply, error_code& problem);
  // From now on, for all that follows until the next call.
  void expires_after(std::chrono::nanoseconds time) { tcp_.expires_after(time); }
  // Ends what is under way with an error.
  void close();

 private:
  awaitable<std::optional<http_failure>> connect(std::chrono::milliseconds limit);
  awaitable<std::optional<http_failure>> open_tunnel();
  awaitable<std::optional<http_failure>> shake_hands();
  awaitable<std::size_t> read_some(boost::asio::mutable_buffer into, error_code& problem);
  awaitable<std::size_t> write_some(boost::asio::const_buffer from, error_code& problem);

  std::shared_ptr<tls_settings> settings_;
  endpoint to_;
  std::optional<proxy_server> through_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::beast::tcp_stream tcp_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;  // once the handshake has begun
  boost::beast::flat_buffer buffer_;                                        // read, but not parsed
  bool is_closed_ = false;
};

}  // namespace cudal1
