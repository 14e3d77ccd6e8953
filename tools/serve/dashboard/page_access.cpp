#include "tools/serve/dashboard/page_access.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <openssl/crypto.h>

#include "config/base/hash.hpp"

namespace cudal1::serve {

namespace {

// Cookies do not know ports: nodes of one machine have different names for theirs.
std::string port_of(const std::string& host) {
  const auto colon = host.rfind(':');
  if (colon == std::string::npos || host.ends_with(']')) return "";
  const auto port = host.substr(colon + 1);
  return std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; }) ? port : "";
}

bool is_equal(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

api_problem foreign_form(const std::string& why) {
  return {403, "foreign_form", why, "use the forms of this dashboard's own pages; load the page again"};
}

}  // namespace

std::string safe_path(const std::string& path) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '-' ||
           c == '_' || c == '.';
  };
  const bool is_own = path.starts_with('/') && !path.starts_with("//") && std::ranges::all_of(path, is_plain);
  return is_own && path != "/login" && path != "/logout" ? path : "/";
}

// A proxy that has TLS says so. Who says it without one only gets a cookie that the browser keeps to itself.
bool page_access::is_encrypted(const http_call& call) const {
  return has_tls_ || call.header("x-forwarded-proto") == "https";
}

std::string page_access::cookie_name(const http_call& call) const {
  const auto port = port_of(call.header("host"));
  return (is_encrypted(call) ? "__Host-cudal1-session" : "cudal1-session") + (port.empty() ? "" : "-" + port);
}

std::string page_access::cookie_header(const http_call& call, const std::string& value, int64_t seconds) const {
  return fmt::format("{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{}", cookie_name(call), value, seconds,
                     is_encrypted(call) ? "; Secure" : "");
}

api_result<page_viewer> page_access::viewer_of(const http_call& call) {
  if (auto own = check_origin(call); !own) return refuse(own.error());
  if (const auto session = sessions_.find(cookie_value(call.header("cookie"), cookie_name(call)), call.from)) {
    // A token that was revoked ends its sessions.
    if (auto client = rules_.client_of_hash(session->token_sha256))
      return page_viewer{std::move(*client), session->form_key};
  }
  auto client = rules_.client_of(call);
  if (!client) return refuse(client.error());
  return page_viewer{std::move(*client), ""};
}

api_result<void> page_access::check_form(const http_call& call) const {
  if (call.header("origin").empty()) return refuse(foreign_form("a form of a browser has the header Origin"));
  if (auto own = check_origin(call); !own) return own;
  if (const auto site = call.header("sec-fetch-site"); !site.empty() && site != "same-origin")
    return refuse(foreign_form("the form is one of another site"));
  const auto type = call.header("content-type");
  if (type.substr(0, type.find(';')) != "application/x-www-form-urlencoded")
    return refuse({415, "unsupported_type", fmt::format("the body's type is \"{}\"", type), "send a form"});
  return {};
}

api_result<void> page_access::check_form(const http_call& call, const page_viewer& viewer,
                                         const form_values& form) const {
  if (auto own = check_form(call); !own) return own;
  if (!viewer.has_session())
    return refuse({401, "login_required", "this takes a token", "log in with a token, then repeat it"});
  const auto key = form.find("key");
  if (key == form.end() || !is_equal(key->second, viewer.form_key))
    return refuse(foreign_form("the form is not of this session"));
  return {};
}

api_result<std::string> page_access::log_in(const http_call& call, const std::string& token) {
  const auto hash = sha256_hex(token);
  if (auto client = rules_.client_of_hash(hash); !client) return refuse(client.error());
  const auto cookie = sessions_.begin(hash, call.from);
  if (!cookie) return refuse(problem_of(cookie.error()));
  return cookie_header(call, *cookie, std::chrono::seconds(session_length).count());
}

std::string page_access::log_out(const http_call& call) {
  sessions_.end(cookie_value(call.header("cookie"), cookie_name(call)));
  return cookie_header(call, "", 0);
}

}  // namespace cudal1::serve
