#include "sandbox/cuda/referee/tensor_memory.hpp"

#include <algorithm>

#include "sandbox/cuda/runtime/device_memory.hpp"

namespace cudal1 {
namespace {

bool is_spare(const std::shared_ptr<shared_tensors>& tensors) {
  return tensors.use_count() == 1;
}

}  // namespace

expected<std::shared_ptr<shared_tensors>> tensor_memory::take(const std::vector<tensor_type>& types, tensor_role role) {
  const device_layout layout = device_layout_of(types);
  auto found = std::ranges::find_if(
      all_, [&](const auto& t) { return is_spare(t) && t->role == role && t->layout_bytes == layout.bytes; });
  if (found == all_.end()) {
    auto made = std::make_shared<shared_tensors>();
    static int64_t last_id = 0;
    made->id = ++last_id;
    made->role = role;
    made->layout_bytes = layout.bytes;
    CUDAL1_TRY(made->memory, device_.make_memory(layout.bytes, memory_access::read_write));
    made->bytes = made->memory.bytes;
    found = all_.insert(all_.end(), std::move(made));
  }
  shared_tensors& tensors = **found;
  static int64_t last_generation = 0;
  tensors.generation = ++last_generation;
  tensors.views.clear();
  for (std::size_t i = 0; i < types.size(); ++i)
    tensors.views.push_back({types[i], tensors.memory.data + layout.offsets[i]});
  return *found;
}

int64_t tensor_memory::spare_bytes() const {
  int64_t bytes = 0;
  for (const auto& t : all_)
    if (is_spare(t)) bytes += t->memory.bytes;
  return bytes;
}

void tensor_memory::trim(int64_t most_spare_bytes) {
  int64_t over = spare_bytes() - most_spare_bytes;
  std::erase_if(all_, [&](const auto& t) {
    const bool goes = over > 0 && is_spare(t);
    if (goes) over -= t->memory.bytes;
    return goes;
  });
}

}  // namespace cudal1
