// Every schedule of a task's closed space, once and in its order: for small tasks, such as parts, of which all
// candidates are to be measured.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "policy/search/known_variants.hpp"

namespace cudal1 {

class exhaustive_policy final : public search_policy {
 public:
  using search_policy::search_policy;
  std::string name() const override { return "exhaustive"; }
  policy_traits traits() const override { return {}; }  // no exemplars: they would change nothing
  // errc::not_found when all of the space was proposed, and for tasks of more than 32 steps.
  expected<proposal> propose_one(const prompt& p) override;

 private:
  struct walk {
    std::mutex used;
    bool is_enumerated = false;
    std::vector<std::pair<schedule, std::string>> left;  // with the programs' ids, the next one last
    std::size_t size = 0;
    bool is_complete = true;
  };
  std::mutex mutex_;
  std::map<std::pair<std::string, const lowering_target*>, std::shared_ptr<walk>> walks_;  // by the task's id
};

}  // namespace cudal1
