// How the next token is chosen from logits, on the host. cuda/decoder_kernels.cu does the same on a GPU. Free of
// LibTorch.
#pragma once

#include <cstdint>
#include <span>

#include "policy/model/text_generation.hpp"

namespace cudal1 {

struct choice_rule {
  double temperature = 1, top_p = 1;
  int64_t top_k = 0;
  uint64_t random = 0;  // 64 random bits, of which the upper 53 are used
};

// A function of the seed, the answer's number and the place in its text alone: what else is generated does not matter.
uint64_t random_of(uint64_t seed, uint64_t answer, int64_t place);

// The seed with which an answer has the draws of `seed` alone, whatever its number is.
uint64_t seed_for_answer(uint64_t seed, uint64_t answer);

struct chosen_token {
  token chosen = 0;
  double log_probability = 0;  // among all tokens, at temperature 1
};

// `allowed`: bits of the tokens that may be chosen (at least one); empty: all. Tokens are ordered by descending logit,
// then ascending number: top_k keeps the first ones, top_p of these the first ones that have this share of their
// probability. The draw then goes through the kept tokens in the order of their numbers.
chosen_token choose_token(std::span<const float> logits, const choice_rule& rule, std::span<const uint32_t> allowed);

}  // namespace cudal1
