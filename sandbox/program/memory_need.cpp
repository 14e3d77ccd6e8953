#include "sandbox/program/memory_need.hpp"

#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

class lifetimes {
 public:
  explicit lifetimes(const checked_program& p) : p_(p) {
    for (const auto& output : p.text.outputs)
      kept_.insert(root_of(output));
    for (std::size_t i = 0; i < p.text.steps.size(); ++i)
      for (const auto& name : used_by(p.text.steps[i], p.calls[i]))
        used_in_steps_.insert(root_of(name));
  }

  memory_need most() {
    find_last_uses(program_section::setup);
    walk(program_section::setup);
    find_last_uses(program_section::steps);
    walk(program_section::steps);
    return most_;
  }

 private:
  const std::string& root_of(const std::string& name) const {
    const auto viewed = p_.view_of.find(name);
    return viewed == p_.view_of.end() ? name : viewed->second;
  }

  static std::vector<std::string> used_by(const step& s, const operator_call& call) {
    std::vector<std::string> names;
    if (const auto* launch = std::get_if<launch_step>(&s)) {
      for (const auto& a : launch->args)
        if (a.is_tensor()) names.push_back(a.tensor);
    } else if (const auto* aten = std::get_if<aten_step>(&s)) {
      names = work_parts::operands_of(call);
      for (const auto& result : aten->results)
        if (!result.empty()) names.push_back(result);
    } else {
      names.push_back(std::get<alloc_step>(s).name);
    }
    return names;
  }

  const std::vector<step>& steps_of(program_section section) const {
    return section == program_section::setup ? p_.text.setup : p_.text.steps;
  }
  const operator_call& call_of(program_section section, std::size_t i) const {
    return section == program_section::setup ? p_.setup_calls[i] : p_.calls[i];
  }

  void find_last_uses(program_section section) {
    const auto& steps = steps_of(section);
    last_uses_.clear();
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (const auto& name : used_by(steps[i], call_of(section, i)))
        last_uses_[root_of(name)] = i;
    // Results of setup that are used later persist from call to call.
    std::erase_if(last_uses_, [&](const auto& use) {
      return kept_.contains(use.first) || (section == program_section::setup && used_in_steps_.contains(use.first));
    });
    if (section == program_section::steps)
      for (const auto& [name, bytes] : live_)
        last_uses_.erase(name);
  }

  // What the step makes, by the name of its memory; what nothing reads is released when the step ends.
  int64_t make(const step& s, const std::vector<operator_result>& results) {
    if (const auto* alloc = std::get_if<alloc_step>(&s)) {
      hold(alloc->name, alloc->type.storage_bytes());
      return 0;
    }
    const auto* aten = std::get_if<aten_step>(&s);
    int64_t unnamed = 0;
    for (std::size_t i = 0; aten != nullptr && i < results.size(); ++i) {
      const int64_t bytes = results[i].view_of ? 0 : results[i].type.storage_bytes();
      const std::string& name = aten->results[i];
      if (name.empty())
        unnamed += bytes;
      else if (bytes > 0)
        hold(name, bytes);
    }
    return unnamed;
  }

  void hold(const std::string& name, int64_t bytes) {
    live_[name] = bytes;
    held_ += bytes;
  }

  void walk(program_section section) {
    const auto& steps = steps_of(section);
    const auto& results = section == program_section::setup ? p_.setup_results : p_.results;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const int64_t unnamed = make(steps[i], results[i]);
      if (held_ + unnamed > most_.bytes) most_ = {held_ + unnamed, step_label(i, steps[i], section)};
      std::erase_if(live_, [&](const auto& l) {
        const auto last = last_uses_.find(l.first);
        const bool released = last != last_uses_.end() && last->second <= i;
        if (released) held_ -= l.second;
        return released;
      });
    }
  }

  const checked_program& p_;
  std::set<std::string> kept_, used_in_steps_;
  std::map<std::string, std::size_t> last_uses_;  // of the section
  std::map<std::string, int64_t> live_;           // bytes, by the name of the memory
  int64_t held_ = 0;
  memory_need most_;
};

}  // namespace

memory_need memory_need_of(const checked_program& p) {
  return lifetimes(p).most();
}

std::string memory_text(int64_t bytes) {
  constexpr double mib = 1 << 20;
  const double size = static_cast<double>(bytes);
  if (size >= 1024 * mib) return fmt::format("{:.1f} GiB", size / (1024 * mib));
  return size >= mib ? fmt::format("{:.0f} MiB", size / mib) : fmt::format("{:.1f} KiB", size / 1024);
}

std::string why_too_large(const checked_program& p, int64_t bytes) {
  if (bytes <= 0) return "";
  const memory_need need = memory_need_of(p);
  if (need.bytes <= bytes) return "";
  return fmt::format("its tensors need at least {} at a time, in {}, and {} are allowed", memory_text(need.bytes),
                     need.where, memory_text(bytes));
}

}  // namespace cudal1
