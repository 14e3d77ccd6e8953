// A server of HTTP/1.1 for a node: one thread reads requests and writes answers, with limits of time, size and number;
// each connection has one request. What answers may take its time, and may do so from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/transport/certificates.hpp"
#include "config/base/error.hpp"

namespace cudal1 {

using http_fields = std::vector<std::pair<std::string, std::string>>;

struct http_call {
  std::string method, target, body;
  http_fields headers;  // names in lower case
  std::string from;     // the peer's address; "" once it has gone
  bool from_this_machine = false;

  // "" if there is none.
  std::string header(std::string_view lower_case_name) const;
};

struct http_answer {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  http_fields headers = {};
};

// One request's way back. All functions may be called from any thread; what is sent after its end is dropped.
class http_reply {
 public:
  virtual ~http_reply() = default;
  virtual void answer(http_answer a) = 0;
  // In place of answer(): a stream of events (text/event-stream), of which each text is sent as it is, up to end(). A
  // client that reads too slowly is disconnected.
  virtual void begin_events() = 0;
  virtual void send_events(std::string text) = 0;
  virtual void end() = 0;
  // Called once, in the server's thread, if the client goes before it has its answer.
  virtual void when_gone(std::function<void()> call) = 0;
};

struct http_server_setup {
  std::string key;                 // the setting that names the address, for messages
  std::string address;             // "127.0.0.1:9464", "[::1]:0", "localhost:4980"; port 0 takes a free one
  std::string what;                // is served: "the metrics"
  bool may_leave_machine = false;  // else an address that other machines reach is an error
  std::optional<identity> tls;     // of whom the certificate is shown; none: plain HTTP
  std::size_t most_header_bytes = 16384, most_body_bytes = 0;
  int most_exchanges = 16;  // at a time; further connections are closed
  // Both are called in the server's thread, and must not wait. The first one, once the header is there: an answer, if
  // the body need not be read.
  std::function<std::optional<http_answer>(const http_call&)> on_head;
  std::function<void(http_call, std::shared_ptr<http_reply>)> on_call;
};

struct http_address {
  std::string host;  // an address in numbers
  unsigned short port = 0;
  bool is_loopback = false;
};
// errc::invalid_argument, which names the setting.
expected<http_address> read_http_address(const std::string& key, const std::string& text);

class http_server {
 public:
  // errc::invalid_argument where the address is malformed or must not be used; errc::io_error where it cannot be bound.
  static expected<std::unique_ptr<http_server>> listen(http_server_setup setup);
  // No callback runs any more once this returns; what still holds a reply may keep it.
  virtual ~http_server() = default;
  virtual int port() const = 0;
  virtual int exchanges() const = 0;
};

}  // namespace cudal1
