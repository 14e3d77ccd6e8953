#include "policy/chat/proxy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include <boost/algorithm/string.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>

#include "config/base/base64.hpp"
#include "config/base/process_environment.hpp"

namespace cudal1 {

namespace {

namespace ip = boost::asio::ip;
using boost::system::error_code;

struct set_variable {
  std::string_view name, value;
};

// The first of them that has a value.
template <std::size_t N>
std::optional<set_variable> first_set(const std::vector<std::string>& environment,
                                      const std::array<std::string_view, N>& names) {
  for (const auto name : names)
    if (const auto value = variable_of(environment, name); !value.empty()) return set_variable{name, value};
  return std::nullopt;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const auto digits = text.substr(i + 1, 2);
    uint8_t byte = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || problem != std::errc() || end != digits.data() + 2) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

// False if "user:password" is not percent-encoded as it should be.
bool read_credentials(std::string_view text, proxy_server& proxy) {
  const auto colon = std::min(text.find(':'), text.size());
  const auto user = percent_decoded(text.substr(0, colon));
  const auto password = percent_decoded(text.substr(std::min(colon + 1, text.size())));
  if (!user || !password) return false;
  proxy.authorization = secret(base64(*user + ":" + *password));
  proxy.password = secret(*password);
  return true;
}

std::optional<proxy_server> read_proxy(const set_variable& from) {
  std::string_view rest = from.value;
  if (std::ranges::any_of(rest, [](unsigned char c) { return c <= ' ' || c >= 0x7f; })) return std::nullopt;
  if (const auto separator = rest.find("://"); separator != std::string_view::npos) {
    if (!boost::algorithm::iequals(rest.substr(0, separator), "http")) return std::nullopt;
    rest.remove_prefix(separator + 3);
  }
  const auto authority = rest.substr(0, rest.find_first_of("/?#"));
  // Of a password with such a character, what is before it must not be taken for the host.
  if (rest.substr(authority.size()).find('@') != std::string_view::npos) return std::nullopt;
  const auto at = authority.rfind('@');
  const bool has_user = at != std::string_view::npos && at > 0;
  auto place = parse_authority(authority.substr(at == std::string_view::npos ? 0 : at + 1), "80");
  if (!place) return std::nullopt;
  proxy_server proxy{.host = std::move(place->host),
                     .port = std::move(place->port),
                     .variable = std::string(from.name),
                     .authorization = {},
                     .password = {}};
  if (has_user && !read_credentials(authority.substr(0, at), proxy)) return std::nullopt;
  return proxy;
}

struct no_proxy_entry {
  std::string_view host, port;
};

no_proxy_entry read_entry(std::string_view text) {
  if (const auto bracket = text.find(']'); text.starts_with('[') && bracket != std::string_view::npos) {
    const auto rest = text.substr(bracket + 1);
    return {text.substr(1, bracket - 1), rest.starts_with(':') ? rest.substr(1) : std::string_view()};
  }
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

template <class Network>
bool are_equal(const Network& a, const Network& b) {
  return a.canonical() == b.canonical();
}

// `range`: an address or a network.
bool is_in(const ip::address& address, const std::string& range) {
  error_code problem;
  if (range.find('/') == std::string::npos) return ip::make_address(range, problem) == address && !problem;
  if (address.is_v4()) {
    const auto network = ip::make_network_v4(range, problem);
    return !problem && are_equal(network, ip::network_v4(address.to_v4(), network.prefix_length()));
  }
  const auto network = ip::make_network_v6(range, problem);
  return !problem && are_equal(network, ip::network_v6(address.to_v6(), network.prefix_length()));
}

bool is_in_domain(std::string_view host, std::string_view domain) {
  if (domain.starts_with("*.")) domain.remove_prefix(1);
  while (domain.starts_with('.'))
    domain.remove_prefix(1);
  for (auto* name : {&host, &domain})
    if (name->ends_with('.')) name->remove_suffix(1);
  if (domain.empty() || !host.ends_with(domain)) return false;
  return host.size() == domain.size() || host[host.size() - domain.size() - 1] == '.';
}

bool fits(const endpoint& to, const no_proxy_entry& e) {
  if (!e.port.empty() && e.port != to.port) return false;
  if (e.host == "*") return true;
  error_code not_an_address;
  const auto address = ip::make_address(to.host, not_an_address);
  return not_an_address ? is_in_domain(to.host, e.host) : is_in(address, std::string(e.host));
}

}  // namespace

std::string proxy_server::name() const {
  return "the proxy " + host_in_url(host) + ":" + port + " (" + variable + ")";
}

std::string proxy_server::masked(std::string text) const {
  return password.masked(authorization.masked(std::move(text)));
}

expected<std::optional<proxy_server>> choose_proxy(const endpoint& to, const std::vector<std::string>& environment) {
  using names = std::array<std::string_view, 4>;
  if (to.is_local()) return std::nullopt;
  const auto chosen = first_set(environment, to.tls ? names{"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}
                                                    : names{"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"});
  if (!chosen) return std::nullopt;
  const auto exceptions = first_set(environment, std::array<std::string_view, 2>{"no_proxy", "NO_PROXY"});
  if (exceptions && is_excepted(to, exceptions->value)) return std::nullopt;
  auto proxy = read_proxy(*chosen);
  if (!proxy)
    return fail(errc::invalid_argument,
                "the environment variable {} should be the URL of an HTTP proxy, as in http://proxy.example:3128 or "
                "http://USER:PASSWORD@proxy.example:3128, where @, :, / and % in USER and PASSWORD are written as %40, "
                "%3A, %2F and %25. SOCKS and proxies behind TLS (https://) are not supported; with {} in NO_PROXY, "
                "this host is reached without a proxy",
                chosen->name, to.host);
  return proxy;
}

bool is_excepted(const endpoint& to, std::string_view no_proxy) {
  std::vector<std::string> entries;
  const std::string text = boost::algorithm::to_lower_copy(std::string(no_proxy));
  boost::algorithm::split(entries, text, boost::algorithm::is_any_of(", \t\r\n"));
  return std::ranges::any_of(entries, [&](const std::string& e) { return !e.empty() && fits(to, read_entry(e)); });
}

http_failure proxy_failure(const proxy_server& proxy, const endpoint& to, int status) {
  constexpr std::array<int, 3> temporary = {408, 425, 429};
  const auto refused = [](std::string why) { return http_failure{http_end::refused_by_proxy, std::move(why)}; };
  const std::string name = proxy.name(), target = to.authority();
  if (status == proxy_wants_authorization && proxy.authorization.is_empty())
    return refused(
        fmt::format("{} wants a user name and a password (status 407); put them into {}, as in "
                    "http://USER:PASSWORD@{}:{}",
                    name, proxy.variable, host_in_url(proxy.host), proxy.port));
  if (status == proxy_wants_authorization)
    return refused(
        fmt::format("{} refuses the user name or the password of {} (status 407); correct them there, with "
                    "@, :, / and % written as %40, %3A, %2F and %25",
                    name, proxy.variable));
  if (status == 403)
    return refused(
        fmt::format("{} does not allow connections to {} (status 403); have it allow them or, if the host "
                    "can be reached without a proxy, put {} into NO_PROXY",
                    name, target, to.host));
  if (status == 501 || (status < 500 && std::ranges::count(temporary, status) == 0))
    return refused(
        fmt::format("{} refuses the connection to {} (status {}); {} should name an HTTP proxy that takes "
                    "CONNECT to this port",
                    name, target, status, proxy.variable));
  return {http_end::not_connected,
          fmt::format("{} could not connect to {} (status {}); if the host can be reached without a proxy, put {} into "
                      "NO_PROXY",
                      name, target, status, to.host)};
}

}  // namespace cudal1
