// Device memory that draws lie in. What a draw leaves serves the next one that is laid out in as much, also another
// task's: to make memory and to map it in two processes takes as long as to fill it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sandbox/cuda/referee/referee_device.hpp"
#include "sandbox/referee/referee_backend.hpp"

namespace cudal1 {

// A draw's inputs or weights. A runner maps the memory by its id, which no other memory ever has in this process. When
// nobody holds the tensors any more, the same memory may be filled with others: the id stays, and with it the runner's
// mapping, and the generation is another one.
struct shared_tensors final : drawn_tensors {
  int64_t id = 0, generation = 0;
  bool weights = false;
  int64_t layout_bytes = 0;  // as device_layout_of says
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

  // For tensors of these types, which are not filled yet: spare memory, or new. Errors as make_memory's.
  expected<std::shared_ptr<shared_tensors>> take(const std::vector<tensor_type>& types, bool weights);
  // Of what nobody holds any more.
  int64_t spare_bytes() const;
  // Gives spare memory back to the device until no more is left than that; the oldest goes first.
  void trim(int64_t most_spare_bytes);

 private:
  referee_device& device_;
  std::vector<std::shared_ptr<shared_tensors>> all_;  // spare where this holds it alone
};

}  // namespace cudal1
