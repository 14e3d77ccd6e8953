// Makes prompts from the store: exemplars, failed variants, and prompts that were stored with their groups. Plain
// logic, no actor. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/messages.hpp"
#include "policy/prompt/task_bounds.hpp"
#include "policy/search/assembly.hpp"
#include "policy/search/policy.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

class prompt_source {
 public:
  // `records` may be read from any thread. `where`: the environment of the devices that measure. `replayed`: the
  // experiment whose prompts are given again, in their order, in place of new ones; "" for none.
  enum class parts {
    unused,
    assembled  // prompts have the schedules that are put together from what is known of a task's parts
  };
  // `tensor_bytes`: device_report::tensor_bytes.
  prompt_source(std::shared_ptr<store> records, blobs files, environment where, std::string replayed, parts known_parts,
                int64_t tensor_bytes = 0)
      : records_(std::move(records)),
        files_(std::move(files)),
        where_(std::move(where)),
        replayed_(std::move(replayed)),
        uses_parts_(known_parts == parts::assembled),
        tensor_bytes_(tensor_bytes) {}

  struct made {
    prompt what;
    group_record group;    // without an id unless it is stored already
    std::string analysis;  // of the exemplars, for policies that write none; "" if there is nothing to compare
  };
  // errc::not_found if a replayed experiment has no further prompt; errors of the store and of the policy's document.
  expected<made> make(const message::propose& m, policy& writer);

 private:
  expected<void> add_assembled(prompt& p, const std::string& experiment);
  expected<void> add_exemplars(prompt& p, const message::propose& m, const exemplar_wish& wish) const;
  // From what is measured: what the fast exemplars have that the others lack.
  std::string analysis_of(const prompt& p);
  expected<void> add_repair(prompt& p, const message::propose& m) const;
  expected<void> add_shown(prompt& p, const group_record& group) const;
  expected<made> stored(prompt p, group_record group) const;
  expected<group_record> next_replayed(const message::propose& m);

  // A repair prompt shows at most so many failed variants.
  static constexpr std::size_t most_repairs = 8;

  std::shared_ptr<store> records_;
  blobs files_;
  environment where_;
  std::string replayed_;
  bool uses_parts_;
  int64_t tensor_bytes_;
  struct assembled_task {
    std::shared_ptr<const task> what;
    task_assembly assembly;
  };
  std::map<std::string, assembled_task> assembled_;                                  // by task
  std::optional<std::map<std::string, std::vector<group_record>>> replayed_groups_;  // by task
  std::map<std::string, task_bounds> bounds_;                                        // by task
};

}  // namespace cudal1
