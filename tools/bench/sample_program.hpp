// The subjects of the benchmarks: the built-in tasks, and programs that the policies write for them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "policy/graph/schedule.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1::bench {

// The built-in tasks for the cpu profile. Exits with the error if they cannot be read.
const std::vector<task>& tasks();
const task& task_named(const std::string& name);

// The program of the first legal move of a task that gives it a kernel, as text; "" if no single move does.
std::string generated_program(const task& t);

// The value. Exits with the error's message if there is none.
template <class T>
T must(expected<T> value);
[[noreturn]] void give_up(const error& e);

template <class T>
T must(expected<T> value) {
  if (!value) give_up(value.error());
  return std::move(*value);
}

}  // namespace cudal1::bench
