// A read-only store, for the command line beside a running node or on another machine.
#include "store/reader.hpp"

#include <mutex>

#include "store/pruner.hpp"
#include "store/queries.hpp"

namespace cudal1 {

namespace {

class store_reader final : public store_queries {
 public:
  // `disk`: the records, if they are on this machine.
  store_reader(std::unique_ptr<stored_records> d, database* disk) : store_queries(std::move(d)), disk_(disk) {}

  expected<void> refresh() override {
    const std::lock_guard one_at_a_time(catching_up_);
    return database_->catch_up();
  }

  expected<void> put_task(const task_record&) override { return refused(); }
  expected<experiment_record> create_experiment(experiment_record) override { return refused(); }
  expected<void> update_experiment(const experiment_record&) override { return refused(); }
  expected<attempt_record> reserve(const variant_record&, const std::string&) override { return refused(); }
  expected<attempt_record> reserve_again(const variant_record&, const std::string&) override { return refused(); }
  expected<void> lose(const attempt_record&, const std::string&, loss) override { return refused(); }
  expected<void> commit(const attempt_record&, const verdict&, const environment&) override { return refused(); }
  expected<void> reset_islands(const std::string&, const std::string&, uint64_t) override { return refused(); }
  expected<void> put_baseline(const baseline_record&, const environment&) override { return refused(); }
  expected<void> put_opinion(const opinion_record&) override { return refused(); }
  expected<void> put_judged_file(judged_file) override { return refused(); }
  expected<hack_case> put_hack_case(hack_case) override { return refused(); }
  expected<group_record> put_group(group_record) override { return refused(); }
  expected<void> close_group(const std::string&, const answer_cost&) override { return refused(); }
  expected<void> put_rewards(const reward_record&) override { return refused(); }
  expected<event_record> add_event(event_record) override { return refused(); }
  expected<void> put_policy(const std::string&, const policy_state&) override { return refused(); }
  expected<void> write_together(const std::function<void()>&) override { return refused(); }
  expected<void> make_together(const std::function<void()>&) override { return refused(); }
  expected<void> make_of_tasks(const std::vector<task_change>&) override { return refused(); }
  void start_write(std::function<void()> done) override { done(); }
  expected<void> end_write() override { return refused(); }
  expected<void> recover() override { return refused(); }
  expected<void> checkpoint(const std::string&) override { return refused(); }
  expected<void> compact() override { return refused(); }
  expected<prune_report> prune(const prune_rule& rule, const std::string& from) override {
    if (!rule.dry_run) return refused();
    if (disk_ == nullptr)
      return fail(errc::unsupported, "the store {} is pruned on the coordinator's machine", database_->folder());
    return prune_step(*disk_, rule, from);
  }
  store_statistics statistics() const override { return {}; }

 private:
  tl::unexpected<error> refused() const {
    return fail(errc::invalid_argument, "the store {} is open for reading only", database_->folder());
  }

  std::mutex catching_up_;
  database* disk_;
};

}  // namespace

expected<std::unique_ptr<store>> store::open_reader(const std::string& folder) {
  CUDAL1_TRY(auto d, database::open_reader(folder));
  database* const disk = d.get();
  return std::make_unique<store_reader>(std::move(d), disk);
}

std::unique_ptr<store> make_reader(std::unique_ptr<stored_records> records) {
  return std::make_unique<store_reader>(std::move(records), nullptr);
}

}  // namespace cudal1
