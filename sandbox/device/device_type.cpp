#include "sandbox/device/device_type.hpp"

#include <algorithm>

#include "sandbox/device/device_names.hpp"

namespace cudal1 {
namespace {

// Filled before main() and emptied after it. A local static, so that it is constructed before the first registration.
std::vector<std::unique_ptr<device_type>>& registry() {
  static std::vector<std::unique_ptr<device_type>> all;
  return all;
}

}  // namespace

device_registration::device_registration(std::unique_ptr<device_type> type) : type_(type.get()) {
  auto& all = registry();
  const auto later =
      std::ranges::find_if(all, [&](const auto& b) { return b->traits().preference < type->traits().preference; });
  all.insert(later, std::move(type));
}

device_registration::~device_registration() {
  std::erase_if(registry(), [&](const auto& b) { return b.get() == type_; });
}

std::vector<const device_type*> device_types() {
  std::vector<const device_type*> all;
  for (const auto& b : registry())
    all.push_back(b.get());
  return all;
}

const device_type* find_device_type(std::string_view device) {
  for (const auto& b : registry())
    if (is_of_kind(device, b->traits())) return b.get();
  return nullptr;
}

const device_traits& traits_of(std::string_view device) {
  static const device_traits unknown;
  const auto* const type = find_device_type(device);
  return type == nullptr ? unknown : type->traits();
}

const device_type& preferred_device_type() {
  const device_type* last = nullptr;
  for (const auto& b : registry()) {
    if (!b->traits().replays.empty()) continue;
    if (const auto found = b->discover(); found && !found->empty()) return *b;
    last = b.get();
  }
  return *last;  // the cpu is always available
}

configuration default_configuration(std::string_view device) {
  configuration c;
  if (const auto* const type = find_device_type(device); type != nullptr) type->set_defaults(c);
  return c;
}

int64_t device_type::tensor_bytes(const found_device&, const configuration& settings) const {
  return settings.verification.memory_limit_mb << 20;
}

expected<std::unique_ptr<device_session>> device_session::start(const session_options& options) {
  const auto* const type = find_device_type(options.device);
  if (type == nullptr || (type->traits().numbered && options.device == type->traits().kind))
    return fail(errc::invalid_argument, "there is no device \"{}\"; devices are {}", options.device,
                known_device_names());
  return type->start_session(options);
}

}  // namespace cudal1
