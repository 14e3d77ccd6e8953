// The stored verdicts that a replay device answers with: those of one class of environments in a data folder.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "store/store.hpp"

namespace cudal1 {

class replay_source {
 public:
  // The folder that the options name, or `data` if they name none; `data` itself may be open for writing in this
  // process. Verdicts that are stored later are not seen, so that draws can be repeated. errc::invalid_argument: there
  // is no store, or no measured verdict of the environment that the options ask for.
  static expected<std::shared_ptr<replay_source>> open(const replaying_options& options, const std::string& data);

  // The kind of device whose verdicts they are: "cpu", "cuda".
  const std::string& kind() const { return kind_; }
  // One of the environments of that class.
  const environment& recorded() const { return recorded_; }
  // The environment of a device that replays it.
  environment replayed_on(const std::string& device) const;
  // "the verdicts of Intel Xeon (cpu) in /srv/search", for messages.
  std::string describe() const;
  const replaying_options& options() const { return options_; }

  // A stored verdict of a variant of a task (""  is any), with times drawn anew: a function of the seed, the variant
  // and the stored verdicts. Of several verdicts one is drawn. Its stages are those of the device and `compile`, times
  // the latency. errc::not_found if there is none, and, where replay.substitutes is set, none of its task. Thread-safe.
  expected<verdict> draw(const std::string& task, const std::string& variant);

 private:
  replay_source(replaying_options options, std::string folder, std::unique_ptr<store> records)
      : options_(std::move(options)), folder_(std::move(folder)), records_(std::move(records)) {}

  // Finds the environment that is replayed.
  expected<void> choose_environment();
  // The environment of the newest measured verdict of an experiment; nothing if it has none.
  expected<std::optional<environment>> environment_of(const experiment_record& e);
  bool is_wanted(const environment& e) const;
  expected<bool> is_of_class(const std::string& environment_id);
  using recorded_verdicts = std::shared_ptr<const std::vector<store::recorded_verdict>>;
  expected<recorded_verdicts> candidates(const std::string& task, const std::string& variant);
  expected<std::vector<store::recorded_verdict>> load_candidates(const std::string& task, const std::string& variant);
  // A variant of the task that has a verdict of the class, drawn by `wanted`; "" if none has.
  expected<std::string> substitute_for(const std::string& task, const std::string& wanted);

  replaying_options options_;
  std::string folder_;
  std::unique_ptr<store> records_;
  environment recorded_;
  std::string kind_, class_;
  double usual_bias_ = 0;
  std::mutex mutex_;                                       // guards those below
  std::map<std::string, bool> is_of_class_;                // by the id of an environment
  std::map<std::string, std::vector<std::string>> known_;  // variants with verdicts of the class, by task
  std::map<std::pair<std::string, std::string>, recorded_verdicts> read_;  // those drawn from lately, by task, variant
};

}  // namespace cudal1
