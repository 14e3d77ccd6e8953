// Device memory for draws. The memory of a draw is reused for the next one of the same size, of any task, because
// allocating memory and mapping it in two processes takes as long as filling it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sandbox/cuda/referee/referee_device.hpp"
#include "sandbox/referee/referee_backend.hpp"

namespace cudal1 {

// A draw's inputs or weights. A runner maps the memory by its id, which is unique in this process. Once the tensors are
// no longer used, the memory may be filled with others: the id and the runner's mapping stay, the generation changes.
struct shared_tensors final : drawn_tensors {
  int64_t id = 0, generation = 0;
  tensor_role role = tensor_role::input;
  int64_t layout_bytes = 0;  // by device_layout_of
  device_memory memory;
  std::vector<tensor_view> views;  // in `memory`

  static std::shared_ptr<const shared_tensors> of(const std::shared_ptr<const drawn_tensors>& tensors) {
    return std::static_pointer_cast<const shared_tensors>(tensors);
  }
};

// Not thread-safe.
class tensor_memory {
 public:
  explicit tensor_memory(referee_device& device) : device_(device) {}

  // Unfilled tensors of these types, in spare or new memory. Errors as of make_memory.
  expected<std::shared_ptr<shared_tensors>> take(const std::vector<tensor_type>& types, tensor_role role);
  // How much memory is no longer used.
  int64_t spare_bytes() const;
  // Frees spare memory, the oldest first, until no more than this is left.
  void trim(int64_t most_spare_bytes);

 private:
  referee_device& device_;
  std::vector<std::shared_ptr<shared_tensors>> all_;  // spare if this is the only owner
};

}  // namespace cudal1
