// The key of an endpoint: a text that is neither printed, logged, compared nor stored by accident.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

// No conversion to a string, no formatter, no stream operator and no JSON form exist, and none must be added. Its
// memory is overwritten when it ends.
class secret {
 public:
  secret() = default;  // no key: nothing is sent
  explicit secret(std::string text) : text_(std::move(text)) {}
  secret(const secret&) = default;
  secret& operator=(const secret& other);
  secret(secret&& other) noexcept;
  secret& operator=(secret&& other) noexcept;
  ~secret() { wipe(); }

  bool is_empty() const { return text_.empty(); }
  // For the one place that sends it.
  const std::string& reveal() const { return text_; }
  // `text` with every occurrence of the secret replaced by "[key]". Shorter ones than eight characters are words such
  // as "EMPTY" and "ollama", which servers without keys are given, and stay.
  std::string masked(std::string text) const;

 private:
  void wipe();
  std::string text_;
};

// A key with where it comes from, as messages name it: "the environment variable OPENAI_API_KEY".
struct endpoint_key {
  secret value;
  std::string origin;
};

// Of a file that only its owner may have access to: its text without white space at the ends. Errors say how to mend
// it.
expected<secret> read_key_file(const std::string& path);
// Of `file` if it is not empty, else of the variable in `environment` (entries NAME=value); an unset or empty variable
// gives no key.
expected<endpoint_key> read_endpoint_key(const std::string& variable, const std::string& file,
                                         const std::vector<std::string>& environment);

}  // namespace cudal1
