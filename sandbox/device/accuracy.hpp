// What error is accepted of variants: the setting verification.tolerance, and the environments of the verdicts that
// were reached under it. Verdicts under another accuracy are of another environment: not reused, compared or averaged.
#pragma once

#include <string_view>

#include <boost/describe.hpp>

namespace cudal1 {

struct environment;
struct verification_options;

//   own          a multiple of eager's error as PyTorch ships it; --precision eager
//   kernelbench  the same, and as near to eager as its evaluator asks
//   strict       a multiple of the error of float32 eager without TensorFloat-32
//   half         float32 products of operands that were rounded to float16 or TF32 (half_precision.hpp)
BOOST_DEFINE_ENUM_CLASS(accuracy, own, kernelbench, strict, half)

accuracy accuracy_of(const verification_options& options);
// As an environment's details or libraries say it.
accuracy accuracy_in(std::string_view details);
accuracy accuracy_of(const environment& e);
// The environment whose variants are held to this accuracy: with a note and an id of its own. Unchanged for `own`.
environment held_to(environment where, accuracy what);

}  // namespace cudal1
