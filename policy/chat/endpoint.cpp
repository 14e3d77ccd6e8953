#include "policy/chat/endpoint.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <boost/asio/ip/address.hpp>

namespace cudal1 {

namespace {

constexpr std::string_view examples =
    "https://api.openai.com/v1 (OpenAI), http://localhost:8000/v1 (vLLM), http://localhost:11434/v1 (Ollama)";
constexpr std::string_view route = "/chat/completions";

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// Whether a query has a parameter whose name says that its value is a key.
bool has_secret(std::string_view query) {
  constexpr std::array<std::string_view, 5> names = {"key", "token", "secret", "sig", "password"};
  while (!query.empty()) {
    const auto parameter = query.substr(0, query.find('&'));
    const std::string name = lower(parameter.substr(0, parameter.find('=')));
    if (std::ranges::any_of(names, [&](std::string_view n) { return name.find(n) != std::string::npos; })) return true;
    query.remove_prefix(std::min(query.size(), parameter.size() + 1));
  }
  return false;
}

}  // namespace

std::string host_in_url(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

expected<host_and_port> parse_authority(std::string_view text, std::string_view default_port) {
  const auto bracket = text.find(']');
  const auto colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  host_and_port out{lower(host), std::string(colon == std::string_view::npos ? default_port : text.substr(colon + 1))};
  const bool number = !out.port.empty() && out.port.size() <= 5 &&
                      std::ranges::all_of(out.port, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (out.host.empty() || !number || std::stoi(out.port) > 65535)
    return fail(errc::invalid_argument, "\"{}\" should be a host, or a host and a port as in localhost:8000", text);
  return out;
}

std::string endpoint::host_header() const {
  return port == (tls ? "443" : "80") ? host_in_url(host) : authority();
}

std::string endpoint::authority() const {
  return host_in_url(host) + ":" + port;
}

std::string endpoint::url() const {
  return (tls ? "https://" : "http://") + host_header() + target;
}

bool endpoint::is_local() const {
  if (host == "localhost" || host.ends_with(".localhost")) return true;
  boost::system::error_code not_an_address;
  const auto address = boost::asio::ip::make_address(host, not_an_address);
  return !not_an_address && address.is_loopback();
}

expected<endpoint> parse_endpoint(const std::string& url) {
  if (url.empty())
    return fail(errc::invalid_argument,
                "no endpoint is set: set llm.url (in cudal1.toml, or with --set llm.url=URL) to the base URL of an "
                "OpenAI-compatible server, as in {}",
                examples);
  if (std::ranges::any_of(url, [](unsigned char c) { return c <= ' ' || c >= 0x7f; }))
    return fail(errc::invalid_argument, "the URL has a space or a character that is not ASCII in it");
  endpoint e;
  std::string_view rest = url;
  const auto separator = rest.find("://");
  const std::string scheme = separator == std::string_view::npos ? "" : lower(rest.substr(0, separator));
  e.tls = scheme == "https";
  if (!e.tls && scheme != "http")
    return fail(errc::invalid_argument, "the URL should begin with http:// or https://, as in {}", examples);
  rest.remove_prefix(scheme.size() + 3);
  rest = rest.substr(0, rest.find('#'));
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  // Neither message shows the URL, which has a secret in it.
  if (authority.find('@') != std::string_view::npos)
    return fail(errc::invalid_argument,
                "the URL has a user name or a password before its host; remove them, and give the key by key_variable "
                "or key_file");
  CUDAL1_TRY(auto place, parse_authority(authority, e.tls ? "443" : "80"));
  e.host = std::move(place.host);
  e.port = std::move(place.port);
  rest.remove_prefix(authority.size());
  const auto question = rest.find('?');
  const std::string_view query = question == std::string_view::npos ? "" : rest.substr(question);
  if (has_secret(query.substr(query.empty() ? 0 : 1)))
    return fail(errc::invalid_argument,
                "the URL has a parameter that looks like a key; remove it, and give the key by key_variable or "
                "key_file");
  e.target = std::string(rest.substr(0, question));
  while (e.target.ends_with('/'))
    e.target.pop_back();
  if (!e.target.ends_with(route)) e.target += route;
  e.target += query;
  return e;
}

}  // namespace cudal1
