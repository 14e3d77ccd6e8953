// A document in few words, for small models with short contexts: what to write, the task, earlier programs with their
// scores. What a device likes, lists of operators, kernels by others, measurements and reasons are left out.
#pragma once

#include <string>

#include "policy/prompt/prompt_document.hpp"

namespace cudal1 {

std::string compact_system_text(const prompt_document& d, const device_guide& guide);
std::string compact_user_text(const prompt_document& d);

}  // namespace cudal1
