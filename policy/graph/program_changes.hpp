// Programs that are made from a task's own one: new names, steps of set-up, and steps in place of others.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// The task with another program. Errors as check_program has them (more steps than a program may have, for example);
// errc::invalid_argument where an output would have another type, shape or strides.
inline expected<std::shared_ptr<const task>> with_program(const task& t, program changed) {
  CUDAL1_TRY(checked_program checked, check_program(std::move(changed)));
  for (const auto& output : t.reference.text.outputs)
    if (checked.types.at(output) != t.reference.types.at(output))
      return fail(errc::invalid_argument, "the output {} would be {}, and is {}", output,
                  checked.types.at(output).text(), t.reference.types.at(output).text());
  auto out = std::make_shared<task>(t);
  out->reference = std::move(checked);
  return out;
}

// The task with a program that computes some results in another way, and why they are the same.
struct proved_task {
  std::shared_ptr<const task> with;
  std::string certificate;
};

// `name`, with a number behind it where it is taken.
template <class Taken>
std::string fresh_name(const std::string& name, Taken&& is_taken) {
  std::string out = name;
  for (int n = 2; is_taken(out); ++n)
    out = name + std::to_string(n);
  return out;
}

using step_arguments = decltype(aten_step::args);

// Gives a step's argument another value.
inline void set_argument(aten_step& s, std::string_view name, json value) {
  for (auto& [known, now] : s.args)
    if (known == name) {
      now = std::move(value);
      return;
    }
  s.args.emplace_back(name, std::move(value));
}

class program_changes {
 public:
  // Begins with the inputs, weights, set-up and outputs of `p`, and without steps.
  explicit program_changes(const checked_program& p) : p_(&p), out_(p.text) { out_.steps.clear(); }

  // `name`, with a number behind it where a value of the program has it.
  std::string new_name(const std::string& name) {
    return fresh_name(name, [this](const auto& n) { return p_->types.contains(n) || !taken_.insert(n).second; });
  }

  void add(step s) { out_.steps.push_back(std::move(s)); }
  // Adds a step with one result; returns its name.
  std::string add(const char* op, step_arguments args, const std::string& result) {
    add(made(op, std::move(args), result));
    return result;
  }

  // The result of a step of set-up, which is made once for all that read it.
  std::string at_set_up(const char* op, step_arguments args, const std::string& name) {
    for (const auto& each : out_.setup)
      if (const auto& known = std::get<aten_step>(each); known.op == op && known.args == args) return known.results[0];
    std::string result = new_name(name);
    out_.setup.emplace_back(made(op, std::move(args), result));
    return result;
  }

  program take() { return std::move(out_); }

 private:
  static aten_step made(const char* op, step_arguments args, const std::string& result) {
    aten_step s;
    s.op = op;
    s.args = std::move(args);
    s.results = {result};
    return s;
  }

  const checked_program* p_;
  program out_;
  std::set<std::string> taken_;
};

}  // namespace cudal1
