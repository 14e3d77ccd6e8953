// Tasks, programs and code in messages: a pointer within a process.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "sandbox/device/compiler.hpp"
#include "sandbox/program/check.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// Immutable and shared; never null once filled. `sent_as`: its wire_text, where it is known already: a program is sent
// to a compiler and to a device, and would be printed for each.
template <class T>
struct shared_value {
  std::shared_ptr<const T> value;
  std::shared_ptr<const std::string> sent_as;
  shared_value() = default;
  explicit shared_value(T v) : value(std::make_shared<const T>(std::move(v))) {}
  shared_value(T v, std::string text)
      : value(std::make_shared<const T>(std::move(v))), sent_as(std::make_shared<const std::string>(std::move(text))) {}
  const T& operator*() const { return *value; }
  const T* operator->() const { return value.get(); }
  explicit operator bool() const { return value != nullptr; }
};
using shared_task = shared_value<task>;
using shared_program = shared_value<checked_program>;
using shared_code = shared_value<compiled_code>;

}  // namespace cudal1
