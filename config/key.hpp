// Declares a configuration key: its default, range, unit and meaning in one place, the initialiser of a plain member.
//
//   int64_t max_forks = key(12, {1, 1000, "forks"}, "Most forks of a possible best.", gpu(14));
//
// The member is an int64_t like any other. Range and meaning are read by constructing the section while a key_recorder
// exists, and belong, in order, to the members that BOOST_DESCRIBE_STRUCT names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cudal1 {

struct key_range {
  double low = 0, high = 0;  // both included
  std::string_view unit;     // "" if the number has none
};

// The only values of a text.
using key_choices = std::vector<std::string_view>;

struct key_description {
  std::optional<key_range> range;  // numbers only
  std::string_view meaning;
  std::optional<double> on_gpu;  // the default on GPUs, if it differs
  key_choices choices = {};      // of a text that may not have any value
};

// While it exists, collects the descriptions of the keys that are initialised in its thread.
class key_recorder {
 public:
  key_recorder() { current_ = this; }
  ~key_recorder() { current_ = nullptr; }
  key_recorder(const key_recorder&) = delete;
  key_recorder& operator=(const key_recorder&) = delete;
  std::vector<key_description> keys;

  static void add(const key_description& d) {
    if (current_ != nullptr) current_->keys.push_back(d);
  }

 private:
  inline static thread_local key_recorder* current_ = nullptr;
};

struct gpu_default {
  std::optional<double> value;
};
inline gpu_default gpu(double value) {
  return {value};
}

// Each returns the default.
template <class T>
T key(T value, const key_range& range, std::string_view meaning, gpu_default on_gpu = {}) {
  key_recorder::add({range, meaning, on_gpu.value});
  return value;
}
inline bool key(bool value, std::string_view meaning) {
  key_recorder::add({std::nullopt, meaning, std::nullopt});
  return value;
}
inline std::string key(const char* value, std::string_view meaning) {
  key_recorder::add({std::nullopt, meaning, std::nullopt});
  return value;
}
inline std::string key(const char* value, key_choices choices, std::string_view meaning) {
  key_recorder::add({std::nullopt, meaning, std::nullopt, std::move(choices)});
  return value;
}

}  // namespace cudal1
