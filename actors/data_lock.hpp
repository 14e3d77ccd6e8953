// One node a data folder: DATA/node.lock, locked while its node lives, with the node's process id for whoever asks.
#pragma once

#include <string>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

class data_lock {
 public:
  // Makes the folder (mode 0700) where there is none. errc::already_exists where another node has it.
  static expected<data_lock> take(const std::string& folder);

 private:
  explicit data_lock(unique_fd fd) : fd_(std::move(fd)) {}
  unique_fd fd_;  // the lock ends with it, however the process ends
};

}  // namespace cudal1
