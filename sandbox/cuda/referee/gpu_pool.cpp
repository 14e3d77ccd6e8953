#include "sandbox/cuda/referee/gpu_pool.hpp"

#include <algorithm>

#include "sandbox/cuda/referee/gpu_draws.hpp"
#include "sandbox/cuda/runtime/device_memory.hpp"
#include "sandbox/interpreter/boxed_values.hpp"

namespace cudal1 {
namespace {

// Another stream for each tensor of a draw.
uint64_t seed_of(uint64_t seed, tensor_role role, std::size_t index) {
  return seed ^ (0x9e3779b97f4a7c15 * (2 * index + (role == tensor_role::weight ? 2 : 1)));
}

constexpr int renewals_of_other_kinds = 4;
constexpr int64_t least_share_free = 8;  // one part of so many of the device's memory

int64_t next_generation() {
  static int64_t last = 0;
  return ++last;
}

bool wants_memory(const error& e) {
  return e.message.find("out of memory") != std::string::npos || e.message.find("has no room for") != std::string::npos;
}

std::span<const tensor_view> views_of(const std::shared_ptr<const shared_tensors>& tensors) {
  return tensors ? std::span<const tensor_view>(tensors->views) : std::span<const tensor_view>();
}

}  // namespace

gpu_draw_pool::gpu_draw_pool(task t, weight_contents contents, answering_programs programs, tensor_memory& memory,
                             output_comparer& comparer, int64_t memory_bound, std::function<void()> others_go)
    : task_(std::move(t)),
      contents_(std::move(contents)),
      programs_(std::move(programs)),
      memory_(memory),
      comparer_(comparer),
      memory_bound_(memory_bound),
      others_go_(std::move(others_go)) {
  for (const auto& d : task_.reference.text.inputs)
    input_types_.push_back(d.type);
  for (const auto& d : task_.reference.text.weights)
    weight_types_.push_back(d.type);
  renew();
}

expected<std::unique_ptr<gpu_draw_pool>> gpu_draw_pool::open(task t, weight_contents contents, tensor_memory& memory,
                                                             output_comparer& comparer, int64_t memory_bound,
                                                             std::function<void()> others_go) {
  CUDAL1_TRY(auto programs, answering_programs::load(t, memory.device()));
  std::unique_ptr<gpu_draw_pool> pool(new gpu_draw_pool(std::move(t), std::move(contents), std::move(programs), memory,
                                                        comparer, memory_bound, std::move(others_go)));
  CUDAL1_CHECK(pool->get({}, 0));
  return pool;
}

void gpu_draw_pool::forget_draws(bool declared_alone) {
  std::erase_if(draws_, [&](const auto& d) {
    const bool goes = !declared_alone || d->request.kind == draw_kind::declared;
    if (goes) bytes_ -= d->bytes;
    return goes;
  });
}

void gpu_draw_pool::renew() {
  const bool declared_alone = renewals_++ % renewals_of_other_kinds != 0;
  std::erase_if(seeds_, [&](const auto& s) { return !declared_alone || s.first.first == draw_kind::declared; });
  forget_draws(declared_alone);
  if (!contents_.complete()) declared_weights_.reset();
  declared_weight_seed_ = system_seed();
  trim_spare();
}

void gpu_draw_pool::judge_by(const tolerances& allowed) {
  if (allowed_ == allowed) return;
  allowed_ = allowed;
  forget_draws(false);
}

expected<std::shared_ptr<const shared_tensors>> gpu_draw_pool::make_tensors(tensor_role role,
                                                                            const draw_request& request) {
  const bool input = role == tensor_role::input;
  const auto& types = input ? input_types_ : weight_types_;
  const auto& specs = input ? task_.inputs : task_.weights;
  if (types.empty()) return std::shared_ptr<const shared_tensors>();
  CUDAL1_TRY(const auto made, memory_.take(types, !input));
  made->generation = next_generation();
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto target = wrap({types[i], made->views[i].data}, memory_.device().where());
    CUDAL1_CHECK(fill_draw(target, types[i], specs[i], role, request.kind, seed_of(request.seed, role, i),
                           input ? nullptr : contents_.of(i)));
  }
  return std::shared_ptr<const shared_tensors>(made);
}

expected<std::shared_ptr<const gpu_draw>> gpu_draw_pool::make(const draw_request& request) {
  auto made = std::make_shared<gpu_draw>();
  made->request = request;
  CUDAL1_TRY(made->inputs, make_tensors(tensor_role::input, request));
  if (request.kind == draw_kind::declared) {
    if (!declared_weights_) {
      CUDAL1_TRY(declared_weights_, make_tensors(tensor_role::weight, {draw_kind::declared, declared_weight_seed_}));
    }
    made->weights = declared_weights_;
  } else {
    CUDAL1_TRY(made->weights, make_tensors(tensor_role::weight, request));
  }
  CUDAL1_TRY(made->answers, programs_.run(views_of(made->inputs), views_of(made->weights), allowed_, comparer_));
  made->bytes = made->answers.bytes + (made->inputs ? made->inputs->memory.bytes : 0);
  if (request.kind != draw_kind::declared && made->weights) made->bytes += made->weights->memory.bytes;
  draw_bytes_ = std::max(draw_bytes_, made->bytes);
  CUDAL1_CHECK(give_back_where_short());
  return std::shared_ptr<const gpu_draw>(std::move(made));
}

expected<std::shared_ptr<const gpu_draw>> gpu_draw_pool::make_somehow(const draw_request& request) {
  auto made = make(request);
  if (made || !wants_memory(made.error())) return made;
  others_go_();
  made = make(request);
  if (made || !wants_memory(made.error())) return made;
  // So much was too much: half of it is the bound from now on, else the next draw would find out again.
  while (!draws_.empty()) {
    memory_bound_ = bytes_ / 2;
    make_room(0, 0);
    trim_spare();
    others_go_();
    made = make(request);
    if (made || !wants_memory(made.error())) return made;
  }
  return fail(errc::unsupported, "task {} needs more memory than there is for its inputs and its answers: {}",
              task_.name, made.error().message);
}

// The runner's libraries and other tasks want some of it as well.
expected<void> gpu_draw_pool::give_back_where_short() {
  CUDAL1_TRY(const device_room room, memory_.device().room());
  if (room.free < room.total / least_share_free) memory_.device().give_back();
  return {};
}

uint64_t gpu_draw_pool::seed(const draw_request& request, int ordinal) {
  if (request.seed != 0) return request.seed;
  uint64_t& chosen = seeds_[{request.kind, ordinal}];
  if (chosen == 0) chosen = system_seed();
  return chosen;
}

expected<std::shared_ptr<const gpu_draw>> gpu_draw_pool::get(const draw_request& request, int ordinal) {
  const draw_request wanted{request.kind, seed(request, ordinal)};
  const auto found = std::ranges::find_if(
      draws_, [&](const auto& d) { return d->request.kind == wanted.kind && d->request.seed == wanted.seed; });
  if (found != draws_.end()) {
    draws_.splice(draws_.begin(), draws_, found);
  } else {
    make_room(draw_bytes_, 0);  // the new draw takes over the memory of one that goes
    CUDAL1_TRY(auto made, make_somehow(wanted));
    bytes_ += made->bytes;
    draws_.push_front(std::move(made));
    make_room(0, 1);
    trim_spare();
  }
  return draws_.front();
}

int gpu_draw_pool::draws_at_once() const {
  return static_cast<int>(std::clamp<int64_t>(memory_bound_ / std::max<int64_t>(draw_bytes_, 1), 1, 1024));
}

void gpu_draw_pool::make_room(int64_t more, std::size_t kept) {
  while (bytes_ + more > memory_bound_ && draws_.size() > kept) {
    bytes_ -= draws_.back()->bytes;
    draws_.pop_back();
  }
}

void gpu_draw_pool::trim_spare() {
  memory_.trim(std::max<int64_t>(memory_bound_ - bytes_, 0));
}

}  // namespace cudal1
