// Generation of free text by the engine. Includes LibTorch: only for the model's library.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/network.hpp"
#include "policy/model/text_engine.hpp"

namespace cudal1 {

// As language_model::make_engine. The network's weights must stay where they are.
expected<std::unique_ptr<text_engine>> engine_of(const network& from, const engine_options& options);

// As language_model::generate, by an engine without other requests.
expected<generation> generate_by(text_engine& engine, std::span<const std::vector<token>> prompts,
                                 const generation_options& options, std::size_t each, const token_listener& listener);

// As language_model::logits.
expected<torch::Tensor> logits_of_text(const network& from, std::span<const token> tokens);

}  // namespace cudal1
