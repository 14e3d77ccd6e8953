// What check_proofs finds of schedules, remembered: the schedules of a task share their proofs.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"
#include "policy/graph/schedule.hpp"
#include "policy/proof_check/proof_check.hpp"

namespace cudal1 {

// Thread-safe.
class proof_checks {
 public:
  // `certificates`: those of the lowered schedule, which must be legal.
  std::vector<checked_step> of(const task& t, const schedule& s, const lowering_target& target,
                               const std::vector<std::string>& certificates);

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<checked_step>> known_;  // by task, preparation and certificates
};

}  // namespace cudal1
