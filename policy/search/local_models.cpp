#include "policy/search/local_models.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "policy/prompt/answer_shape.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t most_shapes = 16;
constexpr std::string_view processor = "cpu";

// The first GPU that is reserved for models, else the processor.
expected<std::string> device_of(const chat_model& m, const policy_setup& setup) {
  const auto is_gpu = [](const std::string& name) { return name != processor; };
  if (m.device.empty()) {
    const auto found = std::ranges::find_if(setup.policy_devices, is_gpu);
    return found == setup.policy_devices.end() ? std::string(processor) : *found;
  }
  const auto has = [&](const std::vector<std::string>& devices) { return std::ranges::count(devices, m.device) > 0; };
  if (!is_gpu(m.device) || has(setup.policy_devices) || has(setup.measuring_devices)) return m.device;
  auto names = setup.policy_devices;
  names.insert(names.end(), setup.measuring_devices.begin(), setup.measuring_devices.end());
  return fail(errc::not_found,
              "model {}: llm.device is {}, which is no device of this node ({}); set it to cpu or to one of these",
              m.name, m.device, names.empty() ? "it has none" : fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace

expected<local_models> local_models::open(std::vector<chat_model>& models, const policy_setup& setup) {
  local_models out;
  for (auto& m : models) {
    if (!m.is_local()) continue;
    CUDAL1_TRY(m.device, device_of(m, setup));
    if (m.precision == "auto") m.precision = m.device == processor ? "float32" : "bfloat16";
    auto files = local_checkpoint::open(m.path);
    if (!files) return fail_in("model " + m.name, std::move(files).error());
    m.url = (*files)->url(m);
    out.files_[m.path] = std::move(*files);
  }
  return out;
}

prompt_room room_of(const std::shared_ptr<const local_checkpoint>& files, const chat_model& m) {
  return {files->longest_prompt(m), [files](const prompt_text& text) {
            return files->tokens_of(std::vector<chat_message>{{"system", text.system}, {"user", text.user}});
          }};
}

expected<std::shared_ptr<const byte_automaton>> local_models::shape_of(const answer_context& c) {
  const std::string key = fmt::format("{} {} {}", c.what->id, c.target->name(), enum_name(c.form));
  const auto known =
      std::ranges::find(shapes_, key, &std::pair<std::string, std::shared_ptr<const byte_automaton>>::first);
  if (known != shapes_.end()) return known->second;
  CUDAL1_TRY(auto made, shape_of_answer(*c.what, *c.target, c.form));
  if (shapes_.size() >= most_shapes) shapes_.erase(shapes_.begin());
  return shapes_.emplace_back(key, std::make_shared<const byte_automaton>(std::move(made))).second;
}

}  // namespace cudal1
