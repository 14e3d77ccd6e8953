#include "tools/serve/access.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/hash.hpp"
#include "config/base/machine_name.hpp"
#include "config/base/text_file.hpp"
#include "config/base/wall_clock.hpp"

namespace cudal1::serve {

namespace {

constexpr const char* token_prefix = "cudal1_";

struct kept_tokens {
  std::vector<token_record> tokens;
};
BOOST_DESCRIBE_STRUCT(kept_tokens, (), (tokens))

// "127.0.0.1:4980" -> "127.0.0.1", "[::1]:80" -> "::1".
std::string host_of(const std::string& text) {
  if (text.starts_with('[')) return text.substr(1, text.find(']') - 1);
  return text.substr(0, text.find(':'));
}

bool is_own_host(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "127.0.0.1";
}

}  // namespace

expected<std::string> random_hex(std::size_t count) {
  std::vector<unsigned char> bytes(count);
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail(errc::io_error, "the system gives no random numbers: {}", std::strerror(errno));
  std::string text;
  for (const auto b : bytes)
    text += fmt::format("{:02x}", b);
  return text;
}

api_result<void> check_origin(const http_call& call) {
  const auto origin = call.header("origin"), host = call.header("host");
  if (origin.empty() || origin == "http://" + host || origin == "https://" + host) return {};
  return refuse({403, "foreign_origin", fmt::format("requests of web pages of {} are not served", origin),
                 "use a program, not a web page of another site"});
}

bool api_client::is_allowed(std::string_view permission) const {
  return permission.empty() || std::ranges::count(may, permission) > 0;
}

expected<std::vector<token_record>> token_file::read() const {
  std::error_code problem;
  if (!std::filesystem::exists(path_, problem)) return std::vector<token_record>();
  CUDAL1_TRY(const std::string text, read_text_file(path_));
  auto kept = from_text<kept_tokens>(text);
  if (!kept) return fail_in(path_, std::move(kept).error());
  return std::move(kept->tokens);
}

expected<void> token_file::write(const std::vector<token_record>& all) const {
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), problem);
  return write_durably({.path = path_}, to_json(kept_tokens{all}).text(2));
}

expected<std::string> token_file::add(const std::string& name, std::vector<std::string> may) const {
  if (!is_machine_name(name))
    return fail(errc::invalid_argument, "\"{}\" cannot be a client's name: use lower-case letters, digits and -", name);
  for (const auto& one : may)
    if (std::ranges::count(permissions, one) == 0)
      return fail(errc::invalid_argument, "there is no permission \"{}\"; there is: {}", one,
                  fmt::join(permissions, ", "));
  CUDAL1_TRY(auto all, read());
  for (const auto& t : all)
    if (t.name == name)
      return fail(errc::already_exists, "{} has a token already; `cudal1 serve --remove-token {}` revokes it", name,
                  name);
  CUDAL1_TRY(std::string token, random_hex(secret_bytes));
  token.insert(0, token_prefix);
  all.push_back({name, sha256_hex(token), std::move(may), unix_ms()});
  CUDAL1_CHECK(write(all));
  return token;
}

expected<void> token_file::remove(const std::string& name) const {
  CUDAL1_TRY(auto all, read());
  if (std::erase_if(all, [&](const auto& t) { return t.name == name; }) == 0)
    return fail(errc::not_found, "{} has no token; `cudal1 serve --tokens` lists them", name);
  return write(all);
}

api_result<api_client> access_rules::client_of_hash(const std::string& hash) const {
  const auto all = file_.read();
  if (!all) return refuse(problem_of(all.error()));
  const token_record* found = nullptr;
  for (const auto& t : *all)
    if (t.sha256.size() == hash.size() && CRYPTO_memcmp(t.sha256.data(), hash.data(), hash.size()) == 0) found = &t;
  if (found == nullptr)
    return refuse({401, "unknown_token", "the token is not known here, or was revoked",
                   "ask whoever runs this node for one: `cudal1 serve --new-token NAME`"});
  return api_client{found->name, found->may, false};
}

api_result<api_client> access_rules::client_of(const http_call& call) const {
  if (auto checked = check_origin(call); !checked) return refuse(checked.error());
  const auto given = call.header("authorization");
  constexpr std::string_view scheme = "Bearer ";
  if (given.starts_with(scheme)) return client_of_hash(sha256_hex(given.substr(scheme.size())));
  if (!given.empty())
    return refuse({401, "unknown_token", "only tokens are known here", "send Authorization: Bearer TOKEN"});
  // A proxy's clients are not this machine's, although it connects from here.
  const bool is_forwarded =
      !call.header("x-forwarded-for").empty() || !call.header("forwarded").empty() || !call.header("via").empty();
  if (setup_.require_token || !setup_.is_loopback || !call.from_this_machine || is_forwarded)
    return refuse({401, "token_required", "this node wants a token",
                   "send Authorization: Bearer TOKEN; `cudal1 serve --new-token NAME` makes one"});
  if (const auto host = call.header("host"); !is_own_host(host_of(host)))
    return refuse({403, "foreign_host", fmt::format("\"{}\" is not this machine's name for itself", host),
                   "use http://127.0.0.1 or http://localhost, or a token"});
  api_client local{"local", {"evaluate", "search", "stop"}, true};
  if (const auto name = call.header("x-cudal1-client"); is_machine_name(name)) local.name += ":" + name;
  if (setup_.local_import) local.may.emplace_back("import");
  return local;
}

api_result<void> require(const api_client& client, std::string_view permission) {
  if (client.is_allowed(permission)) return {};
  const bool local_import = client.is_local && permission == "import";
  return refuse({403, "not_allowed", fmt::format("{} may not {} here", client.name, permission),
                 local_import ? "start it with --local-import: an import executes Python"
                              : fmt::format("a token made with --may {} is needed", permission)});
}

}  // namespace cudal1::serve
