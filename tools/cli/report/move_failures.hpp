// Verdicts that only a bug of cudal1 explains. A program that moves made of a correct task should compile and run, and
// compute the same result unless a move changed the precision of a product; so each other failure of such a program
// is a bug in a move, in lowering or in the sandbox.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "store/store.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// Why a variant that moves wrote is not correct. limit: it exceeded one, or the task or the machine is at fault: a
// legal schedule may be slow or large. precision: it is off, and a move changed the precision of a product, or the
// kernels with which a library convolves. conditioning: it is off, and the task is ill-conditioned, so that any order
// of sums may be.
BOOST_DEFINE_ENUM_CLASS(failure_cause, bug, limit, precision, conditioning)

struct move_failure {
  std::string variant, task, name;  // ids; the task's name
  std::string experiment;           // that the variant was first written in
  std::string device;               // "" if nothing was measured
  failure_cause cause = failure_cause::bug;
  std::string outcome, gate;  // gate: the first that failed, "" if no gate did
  std::string reason;
  std::string schedule;
  // The schedule's moves that no correct variant of the same task and device has, in their order; empty where each of
  // its moves is in one of those.
  std::vector<std::string> only_here;
  int64_t time_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(move_failure, (),
                      (variant, task, name, experiment, device, cause, outcome, gate, reason, schedule, only_here,
                       time_unix_ms))

struct shown_failure {
  verdict whole;  // with its gates
  variant_record variant;
  failure_cause cause = failure_cause::bug;
};
enum class shown_causes { bugs, all };
// The failure that a verdict on a variant of the task shows, if moves wrote the variant and the failure's cause is
// among `causes`; `summary` needs no gates. Errors: of the store.
expected<std::optional<shown_failure>> failure_shown_by(store& s, const verdict& summary, const task_record& task,
                                                        shown_causes causes);

// The failures of a task's variants, in the order of its verdicts. `experiment`: "" for all.
expected<std::vector<move_failure>> move_failures(store& s, const task_record& task, const std::string& experiment,
                                                  shown_causes causes);

// One paragraph for each of the first `most`, then how many more there are.
std::string print_move_failures(const std::vector<move_failure>& failures, std::size_t most, const terminal& t);

}  // namespace cudal1::cli
