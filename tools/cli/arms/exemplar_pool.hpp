// The measured variants that the prompts of a comparison show: the same for every arm, so that what differs between
// arms is what they are shown of them, and who reads it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "policy/prompt/prompt.hpp"
#include "tools/cli/arms/experiment_plan.hpp"

namespace cudal1::cli {

struct pool_variant {
  variant_record variant;
  verdict result;  // a summary
};
BOOST_DESCRIBE_STRUCT(pool_variant, (), (variant, result))

// Correct variants by their task's name, best first, and the environment that measured them.
struct exemplar_pool {
  std::map<std::string, std::vector<pool_variant>> tasks;
  environment where;
};
BOOST_DESCRIBE_STRUCT(exemplar_pool, (), (tasks, where))

// Of an experiment of the store, of these tasks. errc::not_found where none of them has a correct variant.
expected<exemplar_pool> pool_of(store& from, const std::string& experiment, const std::vector<task>& tasks);

// What one prompt shows of a task's variants, best first: from different buckets of scores (store/exemplars.hpp), and
// where these are too few from the others. `shuffled`: the same variants, each with the measurements of another of them
// (all rotated by one place in the order of their scores), sorted by what is then their score. The same seed draws the
// same variants. Fewer where the pool has fewer. Errors of exemplar_of.
expected<std::vector<exemplar>> draw_exemplars(const std::vector<pool_variant>& of, const plan_prompts& how,
                                               arm_prompt shown_as, uint64_t seed);

}  // namespace cudal1::cli
