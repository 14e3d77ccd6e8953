// A data folder read whole: every record of its store, every blob, and the blobs that records name.
#pragma once

#include <string>
#include <vector>

#include "store/store.hpp"

namespace cudal1::cli {

// Names of the blobs in a folder, sorted; what is being written has other names.
expected<std::vector<std::string>> blobs_in(const std::string& folder);

// A learner that goes on replaces the states of policies, and removes the files of the old ones. A copy that is taken
// meanwhile may name a state that is gone.
enum class policy_states { required, may_be_replaced };
expected<store_check> checked_data(const std::string& data, policy_states states = policy_states::required);

}  // namespace cudal1::cli
