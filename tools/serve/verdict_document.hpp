// A verdict as clients are told it: the score with its interval, each gate, and what to write instead.
#pragma once

#include <string>

#include "config/base/json.hpp"
#include "sandbox/evaluation_records.hpp"
#include "tools/kernelbench/submission_verdict.hpp"

namespace cudal1::serve {

// The name of the first gate that failed; "" if none did.
std::string failed_gate(const verdict& v);
// What to change, in a sentence or two; "" of a correct variant that is faster than its reference.
std::string hint_of(const verdict& v);

// `experiment`, `device`: where it was evaluated; "" for a variant that was never compiled.
json verdict_document(const verdict& v, const std::string& experiment, const std::string& device);
// The same of a Python file; `task_id`: of the task whose Model it was compared with. Its speedup is over eager mode.
json verdict_document(const kernelbench::submission_verdict& v, const std::string& task_id, const std::string& device);

}  // namespace cudal1::serve
