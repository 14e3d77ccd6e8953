#include "policy/chat/secret.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/process_environment.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t least_masked = 8;
constexpr std::size_t longest_key = 16 << 10;

// White space at the ends is an editor's line break. Inside, it would end the header that the key is sent in.
expected<secret> checked_key(std::string text, const std::string& origin) {
  constexpr std::string_view white = " \t\r\n";
  text.erase(0, std::min(text.find_first_not_of(white), text.size()));
  text.erase(text.find_last_not_of(white) + 1);
  if (std::ranges::any_of(text, [](unsigned char c) { return c <= ' ' || c >= 0x7f; })) {
    OPENSSL_cleanse(text.data(), text.size());
    return fail(errc::invalid_argument,
                "the key in {} has a space, a line break or a character that is not ASCII in it; it should be one line "
                "with the key alone",
                origin);
  }
  return secret(std::move(text));
}

}  // namespace

secret& secret::operator=(const secret& other) {
  if (this != &other) {
    wipe();
    text_ = other.text_;
  }
  return *this;
}

secret::secret(secret&& other) noexcept : text_(std::move(other.text_)) {
  other.wipe();
}

secret& secret::operator=(secret&& other) noexcept {
  if (this != &other) {
    wipe();
    text_ = std::move(other.text_);
    other.wipe();
  }
  return *this;
}

void secret::wipe() {
  // A short text lies in the string itself, whose bytes outlive clear().
  text_.resize(text_.capacity());
  OPENSSL_cleanse(text_.data(), text_.size());
  text_.clear();
}

std::string secret::masked(std::string text) const {
  if (text_.size() < least_masked) return text;
  constexpr std::string_view mask = "[key]";
  for (std::size_t at = text.find(text_); at != std::string::npos; at = text.find(text_, at + mask.size()))
    text.replace(at, text_.size(), mask);
  return text;
}

expected<secret> read_key_file(const std::string& path) {
  const unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd)
    return fail(errc::not_found, "the key file {} cannot be opened: {}; key_file names it", path, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return fail(errc::io_error, "the key file {}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail(errc::invalid_argument, "the key file {} is not a regular file", path);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return fail(errc::invalid_argument,
                "the key file {} is open to other users (mode {:03o}); run `chmod 600 {}` and, if others may have read "
                "it, replace the key",
                path, status.st_mode & 0777u, path);
  std::string text(longest_key, '\0');
  const ssize_t size = ::read(fd.get(), text.data(), text.size());
  if (size < 0) return fail(errc::io_error, "the key file {}: {}", path, std::strerror(errno));
  text.resize(static_cast<std::size_t>(size));
  CUDAL1_TRY(auto key, checked_key(std::move(text), path));
  if (key.is_empty()) return fail(errc::invalid_argument, "the key file {} is empty", path);
  return key;
}

expected<endpoint_key> read_endpoint_key(const std::string& variable, const std::string& file,
                                         const std::vector<std::string>& environment) {
  if (!file.empty()) {
    CUDAL1_TRY(auto key, read_key_file(file));
    return endpoint_key{std::move(key), "the file " + file};
  }
  if (variable.empty()) return endpoint_key{{}, "nowhere: neither key_file nor key_variable is set"};
  const auto is_of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (!std::ranges::all_of(variable, is_of_name))
    return fail(errc::invalid_argument,
                "key_variable should be the name of an environment variable, such as OPENAI_API_KEY, and not the key");
  const std::string origin = "the environment variable " + variable;
  CUDAL1_TRY(auto key, checked_key(std::string(variable_of(environment, variable)), origin));
  return endpoint_key{std::move(key), origin};
}

}  // namespace cudal1
