// The index of verdicts that another experiment may reuse: by task, class of environments and variant, the newest
// conclusive one.
#pragma once

#include <optional>
#include <string>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"
#include "store/keys.hpp"
#include "store/write_batch.hpp"

namespace cudal1 {

// Whether another evaluation in the same class of environments would tell the same: a verdict about the variant that
// was measured here. Not one that says that nothing was found out (quarantined, unmeasurable, unexplained), and none
// that was itself reused.
bool is_conclusive(const verdict& v);

// Where the verdict is.
struct conclusion_record {
  std::string experiment;
  int attempt = 1;
  int64_t time_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(conclusion_record, (), (experiment, attempt, time_unix_ms))

// Adds a verdict to the index, in the batch, unless it is not conclusive or older than the one that is there.
expected<void> index_conclusion(write_batch& batch, const keys::verdict_key& key, const verdict& v,
                                const std::string& environment_class);
expected<std::optional<conclusion_record>> read_conclusion(const record_source& from, const stored_records& on_disk,
                                                           const std::string& task,
                                                           const std::string& environment_class,
                                                           const std::string& variant);

}  // namespace cudal1
