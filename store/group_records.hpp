// Writing the records of groups into a batch.
#pragma once

#include <string>

#include "store/group_record.hpp"
#include "store/keys.hpp"
#include "store/write_batch.hpp"

namespace cudal1 {

// The key of a group's id; errc::not_found if it is not the id of a group.
expected<keys::group_key> group_key_of(const std::string& id);
// errc::not_found.
expected<group_record> read_group(const record_source& from, const stored_records& on_disk, const std::string& id);

// As store::put_group.
expected<group_record> add_group(write_batch& batch, group_record g);
// As store::close_group.
expected<void> close_group(write_batch& batch, const std::string& id, const answer_cost& cost);
// Adds a variant of `experiment` to its group; nothing if it is of none, or of a group of another experiment.
expected<void> add_to_group(write_batch& batch, const variant_record& v, const std::string& experiment);
// As store::put_rewards.
expected<void> add_rewards(write_batch& batch, const reward_record& r);

}  // namespace cudal1
