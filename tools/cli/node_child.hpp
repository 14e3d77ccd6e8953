// A cudal1-node that this process has started, in a session of its own.
#pragma once

#include <ios>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "config/base/error.hpp"

namespace cudal1::cli {

class node_child {
 public:
  // `words`: its flags, beside --data. Its output goes to DATA/node.log. errc::infrastructure.
  static expected<node_child> spawn(const std::string& data, const std::vector<std::string>& words);

  // Its wait status; nullopt while it runs.
  std::optional<int> ended();
  // The last lines that it has logged, each after a line break.
  std::string log_tail() const;
  const std::string& log() const { return log_; }

 private:
  pid_t pid_ = -1;
  std::string log_;
  std::streamoff log_start_ = 0;
};

}  // namespace cudal1::cli
