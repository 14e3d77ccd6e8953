#include "tools/cli/commands/followed_run.hpp"

#include <chrono>

#include <fmt/format.h>

namespace cudal1::cli {

expected<std::string> followed_run::follow(node_client& client) {
  for (;;) {
    auto answer = client.receive(std::chrono::seconds(10), interrupt_.fd());
    if (!answer) {
      if (answer.error().code == errc::cancelled) {
        if (then_ == interruption::leaves) {
          interrupted_ = true;
          return experiment_;
        }
        CUDAL1_CHECK(stop(client));
        continue;
      }
      if (answer.error().code == errc::timeout) {
        view_.remark(then_ == interruption::stops
                         ? "the node has not replied for a while; Ctrl-C stops the search, twice exits at once"
                         : "the node has not replied for a while");
        continue;
      }
      return lost(std::move(answer).error());
    }
    if (auto problem = error_of(*answer)) return tl::unexpected<error>(std::move(*problem));
    if (!interrupted_) view_.forget_remark();
    if (answer->progress) {
      experiment_ = answer->progress->experiment;
      last_problem_ = answer->progress->problem;
      view_.update(*answer->progress, answer->others);
    }
    if (answer->last) return experiment_;
    if (interrupted_ && !stop_sent_ && !experiment_.empty()) CUDAL1_CHECK(stop(client));
  }
}

expected<void> followed_run::stop(node_client& client) {
  interrupted_ = true;
  interrupt_.acknowledge();
  view_.remark("stopping: what is on a device is finished and kept (Ctrl-C again exits at once)");
  if (experiment_.empty()) return {};  // its id is not known yet: sent after its first progress
  stop_sent_ = true;
  client_request r;
  r.verb = client_verb::stop;
  r.experiment = experiment_;
  return client.send(r);  // the only request that is allowed while an experiment is followed
}

tl::unexpected<error> followed_run::lost(error e) const {
  if (!experiment_.empty())
    e.message += fmt::format("; finished evaluations are kept, and `cudal1 run --resume {}` continues", experiment_);
  return tl::unexpected<error>(std::move(e));
}

}  // namespace cudal1::cli
