#include "sandbox/cuda/gpus/visible_devices.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace cudal1 {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

// The index in `all` of the GPU that an entry names; nothing if it names none or several.
std::optional<std::size_t> place_of(const std::vector<gpu_description>& all, std::string_view entry) {
  if (entry.starts_with("GPU-")) {
    const auto matches = [&](const gpu_description& g) { return g.uuid.starts_with(entry); };
    if (std::count_if(all.begin(), all.end(), matches) != 1) return std::nullopt;
    return static_cast<std::size_t>(std::find_if(all.begin(), all.end(), matches) - all.begin());
  }
  std::size_t index = 0;
  const auto [end, problem] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (problem != std::errc() || end != entry.data() + entry.size() || index >= all.size()) return std::nullopt;
  return index;
}

}  // namespace

expected<std::vector<gpu_description>> visible_gpus(std::vector<gpu_description> all, std::string_view list) {
  std::vector<gpu_description> shown;
  for (std::string_view rest = list; !rest.empty();) {
    const auto comma = rest.find(',');
    const auto entry = trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (entry.starts_with("MIG-"))
      return fail(errc::unsupported,
                  "CUDA_VISIBLE_DEVICES names {}: parts of a GPU (MIG) are not supported; name whole GPUs, or use "
                  "devices = \"cpu\"",
                  entry);
    const auto place = place_of(all, entry);
    if (!place) break;
    const auto same = [&](const gpu_description& g) { return g.uuid == all[*place].uuid; };
    if (std::any_of(shown.begin(), shown.end(), same)) break;  // CUDA then shows no GPU; we keep the entries before
    shown.push_back(all[*place]);
    shown.back().index = static_cast<int>(shown.size()) - 1;
  }
  return shown;
}

}  // namespace cudal1
