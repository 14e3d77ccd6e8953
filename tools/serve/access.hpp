// Who may use the HTTP interface, and for what: tokens, which are kept as hashes, and the rules for requests without.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "tools/serve/api_problem.hpp"

namespace cudal1::serve {

// What a client may do beyond reading. `import` executes the Python of models; `stop` is for what others have begun.
inline constexpr std::array<std::string_view, 4> permissions = {"evaluate", "search", "import", "stop"};

struct token_record {
  std::string name;    // of the client
  std::string sha256;  // of the token
  std::vector<std::string> may;
  int64_t created_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(token_record, (), (name, sha256, may, created_unix_ms))

// DATA/serve/tokens.json, for the owner only. Each call reads the file.
class token_file {
 public:
  explicit token_file(const std::string& data) : path_(data + "/serve/tokens.json") {}
  expected<std::vector<token_record>> read() const;
  // A new token, which is shown once and never stored. errc::invalid_argument for a bad name or permission;
  // errc::already_exists.
  expected<std::string> add(const std::string& name, std::vector<std::string> may) const;
  expected<void> remove(const std::string& name) const;  // errc::not_found
  const std::string& path() const { return path_; }

 private:
  expected<void> write(const std::vector<token_record>& all) const;
  std::string path_;
};

struct api_client {
  std::string name;  // of the token; "local", "local:NAME" of a client of this machine without one
  std::vector<std::string> may;
  bool is_local = false;

  bool is_allowed(std::string_view permission) const;
};

struct access_setup {
  std::string data;
  bool is_loopback = true;     // the address that is served
  bool require_token = false;  // also on this machine
  bool local_import = false;
};

// May be called from any thread.
class access_rules {
 public:
  explicit access_rules(access_setup setup) : setup_(std::move(setup)), file_(setup_.data) {}
  // Who asks. 401 for a missing or unknown token; 403 for a request that a web page of another origin may have made:
  // a foreign Origin, or a Host that is not this machine's (DNS rebinding).
  api_result<api_client> client_of(const http_call& call) const;
  // Whose token has this hash: 401 if it is not known, or was revoked.
  api_result<api_client> client_of_hash(const std::string& sha256) const;
  const access_setup& setup() const { return setup_; }

 private:
  const access_setup setup_;
  const token_file file_;
};

// 403 for a request of a web page of another origin.
api_result<void> check_origin(const http_call& call);
inline constexpr std::size_t secret_bytes = 32;  // of tokens and sessions
// So many random bytes, two hexadecimal digits each. errc::io_error.
expected<std::string> random_hex(std::size_t count);

// 403 without it.
api_result<void> require(const api_client& client, std::string_view permission);

}  // namespace cudal1::serve
