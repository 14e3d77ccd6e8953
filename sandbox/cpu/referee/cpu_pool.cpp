#include "sandbox/cpu/referee/cpu_pool.hpp"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

#include "sandbox/referee/draws.hpp"
#include "sandbox/referee/elements.hpp"

namespace cudal1 {
namespace {

int64_t bytes_of(const std::vector<tensor_type>& types) {
  int64_t bytes = 0;
  for (const auto& type : types)
    bytes += type.storage_bytes();
  return bytes;
}

int64_t bytes_of(const answer& a) {
  int64_t bytes = 0;
  for (const auto& tensor : a)
    bytes += static_cast<int64_t>(tensor.size());
  return bytes;
}

// Another stream for each tensor of a draw.
uint64_t seed_of(uint64_t seed, tensor_role role, std::size_t index) {
  return seed ^ (0x9e3779b97f4a7c15 * (2 * index + (role == tensor_role::weight ? 2 : 1)));
}

}  // namespace

draw_pool::draw_pool(task t, weight_contents contents, reference_program reference, int64_t memory_bound)
    : task_(std::move(t)),
      contents_(std::move(contents)),
      reference_(std::move(reference)),
      memory_bound_(memory_bound) {
  for (const auto& d : task_.reference.text.inputs)
    input_types_.push_back(d.type);
  for (const auto& d : task_.reference.text.weights)
    weight_types_.push_back(d.type);
  const int64_t each =
      bytes_of(input_types_) + bytes_of(reference_.output_types()) + bytes_of(reference_.exact_types());
  timing_draws_ = static_cast<int>(std::clamp<int64_t>(memory_bound / 2 / std::max<int64_t>(each, 1), 4, 8));
  renew();
}

expected<std::unique_ptr<draw_pool>> draw_pool::open(task t, weight_contents contents, int64_t memory_bound) {
  CUDAL1_TRY(auto reference, reference_program::load(t));
  std::unique_ptr<draw_pool> pool(new draw_pool(std::move(t), std::move(contents), std::move(reference), memory_bound));
  // The first draw now, so that a task that cannot be computed is an error of opening it.
  CUDAL1_CHECK(pool->get({}, 0));
  return pool;
}

void draw_pool::renew() {
  ++generation_;
  seeds_.clear();
  draws_.clear();
  bytes_ = 0;
  if (!contents_.complete()) declared_weights_.reset();
  declared_weight_seed_ = system_seed();
}

expected<unique_fd> draw_pool::make_file(tensor_role role, const draw_request& request) const {
  const bool input = role == tensor_role::input;
  const auto& types = input ? input_types_ : weight_types_;
  const auto& specs = input ? task_.inputs : task_.weights;
  const tensor_layout layout = layout_of(types);
  CUDAL1_TRY(unique_fd file, make_shared_memory(input ? "cudal1-inputs" : "cudal1-weights", layout.file_bytes));
  {
    CUDAL1_TRY(const mapping memory, map_shared(file.get(), layout.file_bytes, true, true));
    for (std::size_t i = 0; i < types.size(); ++i) {
      const auto& place = layout.places[i];
      std::byte* const target = memory.data() + place.file_offset + place.data_offset;
      const uint64_t seed = seed_of(request.seed, role, i);
      const std::byte* const content = input ? nullptr : contents_.of(i);
      if (types[i].is_contiguous()) {
        draw_tensor(types[i], specs[i], role, request.kind, seed, target, content);
        continue;
      }
      std::vector<std::byte> flat(static_cast<std::size_t>(types[i].bytes()));
      draw_tensor(types[i], specs[i], role, request.kind, seed, flat.data(), content);
      scatter(types[i], flat.data(), target);
    }
  }
  CUDAL1_CHECK(seal_content(file.get()));
  return file;
}

expected<std::shared_ptr<draw>> draw_pool::make(const draw_request& request) {
  auto made = std::make_shared<draw>();
  made->request = request;
  CUDAL1_TRY(made->inputs, make_file(tensor_role::input, request));
  if (request.kind == draw_kind::declared) {
    if (!declared_weights_) {
      CUDAL1_TRY(unique_fd file, make_file(tensor_role::weight, {draw_kind::declared, declared_weight_seed_}));
      declared_weights_ = std::make_shared<unique_fd>(std::move(file));
    }
    made->weights = declared_weights_;
  } else {
    CUDAL1_TRY(unique_fd file, make_file(tensor_role::weight, request));
    made->weights = std::make_shared<unique_fd>(std::move(file));
  }
  CUDAL1_TRY(const auto inputs, mapped_tensors::map(made->inputs.get(), layout_of(input_types_)));
  CUDAL1_TRY(const auto weights, mapped_tensors::map(made->weights->get(), layout_of(weight_types_)));
  CUDAL1_TRY(made->answers, reference_.run(inputs, weights));
  made->bytes = bytes_of(input_types_) + bytes_of(made->answers.eager) + bytes_of(made->answers.exact);
  if (request.kind != draw_kind::declared) made->bytes += bytes_of(weight_types_);
  return made;
}

uint64_t draw_pool::seed(const draw_request& request, int ordinal) {
  if (request.seed != 0) return request.seed;
  uint64_t& chosen = seeds_[{request.kind, ordinal}];
  if (chosen == 0) chosen = system_seed();
  return chosen;
}

expected<std::shared_ptr<const draw>> draw_pool::get(const draw_request& request, int ordinal) {
  const draw_request wanted{request.kind, seed(request, ordinal)};
  const auto found = std::ranges::find_if(
      draws_, [&](const auto& d) { return d->request.kind == wanted.kind && d->request.seed == wanted.seed; });
  if (found != draws_.end()) {
    draws_.splice(draws_.begin(), draws_, found);
  } else {
    CUDAL1_TRY(auto made, make(wanted));
    bytes_ += made->bytes;
    draws_.push_front(std::move(made));
    trim();
  }
  return std::shared_ptr<const draw>(draws_.front());
}

void draw_pool::trim() {
  while (bytes_ > memory_bound_ && draws_.size() > 1) {
    bytes_ -= draws_.back()->bytes;
    draws_.pop_back();
  }
}

}  // namespace cudal1
