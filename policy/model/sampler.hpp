// Sampling token by token. Includes LibTorch: only for the model's library.
#pragma once

#include <span>
#include <vector>

#include "policy/model/network.hpp"

namespace cudal1 {

// As language_model::sample.
expected<std::vector<sampled_sequence>> sample_from(const network& from, std::span<const token_sequence> prompts,
                                                    const token_grammar& legal, const sampling_options& options,
                                                    std::size_t each);

}  // namespace cudal1
