// The program that a language model's answer is, and the request that judges it.
#pragma once

#include <string>

#include "actors/messages/protocol.hpp"
#include "policy/codegen/lowering_target.hpp"
#include "policy/search/policy.hpp"

namespace cudal1::cli {

// Of a proposal without a problem: its program, or what its schedule is lowered to. Why it has none is an error.
expected<std::string> program_of(const proposal& idea, const task& what, const lowering_target& target);

client_request evaluation_of(std::string program, const task& what, const std::string& device,
                             const std::string& origin);

}  // namespace cudal1::cli
