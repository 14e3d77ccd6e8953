// What several nodes of one machine may not use at the same time: a GPU, a core for timed calls. A claim belongs to
// this process and ends with it, however it ends. Nodes in containers that do not share the folder do not see each
// other's claims.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// Thread-safe.
class machine_claims {
 public:
  // The claims of all users of this machine are there.
  static constexpr const char* default_folder = "/tmp/cudal1-claims";

  // Creates the folder, for all users, if it does not exist. errc::io_error.
  static expected<machine_claims> open(std::string folder = default_folder);

  // Takes `name` (letters, digits, "-" and "."), which may be this process' already. errc::already_exists with the
  // process that has it; errc::io_error.
  expected<void> take(const std::string& name);
  void give_back(const std::string& name);
  // A file of the folder, for locks of other kinds; not one of a claim, which would be given back when it is closed.
  expected<unique_fd> open_file(const std::string& name) const;

 private:
  explicit machine_claims(std::string folder) : folder_(std::move(folder)), mutex_(std::make_unique<std::mutex>()) {}

  std::string folder_;
  std::unique_ptr<std::mutex> mutex_;
  std::map<std::string, unique_fd> held_;
};

// The claims of this process, in the default folder: a process has one, since closing a file gives its claim back.
expected<machine_claims*> claims_of_this_process();

}  // namespace cudal1
