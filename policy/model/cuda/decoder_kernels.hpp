// The text of the kernels of decoding (decoder_kernels.cuh says what they need defined).
#pragma once

#include <string_view>

namespace cudal1 {

std::string_view decoder_kernels_text();

}  // namespace cudal1
