// The grammar of an answer to a contrastive prompt. Every answer that it allows is a candidate of the task that was not
// tried yet, after an analysis of the exemplars that the candidate follows:
//
//   answer    = [ "<fastest>" exemplar "<keep>" {part} "<change>" {name} ] "<candidate>" implementation "<tuned>"
//               {decision} "<end>"
//   part      = "<implementation>" | decision             of the exemplar, which the candidate has too; at most 3
//   name      = "<implementation>" | name of a decision   the candidate decides otherwise than the exemplar; at most 2
//
// The analysis is there if there are exemplars. Decisions come in any order, each name once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/contrastive/candidate_prior.hpp"
#include "policy/contrastive/candidate_set.hpp"
#include "policy/contrastive/vocabulary.hpp"

namespace cudal1 {

// Numbers of decisions and of names of a candidate set; `whole_implementation` stands for the implementation.
inline constexpr int whole_implementation = -1;

struct exemplar_analysis {
  std::size_t fastest = 0;  // of the exemplars, in their order
  std::vector<int> keep;    // decisions
  std::vector<int> change;  // names
};

struct written_answer {
  std::optional<exemplar_analysis> analysis;
  std::size_t candidate = 0;
};

// An answer's tokens as tokens of its parts. Refers to both arguments.
class answer_words {
 public:
  answer_words(const candidate_set& of, const vocabulary& words);
  const candidate_set& candidates() const { return *of_; }
  const vocabulary& words() const { return *words_; }
  std::vector<token> implementation(std::size_t i) const { return implementations_[i]; }  // without <tuned>
  const std::vector<token>& decision(int d) const { return d < 0 ? whole_ : decisions_[static_cast<std::size_t>(d)]; }
  const std::vector<token>& name(int n) const { return n < 0 ? whole_ : names_[static_cast<std::size_t>(n)]; }
  // A candidate: its implementation, <tuned>, its decisions in this order.
  void append(std::size_t candidate, std::span<const std::size_t> decisions, std::vector<token>& to) const;
  // A whole answer, with the decisions in this order.
  std::vector<token> write(const written_answer& a, std::span<const std::size_t> decisions) const;

 private:
  const candidate_set* of_;
  const vocabulary* words_;
  std::vector<token> whole_;
  std::vector<std::vector<token>> implementations_, decisions_, names_;
};

// What may come next in an answer, token by token. Refers to the words, which must outlive it.
class answer_reader_state {
 public:
  // `exemplars`: candidates, at most as many as frame::names has. `open`: the candidates that may be answered. `prior`:
  // of the candidates, refers to it; null: nothing is known.
  answer_reader_state(const answer_words& words, std::vector<std::size_t> exemplars, const candidate_bits& open,
                      const candidate_prior* prior = nullptr);

  // None when the answer is complete, or where no candidate is open. A token has the prior of the best candidate that
  // it leaves.
  legal_tokens legal() const;
  // errc::invalid_argument for a token that is not legal.
  expected<void> add(token t);
  bool complete() const { return at_ == place::done; }
  // Of a complete answer.
  const written_answer& answer() const { return answer_; }

 private:
  enum class place { start, name_of_fastest, before_keep, keep, change, implementation, decisions, done };
  struct option {
    std::vector<token> words;
    int number = 0;        // what it stands for
    candidate_bits after;  // the candidates that are left
  };
  std::vector<option> options() const;
  // If any candidate is left.
  static void add_option(std::vector<token> words, int number, const candidate_bits& after, std::vector<option>& to);
  void add_kept(std::vector<option>& to) const;
  void add_changed(std::vector<option>& to) const;
  void add_implementations(std::vector<option>& to) const;
  void add_decisions(std::vector<option>& to) const;
  void choose(const option& o);
  candidate_bits different(int name) const;
  token of(std::string_view word) const { return words_->words().of(word); }

  const answer_words* words_;
  const candidate_prior* prior_;
  std::vector<std::size_t> exemplars_;
  candidate_bits open_;
  place at_ = place::start;
  std::vector<token> begun_;  // of an option of several tokens
  exemplar_analysis analysis_;
  std::vector<std::size_t> chosen_;  // decisions
  written_answer answer_;
};

// The analysis that a candidate follows from, given the exemplars' scores (0: failed): the fastest one, what the
// candidate has of it, and what it decides otherwise.
exemplar_analysis analysis_of(const candidate_set& of, std::span<const std::size_t> exemplars,
                              std::span<const double> scores, std::size_t candidate);

// "The fastest is B (1.84x). What it has and the others lack: tile_rows 128. Kept: ... Changed: ..."
std::string analysis_text(const candidate_set& of, std::span<const std::size_t> exemplars,
                          std::span<const double> scores, const exemplar_analysis& a);

}  // namespace cudal1
