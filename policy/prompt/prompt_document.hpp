// The contrastive prompt as data: the paper's four parts (CUDA-L1, arXiv 2507.14111): the task; earlier variants with
// their scores and what is known about why; the form of the answer; requirements and prohibitions. prompt_text renders
// it for a language model.
//
// A pure function of what it is made from: no dates, paths or ids of processes, so that a hash of its text may be the
// key of a cache.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/configuration.hpp"
#include "policy/prompt/device_guide.hpp"
#include "policy/prompt/example_library.hpp"
#include "policy/prompt/performance_analysis.hpp"
#include "policy/prompt/shown_variant.hpp"
#include "policy/prompt/task_bounds.hpp"
#include "store/counter_profile.hpp"

namespace cudal1 {

// What the answer is written as.
//   program:   a whole program of the format
//   schedule:  moves
//   tile:      kernels that call the tile vocabulary (sandbox/program/dialect), of which a program is put together
BOOST_DEFINE_ENUM_CLASS(answer_form, program, schedule, tile)

// What a document is made from, besides the prompt itself.
struct document_sources {
  answer_form form = answer_form::program;
  std::optional<std::string> source;                // the task's PyTorch source, where it was imported (source_of)
  std::optional<device_data> device;                // the specifications of the device's model, where they are known
  std::shared_ptr<const example_library> library;   // of the task's profile; none: no examples
  verification_options verification;                // the gates that the answer will meet
  std::map<std::string, counter_profile> counters;  // of correct exemplars that were profiled, by id
};

// The Python source that a task was imported from: the blob in `blobs_folder`. None if it was not imported, or if the
// folder lacks the blob, which no evaluation needs; errc::corrupt if the blob is damaged.
expected<std::optional<std::string>> source_of(const task& t, const std::string& blobs_folder);
// The sources of a prompt's document. Reads files: keep it for a task, and share the library between tasks.
expected<document_sources> gather_sources(const prompt& p, answer_form form, const std::string& blobs_folder,
                                          std::shared_ptr<const example_library> library);
// What was kept in a profile_folder() of the correct exemplars, each where its verdict was measured, by id. Errors of
// kept_counters.
expected<std::map<std::string, counter_profile>> counters_of(const prompt& p, const std::string& folder);

struct shown_tensor {
  std::string role;  // "input", "weight", "output"
  std::string name, type;
  std::string values;  // how it is drawn, and facts; "" of an output
};
BOOST_DESCRIBE_STRUCT(shown_tensor, (), (role, name, type, values))

struct prompt_task {
  std::string name, summary, family;
  std::string part;       // the path of the module that is the task, of a larger model; "": the whole
  std::string source;     // PyTorch; "" if there is none
  std::string reference;  // the task's program, its head formatted for reading
  std::string declared_inputs, declared_weights;  // as a program must have them, JSON
  std::vector<std::string> steps;                 // one line each, numbered from 0 as moves refer to them
  std::vector<shown_tensor> tensors;
  std::vector<std::string> draws;       // kinds of distributions that every variant is checked on
  std::vector<std::string> operators;   // schemas of its operators
  bool half = false, integers = false;  // there are outputs of these types
  std::string precision;                // strict or half, where variants are held to that; else ""
  double half_error = 0;                // that half accepts (half_precision.hpp)
};
BOOST_DESCRIBE_STRUCT(prompt_task, (),
                      (name, summary, family, part, source, reference, declared_inputs, declared_weights, steps,
                       tensors, draws, operators, half, integers, precision, half_error))

struct device_part {
  std::string target, model;
  std::vector<std::string> details;  // "2 cores", "last-level cache 33792 KiB", versions of libraries
  std::optional<device_data> specifications;
};
BOOST_DESCRIBE_STRUCT(device_part, (), (target, model, details, specifications))

struct library_example {
  std::string name, task, family, program;
};
BOOST_DESCRIBE_STRUCT(library_example, (), (name, task, family, program))

// A Python file by others: no program of the format, and its speedup is over another base.
struct shown_file {
  std::string name, language, source;
  double speedup = 0;  // over eager mode, in calls from Python
  interval speedup_interval;
};
BOOST_DESCRIBE_STRUCT(shown_file, (), (name, language, source, speedup, speedup_interval))

// A kind of move, in the order in which a schedule should have them.
struct legal_move {
  std::string name, summary;
  std::vector<std::string> parameters;
  std::vector<std::string> examples;  // legal here, after the moves of `first_moves`
};
BOOST_DESCRIBE_STRUCT(legal_move, (), (name, summary, parameters, examples))

struct prompt_document {
  answer_form form = answer_form::program;
  // The task.
  prompt_task what;
  device_part where;
  task_bounds bounds;
  // Earlier variants.
  std::vector<shown_variant> exemplars;  // best first
  std::vector<shown_variant> failed;     // newest first
  std::vector<shown_variant> repair;     // oldest first; the last one is to be repaired
  std::vector<shown_file> files;         // by others, best first; of the form `program` only
  performance_analysis analysis;
  // The form of the answer.
  std::vector<library_example> examples;  // the most alike first, at most two
  std::vector<std::string> products;      // schemas of the operators that are worth calling: products and the like
  std::vector<std::string> operators;     // names of all others, by kind: "reduction: amax amin ..."
  std::vector<std::string> frames;        // of the form `tile` only: kernels of which the body is to be written
  std::vector<legal_move> moves;          // of the form `schedule` only
  std::string first_moves;                // a legal schedule: the proofs, and the largest kernels
  // Requirements and prohibitions: those of the device's guide (device_guide.hpp) and of the gates.
};
BOOST_DESCRIBE_STRUCT(prompt_document, (),
                      (form, what, where, bounds, exemplars, failed, repair, files, analysis, examples, products,
                       operators, frames, moves, first_moves))

// errc::unsupported for a target without a guide. The prompt's task, target and environment must be set.
expected<prompt_document> build_document(const prompt& p, const document_sources& from);

}  // namespace cudal1
