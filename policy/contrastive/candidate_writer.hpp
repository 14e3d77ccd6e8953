// The contrastive language model: writes candidates for small tasks, each after an analysis of the exemplars it is
// shown, and learns from what became of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/json.hpp"
#include "policy/contrastive/answer_grammar.hpp"
#include "policy/contrastive/problem_text.hpp"
#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// A measured candidate as a prompt shows it.
struct measured_candidate {
  std::size_t candidate = 0;
  double score = 0;                                // 0: it failed
  double variant_us = 0;                           // device time, or call time where that was not measured
  int64_t registers = 0, blocks = 0, threads = 0;  // of its largest launch; 0: unknown, or no kernel of ours
};

// What one prompt is made of. Refers to `problem` and `words`.
struct contrastive_request {
  const token_sequence* problem = nullptr;  // from write_problem
  const answer_words* words = nullptr;
  candidate_prior prior;                      // of all candidates
  std::vector<measured_candidate> exemplars;  // the best last
  candidate_bits open;                        // candidates that may be answered; at least one
};

struct written_candidate {
  token_sequence sequence;              // prompt and answer
  std::vector<double> log_probability;  // of each chosen token
  written_answer answer;
  std::vector<measured_candidate> exemplars;  // that were shown
};

// Registers, blocks and threads of a variant, from its program ("" if it is not known) and its verdict.
void describe_resources(const std::string& program, const verdict& v, measured_candidate& to);

// Which exemplars to show, of what was measured: the best one and others from distinct buckets of scores, as store/
// exemplars.hpp draws them. Ascending by score.
std::vector<measured_candidate> choose_exemplars(std::span<const measured_candidate> measured, std::size_t most,
                                                 double temperature, uint64_t& random);

// The model that cudal1 comes with: beside the installed binaries (../share/cudal1/models), else in the source tree
// that this was built from. errc::not_found where there is none.
expected<std::string> builtin_model();

class candidate_writer {
 public:
  // Of a model that is trained in minutes on a GPU: 2.6 million weights.
  static model_shape default_shape();
  // With random weights and the standard vocabulary; the shape's vocabulary is set.
  static expected<candidate_writer> make(model_shape shape, uint64_t seed);
  // Reads NAME.safetensors and NAME.json, which save() wrote; `path` is the latter.
  static expected<candidate_writer> load(const std::string& path);
  // `provenance`: how it was made, for people.
  expected<void> save(const std::string& path, const json& provenance) const;
  // Words, shape, weights and the optimiser's state: to go on exactly from here.
  std::string checkpoint() const;
  static expected<candidate_writer> restore(const std::string& checkpoint, const std::string& device = "cpu");

  std::string device() const { return model_->device(); }
  const vocabulary& words() const { return words_; }
  language_model& model() { return *model_; }
  const language_model& model() const { return *model_; }
  const json& provenance() const { return provenance_; }

  token_sequence prompt_of(const contrastive_request& r) const;
  // Without the first exemplars, as many as make prompt and answer longer than the context. errc::unsupported where the
  // problem alone does.
  expected<contrastive_request> fitted(contrastive_request r) const;
  // `each` answers to each request, those of one beside each other. Prompts longer than the context lose exemplars. The
  // requests may repeat a candidate.
  expected<std::vector<written_candidate>> write(std::span<const contrastive_request> requests, std::size_t each,
                                                 const sampling_options& options) const;
  // The sequence of a given answer, to be learned; `decisions` is the order of the candidate's.
  expected<token_sequence> sequence_of(const contrastive_request& r, const written_answer& a,
                                       std::span<const std::size_t> decisions) const;

 private:
  candidate_writer(vocabulary words, std::unique_ptr<language_model> model)
      : words_(std::move(words)), model_(std::move(model)) {}

  vocabulary words_;
  std::unique_ptr<language_model> model_;
  json provenance_;
};

}  // namespace cudal1
