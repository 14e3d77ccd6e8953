// Whether what moves made of a graph is what its task computes: a second opinion on their proofs.
//
// Elements of each rewritten result are computed twice, as the task defines them and as the graph computes them now,
// from random numbers on which nothing but declared facts holds. A proof that used how inputs are distributed, or
// that is wrong, gives different elements.
#pragma once

#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "policy/graph/graph.hpp"

namespace cudal1 {

BOOST_DEFINE_ENUM_CLASS(proof_finding, holds, refuted, undecided)

struct checked_step {
  int step = 0;  // that a move rewrote or dropped
  proof_finding found = proof_finding::undecided;
  std::string why;       // what differs, or why it was not decided; "" if it holds
  int64_t elements = 0;  // that were compared
};

// One for each step that was rewritten or dropped, in order. Mostly below a millisecond a step, at most
// half a second a graph.
std::vector<checked_step> check_proofs(const graph& g);

// "24 elements of steps 2+4 are as the definitions of their operators give them; step 5 could not be checked:
// aten::cumprod has no definition here"; "" for no steps.
std::string print_checked(const std::vector<checked_step>& steps);

// An error that says so where one of them is refuted: such a program must not be measured.
expected<void> refuse_wrong_proofs(const std::vector<checked_step>& steps);

}  // namespace cudal1
