#include "store/replay/replay_devices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "store/replay/replay_compiler.hpp"
#include "store/replay/replay_session.hpp"

namespace cudal1 {

namespace {

constexpr std::string_view short_name = "replay";

std::vector<std::string_view> names_in(std::string_view list) {
  std::vector<std::string_view> names;
  while (true) {
    const auto comma = list.find(',');
    auto name = list.substr(0, comma);
    while (!name.empty() && (name.front() == ' ' || name.front() == '\t'))
      name.remove_prefix(1);
    while (!name.empty() && (name.back() == ' ' || name.back() == '\t'))
      name.remove_suffix(1);
    names.push_back(name);
    if (comma == std::string_view::npos) return names;
    list.remove_prefix(comma + 1);
  }
}

bool is_short(std::string_view name) {
  return name.substr(0, name.find(':')) == short_name;
}

device_traits traits_like(const device_traits& recorded) {
  device_traits t;
  t.kind = replay_kind_of(recorded.kind);
  t.numbered = true;
  t.noun = "replayed " + recorded.noun;
  t.preference = -1;
  t.target = recorded.target;
  t.profile = recorded.profile;
  t.is_accelerator = recorded.is_accelerator;
  t.compiled_ahead = recorded.compiled_ahead;
  t.remark = fmt::format("Scores and times on {} are replayed from stored verdicts, not measured.", t.kind);
  t.replays = recorded.kind;
  return t;
}

}  // namespace

class replay_device_type final : public device_type {
 public:
  explicit replay_device_type(const device_type& recorded)
      : recorded_(recorded), traits_(traits_like(recorded.traits())) {}

  void use(std::shared_ptr<replay_source> source) { source_ = std::move(source); }
  const device_traits& traits() const override { return traits_; }

  expected<std::vector<found_device>> discover() const override {
    CUDAL1_CHECK(check_source());
    std::vector<found_device> found;
    for (int64_t i = 0; i < source_->options().devices; ++i) {
      found_device d;
      d.name = fmt::format("{}:{}", traits_.kind, i);
      d.architecture = traits_.kind;  // it has a compiler of its own
      d.model = source_->replayed_on(d.name).model;
      d.details = source_->describe();
      found.push_back(std::move(d));
    }
    return found;
  }

  void set_defaults(configuration& c) const override { recorded_.set_defaults(c); }
  core_request cores_for(const found_device& device, const device_options&) const override {
    return {.device = device.name, .count = 0, .least = 0};
  }
  expected<std::shared_ptr<kernel_compiler>> make_compiler(const compiler_setup&) const override {
    CUDAL1_CHECK(check_source());
    return make_replay_compiler(source_);
  }
  expected<std::unique_ptr<device_session>> start_session(const session_options& options) const override {
    CUDAL1_CHECK(check_source());
    return start_replay_session(options.device, source_);
  }

 private:
  expected<void> check_source() const {
    if (source_) return {};
    return fail(
        errc::invalid_argument,
        "there is no device {}: the configuration's [replay] names no verdicts of {}; replay.source is the data "
        "folder of a search, and replay.environment chooses among what it measured",
        traits_.kind, traits_.replays);
  }

  const device_type& recorded_;
  device_traits traits_;
  std::shared_ptr<replay_source> source_;
};

replay_devices::replay_devices() {
  for (const auto* type : device_types()) {
    if (!type->traits().replays.empty()) continue;
    auto replayed = std::make_unique<replay_device_type>(*type);
    types_.push_back(replayed.get());
    registrations_.push_back(std::make_unique<device_registration>(std::move(replayed)));
  }
}

replay_devices::~replay_devices() = default;

void replay_devices::use(const std::shared_ptr<replay_source>& source) {
  for (auto* type : types_)
    if (type->traits().replays == source->kind()) type->use(source);
}

std::string replay_kind_of(std::string_view kind) {
  return std::string(replay_prefix) + std::string(kind);
}

bool names_replay(std::string_view devices) {
  for (const auto name : names_in(devices))
    if (is_short(name) || name.starts_with(replay_prefix)) return true;
  return false;
}

std::string with_replayed_kind(std::string_view devices, std::string_view kind) {
  std::vector<std::string> names;
  for (const auto name : names_in(devices))
    names.push_back(is_short(name) ? replay_kind_of(kind) + std::string(name.substr(short_name.size()))
                                   : std::string(name));
  return fmt::format("{}", fmt::join(names, ","));
}

}  // namespace cudal1
