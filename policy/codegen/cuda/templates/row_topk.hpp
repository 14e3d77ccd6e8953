// The k greatest or smallest elements of each row, in their order, with their places: aten::topk.
#pragma once

#include "policy/codegen/kernel_template.hpp"

namespace cudal1 {

kernel_template row_topk();

}  // namespace cudal1
