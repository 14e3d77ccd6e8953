// Describes a fault as the outcome of an evaluation, with a sentence for users. Pure.
#pragma once

#include <string>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/isolation/control_block.hpp"
#include "sandbox/program/program.hpp"

namespace cudal1 {

// `record` and `words` (its standard error) are copies of data that an untrusted process wrote: every index and text is
// checked here.
fault describe_fault(const fault_record& record, const std::string& words, const program& p);
// Describes how a runner ended that left no record: by a signal that it could not handle, or by exit().
fault describe_exit(int signal, int code);

}  // namespace cudal1
