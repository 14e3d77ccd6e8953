// The read operations of the store, shared by the writer and the readers. Thread-safe.
#pragma once

#include <memory>

#include "store/database.hpp"
#include "store/keys.hpp"
#include "store/store.hpp"

namespace cudal1 {

class store_queries : public store {
 public:
  expected<task_record> get_task(const std::string& id) override;
  expected<std::vector<task_record>> tasks() override;
  expected<experiment_record> get_experiment(const std::string& id) override;
  expected<std::vector<experiment_record>> experiments() override;
  expected<variant_record> get_variant(const std::string& id) override;
  expected<variant_record> find_variant(const std::string& prefix) override;
  expected<std::vector<verdict>> verdicts_of_variant(const std::string& variant) override;
  expected<std::vector<verdict>> verdicts_of_task(const std::string& task, const std::string& experiment) override;
  bool has_verdict(const std::string& variant, const std::string& experiment) override;
  expected<std::vector<attempt_record>> attempts(const std::string& experiment) override;
  expected<std::vector<ranked>> best(const std::string& task, std::size_t limit, bool confirmed_only,
                                     const std::string& experiment) override;
  expected<std::vector<baseline_record>> baselines_of_task(const std::string& task) override;
  expected<environment> get_environment(const std::string& id) override;
  expected<std::vector<event_record>> events_after(int64_t sequence, std::size_t limit) override;
  expected<policy_state> get_policy(const std::string& name) override;

 protected:
  explicit store_queries(std::unique_ptr<database> d) : database_(std::move(d)) {}

  // The record at `key`, or nothing. `what` names it in errors.
  template <class T>
  expected<std::optional<T>> load(const record_source& from, family f, const std::string& key, const std::string& what);
  template <class T>
  expected<T> decode(family f, std::string_view value, const std::string& what) const;
  template <class T>
  expected<std::vector<T>> load_all(const record_source& from, family f, const std::string& prefix);
  static expected<bool> any(const record_source& from, family f, const std::string& prefix);
  expected<verdict> load_verdict(const keys::verdict_key& k);
  // The variant as it was reserved for that task and experiment.
  expected<variant_record> load_use(const keys::verdict_key& k);

  std::unique_ptr<database> database_;
};

// The value of an entry of the score index: enough to choose a best without reading the verdicts.
struct score_entry {
  outcome result = outcome::correct;
  bool confirmed = false;
  int64_t time_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(score_entry, (), (result, confirmed, time_unix_ms))

// "abcdef012345": an id as people are shown it.
std::string short_id(const std::string& id);

}  // namespace cudal1
