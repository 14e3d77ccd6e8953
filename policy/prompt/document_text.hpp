// The sections of a document as text for a language model. Each function gives one section, "" if it has no content.
#pragma once

#include <string>

#include "policy/prompt/prompt_document.hpp"

namespace cudal1 {

std::string task_text(const prompt_document& d);      // what is computed, with PyTorch's source and the program
std::string device_text(const prompt_document& d);    // where it runs
std::string bounds_text(const prompt_document& d);    // what bounds it, and how far the best is from that
std::string variants_text(const prompt_document& d);  // earlier variants, and their comparison
std::string files_text(const prompt_document& d);     // kernels by others; "" if there are none
std::string examples_text(const prompt_document& d);  // the format by example; operators, or moves
std::string dialect_text(const device_guide& guide, answer_form form);
std::string performance_text(const device_guide& guide);

}  // namespace cudal1
