// One request of HTTP or HTTPS by POST, on a connection of its own, with the body of the reply as it comes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "policy/chat/endpoint.hpp"
#include "policy/chat/http_end.hpp"
#include "policy/chat/proxy.hpp"
#include "policy/chat/retry_rule.hpp"
#include "policy/chat/secret.hpp"

namespace boost::asio {
class io_context;
}

namespace cudal1 {

class tls_settings;

struct http_post {
  endpoint to;
  secret key;  // sent as a bearer token, unless it is empty
  std::string body;
  std::optional<proxy_server> through;
};

struct http_timeouts {
  std::chrono::milliseconds connect{};     // with a proxy's tunnel and the handshake of TLS
  std::chrono::milliseconds first_byte{};  // of the body, after the request is sent
  std::chrono::milliseconds between{};     // two parts of the body
  std::chrono::milliseconds at_end{};      // after the listener has said that the reply is nearly over
};

// Called in the thread of the io_context.
struct http_listener {
  enum class wish { more, nearly_over, enough };
  std::function<void(int status, http_headers)> on_head;
  std::function<wish(std::string_view)> on_body;
  std::function<void(http_end, const std::string& why)> on_end;  // the last call, once
};

// Lives as long as its connection. To be used in the thread of the io_context only, which is the only one that runs it.
class http_exchange {
 public:
  virtual ~http_exchange() = default;
  // Closes the connection; the listener is not called any more.
  virtual void abort() = 0;
};

// `tls` may be null for http.
std::shared_ptr<http_exchange> start_exchange(boost::asio::io_context& io, std::shared_ptr<tls_settings> tls,
                                              http_post post, http_timeouts timeouts, http_listener listener);

}  // namespace cudal1
