#include "policy/chat/http_exchange.hpp"

#include <cctype>
#include <exception>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "policy/chat/http_connection.hpp"

namespace cudal1 {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t body_limit = 256 << 20;
// A slow line may take this long for a prompt.
constexpr std::chrono::seconds send_timeout{120};

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

// A proxy that makes no tunnel reads the request, and its replies come in place of the server's.
bool is_forwarded_by_proxy(const http_post& post) {
  return post.through && !post.to.tls;
}

// The key is in memory twice while a request is sent: here and in its owner.
std::string request_of(http_post& post) {
  const bool is_forwarded = is_forwarded_by_proxy(post);
  std::string request = "POST " + (is_forwarded ? post.to.url() : post.to.target) + " HTTP/1.1\r\n";
  const auto set = [&](const char* field, const std::string& value) {
    request.append(field).append(": ").append(value).append("\r\n");
  };
  set("Host", post.to.host_header());
  set("User-Agent", http_user_agent);
  set("Content-Type", "application/json");
  set("Accept", "text/event-stream, application/json");
  set("Accept-Encoding", "identity");
  set("Connection", "close");
  if (!post.key.is_empty()) set("Authorization", "Bearer " + post.key.reveal());
  if (is_forwarded && !post.through->authorization.is_empty())
    set("Proxy-Authorization", "Basic " + post.through->authorization.reveal());
  set("Content-Length", std::to_string(post.body.size()));
  return request + "\r\n" + std::exchange(post.body, {});
}

class exchange final : public http_exchange, public std::enable_shared_from_this<exchange> {
 public:
  exchange(asio::io_context& io, std::shared_ptr<tls_settings> tls, http_post post, http_timeouts timeouts,
           http_listener listener)
      : post_(std::move(post)),
        timeouts_(timeouts),
        listener_(std::move(listener)),
        connection_(std::make_unique<http_connection>(io, std::move(tls), post_.to, post_.through)) {}

  // `self` keeps the object until the coroutine ends.
  static asio::awaitable<void> run(std::shared_ptr<exchange> self) {
    try {
      co_await self->talk();
    } catch (const std::exception& e) {  // out of memory
      self->ended({http_end::cut, e.what()});
    }
    self->connection_.reset();
    if (!self->is_aborted_ && self->listener_.on_end) self->listener_.on_end(self->outcome_.end, self->outcome_.why);
    self->listener_ = {};  // which may hold whoever holds this
  }

  void abort() override {
    is_aborted_ = true;
    if (connection_) connection_->close();
  }

 private:
  void ended(http_failure how) { outcome_ = std::move(how); }

  asio::awaitable<void> talk() {
    auto failure = co_await connection_->open(timeouts_.connect);
    if (is_aborted_) co_return;
    if (failure) {
      ended(std::move(*failure));
      co_return;
    }
    co_await converse();
  }

  asio::awaitable<void> converse() {
    error_code problem;
    {
      const auto request = request_of(post_);
      connection_->expires_after(send_timeout);
      co_await connection_->write(request, problem);
    }
    if (is_aborted_) co_return;
    if (problem) {
      ended(http_failure_of(http_end::cut, "sending the request", problem));
      co_return;
    }
    http_reply_parser reply;
    reply.header_limit(http_header_limit);
    reply.body_limit(body_limit);
    connection_->expires_after(timeouts_.first_byte);
    while (!reply.is_header_done() && !problem && !is_aborted_)
      co_await connection_->read_part(reply, problem);
    if (is_aborted_) co_return;
    if (problem) {
      ended(http_failure_of(http_end::cut, "waiting for the reply", problem));
      co_return;
    }
    const int status = static_cast<int>(reply.get().result_int());
    if (status == proxy_wants_authorization && is_forwarded_by_proxy(post_)) {
      ended(proxy_failure(*post_.through, post_.to, status));
      co_return;
    }
    if (listener_.on_head) listener_.on_head(status, headers_of(reply.get()));
    co_await read_body(reply);
  }

  asio::awaitable<void> read_body(http_reply_parser& reply) {
    while (!is_aborted_ && !reply.is_done()) {
      error_code problem;
      co_await connection_->read_part(reply, problem);
      if (is_aborted_) co_return;
      const std::string part = std::exchange(reply.get().body(), {});
      auto wish = http_listener::wish::more;
      if (!part.empty()) wish = listener_.on_body(part);
      if (is_aborted_) co_return;
      if (wish == http_listener::wish::enough) {
        ended({http_end::enough, ""});
        co_return;
      }
      if (problem) {
        ended(http_failure_of(http_end::cut, "reading the reply", problem));
        co_return;
      }
      if (wish == http_listener::wish::nearly_over) {
        connection_->expires_after(timeouts_.at_end);
      } else if (!part.empty()) {
        connection_->expires_after(timeouts_.between);
      }
    }
    if (!is_aborted_) ended({http_end::whole, ""});
  }

  http_post post_;
  http_timeouts timeouts_;
  http_listener listener_;
  std::unique_ptr<http_connection> connection_;  // null once the exchange has ended
  bool is_aborted_ = false;
  http_failure outcome_;
};

}  // namespace

std::shared_ptr<http_exchange> start_exchange(asio::io_context& io, std::shared_ptr<tls_settings> tls, http_post post,
                                              http_timeouts timeouts, http_listener listener) {
  auto made = std::make_shared<exchange>(io, std::move(tls), std::move(post), timeouts, std::move(listener));
  asio::co_spawn(io, exchange::run(made), asio::detached);
  return made;
}

}  // namespace cudal1
