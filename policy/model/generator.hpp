// Generation of free text. Includes LibTorch: only for the model's library.
#pragma once

#include <span>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/network.hpp"
#include "policy/model/text_generation.hpp"

namespace cudal1 {

// As language_model::generate.
expected<generation> generate_from(const network& from, std::span<const std::vector<token>> prompts,
                                   const generation_options& options, std::size_t each, const token_listener& listener);

// As language_model::logits.
expected<torch::Tensor> logits_of_text(const network& from, std::span<const token> tokens);

}  // namespace cudal1
