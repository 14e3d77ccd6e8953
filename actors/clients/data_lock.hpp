// One node per data folder: DATA/node.lock is locked while its node lives, and contains the node's process id.
#pragma once

#include <string>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// The folder's name stands in JSON, which is UTF-8. errc::invalid_argument.
expected<void> check_data_name(const std::string& folder);

class data_lock {
 public:
  // Creates the folder (mode 0700) if there is none. errc::already_exists if another node has the lock.
  static expected<data_lock> take(const std::string& folder);

 private:
  explicit data_lock(unique_fd fd) : fd_(std::move(fd)) {}
  unique_fd fd_;  // the kernel releases the lock with it, however the process ends
};

}  // namespace cudal1
