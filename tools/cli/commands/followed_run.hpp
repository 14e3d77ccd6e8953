// A search that is followed from the command line.
#pragma once

#include <string>

#include "actors/clients/client.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/progress.hpp"

namespace cudal1::cli {

// Receives the progress of a running search, handles Ctrl-C and updates the view.
class followed_run {
 public:
  // What Ctrl-C does: it stops the search (of `run`), or ends the following of one that goes on.
  enum class interruption { stops, leaves };
  followed_run(interrupt_watch& interrupt, run_view& view, interruption then = interruption::stops)
      : interrupt_(interrupt), view_(view), then_(then) {}

  // Returns the experiment's id once the search has ended, or has been left.
  expected<std::string> follow(node_client& client);

  bool interrupted() const { return interrupted_; }
  // Why it did not get on at the end; "" if it did.
  const std::string& last_problem() const { return last_problem_; }

 private:
  expected<void> stop(node_client& client);
  tl::unexpected<error> lost(error e) const;

  interrupt_watch& interrupt_;
  run_view& view_;
  interruption then_;
  std::string experiment_, last_problem_;
  bool interrupted_ = false, stop_sent_ = false;
};

}  // namespace cudal1::cli
