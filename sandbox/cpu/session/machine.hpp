// What a measurement on this machine's CPU depends on.
#pragma once

#include <string>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

environment describe_machine(const std::string& device, const worker_settings& settings, const std::string& libraries);

}  // namespace cudal1
