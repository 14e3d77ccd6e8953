// A task and a device as the beginning of a contrastive prompt: operators as words, and sizes, bytes, arithmetic, rates
// and times as values.
#pragma once

#include <string>
#include <string_view>

#include "config/device_data.hpp"
#include "policy/contrastive/vocabulary.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// Tokens with values, written one after the other.
class text_writer {
 public:
  explicit text_writer(const vocabulary& words) : words_(&words) {}
  void word(std::string_view word) { put(word, no_value()); }
  void value(std::string_view word, double value) { put(word, static_cast<float>(value)); }
  // The base-2 logarithm; of 0 or less, of the least number above 0 that is ever written.
  void logarithm(std::string_view word, double number);
  void tokens(std::span<const token> some);
  const vocabulary& words() const { return *words_; }
  token_sequence take() &&;

 private:
  static float no_value();
  void put(std::string_view word, float value);

  const vocabulary* words_;
  token_sequence out_;
};

// `device`: of the model of GPU; null where there are no data, or on a CPU. `kind`: "cpu", "cuda".
void write_problem(const task& t, std::string_view kind, const device_data* device, text_writer& to);

}  // namespace cudal1
