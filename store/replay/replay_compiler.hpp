// The compiler of a replay device, which compiles nothing: what a compiler said is in the stored verdict.
#pragma once

#include <memory>

#include "sandbox/device/compiler.hpp"
#include "store/replay/replay_source.hpp"

namespace cudal1 {

// Its code is empty. With a latency it takes as long as the stored compilation did, times that; a variant that is not
// recorded takes no time.
std::shared_ptr<kernel_compiler> make_replay_compiler(std::shared_ptr<replay_source> source);

}  // namespace cudal1
