// The scheduler of a text_engine: which answers are in a step, on which pages. Free of LibTorch.
#pragma once

#include <memory>

#include "policy/model/model_shape.hpp"
#include "policy/model/text_engine.hpp"
#include "policy/model/token_decoder.hpp"

namespace cudal1 {

// errc::invalid_argument where the text does not fit the model.
expected<void> check_text(std::span<const token> tokens, const model_shape& shape);

// errc::invalid_argument where an option is out of range.
expected<void> check_engine_options(const engine_options& options);

// `pages`: of the decoder's, with numbers from `first_page` on. The decoder has slots 0 to answers_at_once - 1.
std::unique_ptr<text_engine> make_batching_engine(std::unique_ptr<token_decoder> decoder, const model_shape& shape,
                                                  const engine_options& options, int64_t pages, int32_t first_page);

}  // namespace cudal1
