#include "sandbox/cuda/runtime/cubin_bundle.hpp"

#include <cstdint>
#include <cstring>

namespace cudal1 {
namespace {

// Then the number of cubins, their sizes, and the cubins, each behind zeros up to the alignment.
constexpr std::string_view magic = "cudal1 cubins 1\n";
constexpr std::size_t alignment = 16;

std::size_t aligned(std::size_t at) {
  return (at + alignment - 1) / alignment * alignment;
}

}  // namespace

std::string bundle_of(const std::vector<std::string>& cubins) {
  if (cubins.size() == 1) return cubins.front();
  std::string object(magic);
  const auto add_number = [&](uint64_t n) { object.append(reinterpret_cast<const char*>(&n), sizeof n); };
  add_number(cubins.size());
  for (const auto& cubin : cubins)
    add_number(cubin.size());
  for (const auto& cubin : cubins) {
    object.resize(aligned(object.size()));
    object += cubin;
  }
  return object;
}

expected<std::vector<std::string_view>> cubins_in(std::string_view object) {
  if (!object.starts_with(magic)) return std::vector{object};
  const auto corrupt = [&] { return fail(errc::corrupt, "a bundle of cubins is damaged: {} bytes", object.size()); };
  std::size_t at = magic.size();
  const auto number = [&] {
    uint64_t n = UINT64_MAX;
    if (object.size() - at >= sizeof n) {
      std::memcpy(&n, object.data() + at, sizeof n);
      at += sizeof n;
    }
    return n;
  };
  const uint64_t count = number();
  if (count > (object.size() - at) / sizeof(uint64_t)) return corrupt();
  std::vector<uint64_t> sizes(count);
  for (auto& size : sizes)
    size = number();
  std::vector<std::string_view> cubins;
  for (const uint64_t size : sizes) {
    at = aligned(at);
    if (at > object.size() || size > object.size() - at) return corrupt();
    cubins.push_back(object.substr(at, size));
    at += size;
  }
  if (at != object.size()) return corrupt();
  return cubins;
}

}  // namespace cudal1
