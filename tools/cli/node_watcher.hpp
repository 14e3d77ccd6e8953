// A node and its running experiments, looked at again and again: for views that are redrawn.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "actors/clients/client.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/top_view.hpp"

namespace cudal1::cli {

// Follows each running experiment over a connection of its own, which it keeps. One thread at a time.
class node_watcher {
 public:
  // The context must outlive it.
  explicit node_watcher(const context& c) : context_(c) {}

  // Takes milliseconds. What could not be found out is in the state's `problem`.
  top_state look();

 private:
  struct followed {
    node_client client;
    top_experiment shown;
    bool ended = false;
  };
  expected<void> follow(const std::string& id);
  static void read(followed& one);
  expected<void> count_in_flight(followed& one, const std::string& id);
  expected<void> read_store();

  const context& context_;
  std::unique_ptr<store> store_;
  std::map<std::string, followed> followed_;
};

}  // namespace cudal1::cli
