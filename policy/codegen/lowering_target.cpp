#include "policy/codegen/lowering_target.hpp"

#include <algorithm>
#include <mutex>

#include "policy/codegen/cpu/cpu_target.hpp"
#include "policy/codegen/cuda/cuda_target.hpp"

namespace cudal1 {

namespace {

class target_registry {
 public:
  target_registry() {
    targets_.push_back(make_cpu_target());
    targets_.push_back(make_cuda_target());
  }
  const lowering_target* find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    for (const auto& each : targets_) {
      if (each->name() == name) return each.get();
    }
    return nullptr;
  }
  bool add(std::unique_ptr<const lowering_target> target) {
    const std::lock_guard lock(mutex_);
    for (const auto& each : targets_) {
      if (each->name() == target->name()) return false;
    }
    targets_.push_back(std::move(target));
    return true;
  }
  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> out;
    for (const auto& each : targets_)
      out.emplace_back(each->name());
    return out;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<const lowering_target>> targets_;
};

target_registry& registry() {
  static target_registry all;
  return all;
}

}  // namespace

std::span<const int64_t> lowering_target::values(std::string_view name) const {
  const auto all = tunables();
  const auto found = std::ranges::find(all, name, &kernel_tunable::name);
  return found == all.end() ? std::span<const int64_t>() : found->values;
}

expected<const lowering_target*> find_lowering_target(std::string_view name) {
  if (const lowering_target* found = registry().find(name)) return found;
  return fail(errc::invalid_argument, "there is no lowering target \"{}\"; there are {}", name,
              fmt::join(registry().names(), ", "));
}

expected<void> add_lowering_target(std::unique_ptr<const lowering_target> target) {
  const std::string name(target->name());
  if (!registry().add(std::move(target)))
    return fail(errc::invalid_argument, "there is a lowering target \"{}\" already", name);
  return {};
}

}  // namespace cudal1
