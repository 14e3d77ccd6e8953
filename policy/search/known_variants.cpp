#include "policy/search/known_variants.hpp"

namespace cudal1 {

namespace {

// Schedules make a few tensors of the sizes that the task has; what is checked before a variant is sent to a device
// decides, and this only saves the time of looking.
constexpr int64_t larger_at_most = 8;

bool may_exceed(const task& t, int64_t bytes) {
  if (bytes <= 0) return false;
  int64_t all = 0;
  for (const auto& [name, type] : t.reference.types)
    all += type.storage_bytes();
  return all > bytes / larger_at_most;
}

}  // namespace

known_variants::known_variants(const prompt& p)
    : tensor_bytes_(p.tensor_bytes),
      may_be_too_large_(p.what != nullptr && may_exceed(*p.what, p.tensor_bytes)),
      is_tried_(p.is_tried) {
  for (const auto& e : p.exemplars) {
    if (e.plan) schedules_.insert(print_schedule(*e.plan));
    if (!e.id().empty()) programs_.insert(e.id());
  }
}

bool known_variants::rules_out(schedule_builder& b) const {
  if (has_schedule(b.moves())) return true;
  if (!has_programs() && !may_be_too_large_) return false;
  const auto& made = b.lowering();
  if (!made) return false;
  if (has_program(program_id(made->text))) return true;
  if (!may_be_too_large_) return false;
  const auto checked = check_program(made->text);
  return checked && is_too_large(*checked);
}

void propose_schedule(schedule_builder b, proposal& out) {
  out.plan = b.moves();
  if (auto made = b.take_lowering()) out.lowering = std::move(*made);
}

random_source random_for(uint64_t policy_seed, const prompt& p) {
  random_source mixed(policy_seed ^ 0x5851f42d4c957f2du);
  return random_source(mixed.next() ^ p.seed);
}

expected<void> check_prompt(const prompt& p) {
  if (p.what == nullptr) return fail(errc::invalid_argument, "a prompt needs a task");
  if (p.target == nullptr) return fail(errc::invalid_argument, "a prompt needs a lowering target");
  return {};
}

std::string save_seed(const std::string& name, uint64_t seed) {
  json out;
  out.set("format", 1);
  out.set("policy", name);
  out.set("seed", std::to_string(seed));
  return out.text();
}

expected<uint64_t> load_seed(const std::string& name, const std::string& blob) {
  CUDAL1_TRY(const json document, json::parse(blob));
  const json* format = document.find("format");
  const json* policy = document.find("policy");
  const json* seed = document.find("seed");
  if (format == nullptr || !format->is_int() || policy == nullptr || !policy->is_string() || seed == nullptr ||
      !seed->is_string() || seed->as_string().find_first_not_of("0123456789") != std::string::npos ||
      seed->as_string().empty() || seed->as_string().size() > 19 + 1)
    return fail(errc::corrupt, "this is not the state of a policy: format, policy or seed is missing");
  if (format->as_int() != 1)
    return fail(errc::corrupt, "the policy's state has format {}, and this program reads format 1", format->as_int());
  if (policy->as_string() != name)
    return fail(errc::invalid_argument, "this is the state of policy {}, not of {}", policy->as_string(), name);
  uint64_t value = 0;
  for (const char c : seed->as_string())
    value = value * 10 + static_cast<uint64_t>(c - '0');
  return value;
}

policy_traits search_policy::traits() const {
  policy_traits t;
  t.exemplars.best_of_experiment = exemplars_;
  return t;
}

std::string search_policy::save() const {
  return save_seed(name(), seed_);
}

expected<void> search_policy::load(const std::string& blob, int64_t) {
  CUDAL1_TRY(seed_, load_seed(name(), blob));
  return {};
}

}  // namespace cudal1
