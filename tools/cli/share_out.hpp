// Work that several workers share.
#pragma once

#include <cstddef>
#include <functional>

#include "config/base/error.hpp"

namespace cudal1::cli {

// Does the items in their order, each worker on a thread of its own with the next one that nobody has had. None is
// begun after an error, which is the result (the first of them), or once `is_over`, which any of the threads may ask.
expected<void> share_out(std::size_t workers, std::size_t items, const std::function<bool()>& is_over,
                         const std::function<expected<void>(std::size_t worker, std::size_t item)>& work);

}  // namespace cudal1::cli
