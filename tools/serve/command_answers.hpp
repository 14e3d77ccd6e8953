// The documents that commands print with --json, for the HTTP interface: the same as on the command line, by the
// program `cudal1` beside this one.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/json.hpp"

namespace cudal1::serve {

// Only for commands that read. May be used from any thread.
class command_answers {
 public:
  explicit command_answers(std::string data) : data_(std::move(data)) {}

  // The words after `cudal1`, as in {"best", "softmax", "--json"}. A command that ends with exit code 2 (a name that is
  // not there, an invalid value) is an error of the kind `on_usage`; one that takes over two minutes is errc::timeout;
  // other failures are errc::infrastructure. The message is the command's.
  expected<json> document(const std::vector<std::string>& words, errc on_usage) const;
  // What it prints.
  expected<std::string> text(const std::vector<std::string>& words, errc on_usage) const;

 private:
  std::string data_;
};

}  // namespace cudal1::serve
