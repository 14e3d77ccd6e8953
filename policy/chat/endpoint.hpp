// Where a model answers: the URL of a chat-completions endpoint, taken apart.
#pragma once

#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1 {

// Has no secrets: a URL with a password or a key in it is refused.
struct endpoint {
  bool tls = false;
  std::string host, port;  // an IPv6 address without brackets
  std::string target;      // path and query of the requests: "/v1/chat/completions"

  std::string url() const;  // in full, always the same for the same endpoint
  std::string host_header() const;
  std::string authority() const;  // "host:443", "[::1]:80": host and port in any case
  bool is_local() const;          // this machine: what is sent there cannot be read on the way
};

struct host_and_port {
  std::string host, port;  // as those of an endpoint
};
// Of "host", "host:port" or "[::1]:port". errc::invalid_argument.
expected<host_and_port> parse_authority(std::string_view text, std::string_view default_port);
// An IPv6 address with brackets, any other host as it is.
std::string host_in_url(const std::string& host);

// `url` is the base, to which /chat/completions is added unless the path ends with it.
expected<endpoint> parse_endpoint(const std::string& url);

}  // namespace cudal1
