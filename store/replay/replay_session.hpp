// A session without processes, which answers from stored verdicts.
#pragma once

#include <memory>
#include <string>

#include "sandbox/device/session.hpp"
#include "store/replay/replay_source.hpp"

namespace cudal1 {

std::unique_ptr<device_session> start_replay_session(const std::string& device, std::shared_ptr<replay_source> source);

}  // namespace cudal1
