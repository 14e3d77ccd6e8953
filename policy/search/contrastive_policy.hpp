// The contrastive policy: a small language model that is shown measured schedules of a task, writes which of them is
// the fastest, what to keep of it and what to change, and then the next schedule. It learns from each group by GRPO.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "policy/contrastive/contrastive_training.hpp"
#include "policy/search/evolutionary_policy.hpp"
#include "policy/search/immediate_policy.hpp"
#include "policy/search/policy_registry.hpp"

namespace cudal1 {

// For tasks with a closed space (schedule_space.hpp): of at most 32 steps, such as parts. Larger tasks are searched by
// the policy evolutionary, after what was assembled from their parts.
class contrastive_policy final : public immediate_policy {
 public:
  // Its model is that of search.model, or else the built-in one; "random": one with random weights. Errors of
  // candidate_writer::load.
  static expected<std::unique_ptr<policy>> make(const policy_setup& setup);

  std::string name() const override { return "contrastive"; }
  policy_traits traits() const override;
  int64_t version() const override;
  // errc::not_found when every candidate was proposed.
  expected<proposal> propose_one(const prompt& p) override;
  // Learns when enough answers have gathered.
  expected<bool> learn(const std::vector<experience>& group) override;
  std::string save() const override;
  expected<void> load(const std::string& blob, int64_t version) override;

 private:
  // A task's candidates with their words; made once.
  struct known_space {
    std::mutex used;
    std::unique_ptr<candidate_set> candidates;
    std::unique_ptr<answer_words> words;
    candidate_estimates estimates;
    token_sequence problem;
    bool is_complete = true;
    // The first whole schedule; candidates.size() where the space lacks it.
    std::size_t whole = 0;
  };

  contrastive_policy(const policy_setup& setup, candidate_writer writer, const training_options& how);
  expected<std::shared_ptr<known_space>> space_of_task(const prompt& p);
  std::vector<measured_candidate> measured_in(const prompt& p, const candidate_set& candidates) const;

  mutable std::shared_mutex mutex_;  // shared to propose, exclusive to load; to learn takes a policy of its own
  uint64_t seed_;
  int64_t best_;          // exemplars that a prompt is chosen from
  training_options how_;  // as the model was trained
  int64_t version_ = 0;
  candidate_writer writer_;
  std::unique_ptr<language_model> reference_;  // none before the first group
  std::vector<graded_sequence> gathered_;
  evolutionary_policy of_large_tasks_;
  std::mutex spaces_mutex_;
  std::map<std::pair<std::string, const lowering_target*>, std::shared_ptr<known_space>> spaces_;  // by the task's id
};

}  // namespace cudal1
