// The read operations of the store, shared by the writer and the readers. Thread-safe.
#pragma once

#include <memory>

#include "store/database.hpp"
#include "store/keys.hpp"
#include "store/store.hpp"
#include "store/variant_cache.hpp"

namespace cudal1 {

class store_queries : public store {
 public:
  expected<task_record> get_task(const std::string& id) override;
  expected<std::vector<task_record>> tasks() override;
  expected<experiment_record> get_experiment(const std::string& id) override;
  expected<std::vector<experiment_record>> experiments() override;
  expected<variant_record> get_variant(const std::string& id) override;
  expected<variant_record> find_variant(const std::string& prefix) override;
  expected<std::vector<variant_record>> uses_of_variant(const std::string& id) override;
  expected<std::vector<verdict>> verdicts_of_variant(const std::string& variant) override;
  expected<std::vector<recorded_verdict>> recorded_verdicts(const std::string& task,
                                                            const std::string& variant) override;
  expected<std::vector<verdict>> verdicts_of_task(const std::string& task, const std::string& experiment,
                                                  verdict_parts parts) override;
  expected<std::vector<tally_record>> tallies(const std::string& experiment) override;
  expected<bool> has_attempt(const std::string& experiment, const std::string& task,
                             const std::string& variant) override;
  expected<std::vector<attempt_record>> unfinished_attempts(const std::string& experiment) override;
  expected<std::vector<attempt_record>> attempts(const std::string& experiment) override;
  expected<std::vector<ranked>> best(const std::string& task, std::size_t limit, ranking among,
                                     const std::string& experiment) override;
  expected<std::vector<baseline_record>> baselines_of_task(const std::string& task) override;
  expected<std::vector<judged_file>> judged_files(const std::string& task) override;
  expected<environment> get_environment(const std::string& id) override;
  expected<exemplar_sample> sample_exemplars(const exemplar_query& q) override;
  expected<std::optional<verdict>> verdict_in_class(const std::string& task, const std::string& variant,
                                                    const std::string& environment_class) override;
  expected<std::vector<verdict>> verdicts_in_experiment(const std::string& experiment, const std::string& task,
                                                        const std::string& variant) override;
  expected<std::vector<opinion_record>> opinions_of_variant(const std::string& variant) override;
  expected<std::vector<hack_case>> hack_cases(hack_class kind, std::size_t limit) override;
  expected<std::vector<hack_case>> hack_cases_of_variant(const std::string& variant) override;
  expected<std::vector<hack_case>> newest_hack_cases(uint64_t after, std::size_t limit) override;
  expected<group_record> get_group(const std::string& id) override;
  expected<std::vector<group_record>> groups_of_experiment(const std::string& experiment) override;
  expected<std::vector<group_record>> open_groups(const std::string& experiment) override;
  expected<std::vector<std::string>> variants_of_group(const std::string& id) override;
  expected<reward_record> get_rewards(const std::string& group) override;
  expected<std::vector<reward_record>> rewards_of_experiment(const std::string& experiment) override;
  expected<std::vector<event_record>> events_after(int64_t sequence, std::size_t limit) override;
  expected<policy_state> get_policy(const std::string& name) override;
  expected<bool> has_policy_state(const std::string& blob) override;
  expected<store_check> verify() override;

 protected:
  explicit store_queries(std::unique_ptr<stored_records> d) : database_(std::move(d)) {}

  // The record at `key`, or nothing. `what` names it in errors.
  template <class T>
  expected<std::optional<T>> load(const record_source& from, family f, const std::string& key, const std::string& what);
  template <class T>
  expected<T> decode(family f, std::string_view value, const std::string& what) const;
  template <class T>
  expected<std::vector<T>> load_all(const record_source& from, family f, const std::string& prefix);
  // All verdicts whose key begins with `prefix`.
  expected<std::vector<verdict>> load_verdicts(const std::string& prefix, verdict_parts parts);
  expected<verdict> load_summary(const keys::verdict_key& k);

  std::unique_ptr<stored_records> database_;

 private:
  // Reads a record of family policies.
  expected<policy_state> read_policy_state(std::string_view name, std::string_view value);
  expected<void> load_details(const std::string& key, verdict& into);
  // As load_use, with its program; a variant that was measured again from its program text (by hand, for a baseline)
  // has the schedule of its first record.
  expected<variant_record> load_with_schedule(const keys::verdict_key& k);
  expected<std::vector<stored_exemplar>> load_exemplars(const std::vector<keys::verdict_key>& which, double similarity);
  expected<std::vector<stored_exemplar>> borrow_exemplars(const exemplar_query& q, uint64_t& random);

  variant_cache variants_{512};  // with their schedules
};

// The variant as it was reserved for that task and experiment, without its program, which its first record has.
expected<variant_record> load_use(const record_source& from, const stored_records& on_disk, const keys::verdict_key& k);

// "abcdef012345": an id as people are shown it.
std::string short_id(const std::string& id);

}  // namespace cudal1
