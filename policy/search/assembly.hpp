// Schedules of a whole task, put together from the best schedules of its parts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "policy/prompt/prompt.hpp"
#include "policy/search/task_parts.hpp"

namespace cudal1 {

// Warm times where both were measured, as of parts, else device times, else call times, in microseconds: what parts and
// wholes are compared by.
struct compared_times {
  double variant_us = 0, reference_us = 0;
  bool on_device = false;
};
compared_times compared_times_of(const measured_score& m);

// What is stored with an assembled variant, in its trace.
struct assembled_trace {
  std::string origin, partition;
  double predicted_us = 0, own_us = 0;
  int64_t parts = 0, measured_parts = 0, moves_left_out = 0;
};
BOOST_DESCRIBE_STRUCT(assembled_trace, (),
                      (origin, partition, predicted_us, own_us, parts, measured_parts, moves_left_out))
json trace_of(const assembled_schedule& s);
// Nothing where the trace is of another variant.
std::optional<assembled_trace> assembled_trace_of(const json& trace);

// What is known of a part: its best schedule, and the times of that and of its own program, in microseconds (device
// time where that is measured).
struct known_part {
  schedule plan;
  double variant_us = 0, reference_us = 0;
  std::string variant = {};  // id
  // Its own program is chosen where that is faster.
  bool is_improved() const { return variant_us < reference_us; }
  double best_us() const { return is_improved() ? variant_us : reference_us; }
};

// The variant of a part that is to be used in a class of environments (environment_class), of those that a schedule
// made, or its own program: the one with the least device time, or where that is not measured the best confirmed one,
// or the best. Nothing if there is none.
expected<std::optional<store::ranked>> best_variant_of_part(store& records, const task& part,
                                                            const std::string& environment_class);

// By the id of a part's task. A part that was never measured is missing.
using known_parts = std::map<std::string, known_part>;
// From best_variant_of_part.
expected<known_parts> known_parts_of(store& records, const task_partitions& parts,
                                     const std::string& environment_class);

// The whole schedules, without those of equal programs: first the one with the least sum of times, where each stretch
// of the task that the partitions cut differently is cut in the cheapest way; then one for each partition. Parts that
// are not known have the first of their own whole schedules. Empty where no part is known. Results in place and the
// CUDA graph are chosen for the whole.
std::vector<assembled_schedule> assemble(const task& t, const lowering_target& target, const task_partitions& parts,
                                         const known_parts& known);

// The moves of preparation that put the channels last for the convolutions which are known to be faster so; empty where
// these are all or none. `own`, `last`: partitions_by_layout.
std::vector<move> mixed_preparation(const task& t, const lowering_target& target, const task_partitions& own,
                                    const task_partitions& last, const known_parts& known);

// The assembled schedules of one task, from what was known when it was made: of each of partitions_by_layout, and where
// some convolutions are known to be faster with the channels last and others are not, of the layout with those that
// are. Not thread-safe.
class task_assembly {
 public:
  // `records` is read in the class of environments. The task must outlive the assembly.
  static expected<task_assembly> make(const task& t, const lowering_target& target, store& records,
                                      std::string environment_class);
  const std::vector<assembled_schedule>& schedules() const { return schedules_; }
  // If the cheapest schedule gave a wrong answer in the experiment, adds one with the own program of the least accurate
  // part in place of its kernels; if that was wrong too, of the two least accurate ones, and so on.
  expected<void> follow_wrong_answers(store& records, const std::string& experiment);

 private:
  task_assembly(const task& t, const lowering_target& target) : task_(&t), target_(&target) {}
  expected<void> read_parts(store& records, const task_partitions& layout);
  std::optional<task_partitions> mixed_layout() const;
  void assemble_layouts();
  expected<std::vector<std::string>> by_accuracy(store& records) const;

  const task* task_;
  const lowering_target* target_;
  std::string class_;
  std::vector<task_partitions> layouts_;
  std::size_t chosen_ = 0;  // the layout of the first schedule
  known_parts known_;       // of all layouts
  std::vector<assembled_schedule> schedules_;
  std::size_t latest_ = 0;                        // the cheapest, or what followed it
  std::optional<std::vector<std::string>> left_;  // improved parts that may be replaced, the least accurate one last
  known_parts more_accurate_;                     // with the replaced ones
};

}  // namespace cudal1
