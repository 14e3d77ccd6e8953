// Which HTTP proxy a request goes through, as command-line tools choose it by the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"
#include "policy/chat/endpoint.hpp"
#include "policy/chat/http_end.hpp"
#include "policy/chat/secret.hpp"

namespace cudal1 {

// Not described: it holds a password.
struct proxy_server {
  std::string host, port;  // as those of an endpoint
  std::string variable;    // of the environment, where it comes from
  secret authorization;    // what Proxy-Authorization says after "Basic"; empty: no such header is sent
  secret password;

  // For messages: "the proxy proxy.example:3128 (HTTPS_PROXY)". Without user name and password.
  std::string name() const;
  // `text` without what is secret here, if a proxy or a server repeats it.
  std::string masked(std::string text) const;
};

// The proxy for requests to `to`; none: they go directly. `environment` has entries NAME=value; each variable may be in
// lower case, too, which comes first, and an empty one is as one that is not set.
//
// - HTTPS_PROXY for https, HTTP_PROXY for http, else ALL_PROXY: [http://][USER:PASSWORD@]HOST[:PORT], with percent
//   encoding in USER and PASSWORD; the port is 80 if none is given. What else it may be in other tools (SOCKS, a proxy
//   behind TLS) is errc::invalid_argument: a direct connection is not what the user wants. Messages do not show the
//   value.
// - NO_PROXY names exceptions, see is_excepted().
// - This machine (endpoint::is_local) is never asked through a proxy, as in Go's net/http and unlike in curl: it is
//   where Ollama and vLLM run, which no proxy can reach.
expected<std::optional<proxy_server>> choose_proxy(const endpoint& to, const std::vector<std::string>& environment);

// Whether a text of NO_PROXY names the host of `to`. Its entries are separated by commas or white space:
//
//   *                      every host
//   example.com            the host and all below it; so are .example.com and *.example.com
//   10.1.2.3, ::1, [::1]   hosts that are given by this address; names are not resolved
//   10.0.0.0/8, fd00::/8   hosts that are given by an address in this network
//   ENTRY:8080             the same, at this port only; an IPv6 address needs its brackets
bool is_excepted(const endpoint& to, std::string_view no_proxy);

constexpr int proxy_wants_authorization = 407;

// Of a proxy that has answered a request to reach `to` with this status: what went wrong and what to do about it.
// http_end::refused_by_proxy if it would be so again, else http_end::not_connected.
http_failure proxy_failure(const proxy_server& proxy, const endpoint& to, int status);

}  // namespace cudal1
