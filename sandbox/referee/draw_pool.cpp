#include "sandbox/referee/draw_pool.hpp"

#include <algorithm>

#include "sandbox/referee/draw_recipe.hpp"

namespace cudal1 {
namespace {

constexpr int64_t most_timing_draws = 8;
constexpr int single_forks_device_pairs = 2;  // one in each fork where there are more

int64_t bytes_of(const std::vector<tensor_type>& types) {
  int64_t bytes = 0;
  for (const auto& type : types)
    bytes += type.storage_bytes();
  return bytes;
}

// Elements of the outputs of which float32 and the exact output are finite.
double compared_elements(const expected_outputs& outputs) {
  double all = 0;
  for (const auto& s : outputs.statistics)
    all += s.compared;
  return all;
}

// A separate random stream for each tensor of a draw.
uint64_t seed_of(uint64_t seed, tensor_role role, std::size_t index) {
  return seed ^ (0x9e3779b97f4a7c15 * (2 * index + (role == tensor_role::weight ? 2 : 1)));
}

template <class T>
bool is_out_of_memory(const expected<T>& made) {
  return !made && made.error().code == errc::out_of_memory;
}

}  // namespace

int64_t rounding_distances::bytes() const {
  int64_t bytes = 0;
  for (const auto& output : of_outputs)
    bytes += static_cast<int64_t>(output.size() * sizeof(float));
  return bytes;
}

draw_pool::draw_pool(task t, weight_contents contents, reference_program reference, referee_backend& backend,
                     int64_t memory_bound, std::function<void()> evict_others)
    : task_(std::move(t)),
      contents_(std::move(contents)),
      reference_(std::move(reference)),
      backend_(backend),
      memory_bound_(memory_bound),
      evict_others_(std::move(evict_others)),
      input_types_(types_of(task_.reference.text.inputs)),
      weight_types_(types_of(task_.reference.text.weights)) {
  const int64_t each =
      bytes_of(input_types_) + bytes_of(reference_.output_types()) + bytes_of(reference_.exact_types());
  const int64_t fewest = backend.traits().fewest_timing_draws;
  most_timing_draws_ = static_cast<int>(
      std::clamp(memory_bound / 2 / std::max<int64_t>(each, 1), fewest, std::max(fewest, most_timing_draws)));
  renew();
}

expected<std::unique_ptr<draw_pool>> draw_pool::open(task t, weight_contents contents, referee_backend& backend,
                                                     int64_t memory_bound, std::function<void()> evict_others) {
  CUDAL1_TRY(auto reference, reference_program::load(t, backend.interpreter_device(), backend.reference_bytes()));
  std::unique_ptr<draw_pool> pool(new draw_pool(std::move(t), std::move(contents), std::move(reference), backend,
                                                memory_bound, std::move(evict_others)));
  CUDAL1_CHECK(pool->get({}, 0));
  return pool;
}

void draw_pool::forget_if(const std::function<bool(const draw&)>& goes) {
  std::erase_if(draws_, [&](const auto& d) {
    const bool forgotten = goes(*d);
    if (forgotten) bytes_ -= d->bytes;
    return forgotten;
  });
}

void draw_pool::renew() {
  const bool all = renewals_++ % backend_.traits().renewals_of_other_kinds == 0;
  std::erase_if(seeds_, [&](const auto& s) { return all || s.first.first == draw_kind::declared; });
  forget_if([&](const draw& d) { return all || d.request.kind == draw_kind::declared; });
  if (!contents_.complete()) declared_weights_.reset();
  declared_weight_seed_ = system_seed();
  trim_spare();
}

void draw_pool::set_tolerances(const tolerances& allowed) {
  allowed_ = allowed;
  forget_if([&](const draw& d) { return d.expected->allowed != allowed; });
}

expected<std::shared_ptr<const drawn_tensors>> draw_pool::make_tensors(tensor_role role, const draw_request& request) {
  const bool input = role == tensor_role::input;
  const auto& types = input ? input_types_ : weight_types_;
  const auto& specs = input ? task_.inputs : task_.weights;
  CUDAL1_TRY(auto made, backend_.make_tensors(types, role));
  // One of the inputs, so that no product of two that are nearly everywhere 0 hides it.
  const std::size_t with_impulses =
      input && request.kind == draw_kind::impulses && !types.empty() ? request.seed % types.size() : types.size();
  for (std::size_t i = 0; i < types.size(); ++i)
    CUDAL1_CHECK(backend_.fill(*made, i,
                               {.type = types[i],
                                .spec = specs[i],
                                .role = role,
                                .kind = request.kind,
                                .seed = seed_of(request.seed, role, i),
                                .content = input ? contents_.of_input(i, request.seed) : contents_.of(i),
                                .has_impulses = i == with_impulses}));
  if (made) CUDAL1_CHECK(backend_.seal(*made));
  return std::shared_ptr<const drawn_tensors>(std::move(made));
}

// Outliers in the weights of every layer may take float32 out of its range on the way, where the exact output is a
// number: eager gives NaN then, another order of operations a number, and neither is wrong.
expected<std::shared_ptr<draw>> draw_pool::tamed(std::shared_ptr<draw> made) {
  double elements = 0;
  for (const auto& type : reference_.output_types())
    elements += static_cast<double>(type.numel());
  const double compared = compared_elements(*made->expected);
  if (!has_outliers(made->request.kind) || !made->weights || compared >= elements) return made;
  auto other = std::make_shared<draw>(*made);
  auto weights = make_tensors(tensor_role::weight, {draw_kind::declared, made->request.seed});
  if (is_out_of_memory(weights)) return made;
  CUDAL1_TRY(other->weights, std::move(weights));
  auto computed = backend_.compute(reference_, *other, allowed_);
  if (is_out_of_memory(computed)) return made;
  CUDAL1_TRY(other->expected, std::move(computed));
  return compared_elements(*other->expected) > compared ? other : made;
}

expected<std::shared_ptr<const draw>> draw_pool::make(const draw_request& request) {
  auto made = std::make_shared<draw>();
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
  CUDAL1_TRY(made->expected, backend_.compute(reference_, *made, allowed_));
  CUDAL1_TRY(made, tamed(std::move(made)));
  const double took_ms = made->expected->reference_ms;
  reference_ms_ = reference_ms_ > 0 ? std::min(reference_ms_, took_ms) : took_ms;
  made->bytes = made->expected->bytes + (made->inputs ? made->inputs->bytes : 0);
  if (request.kind != draw_kind::declared && made->weights) made->bytes += made->weights->bytes;
  draw_bytes_ = std::max(draw_bytes_, made->bytes);
  return std::shared_ptr<const draw>(std::move(made));
}

expected<std::shared_ptr<const draw>> draw_pool::make_evicting(const draw_request& request) {
  auto made = make(request);
  if (!is_out_of_memory(made)) return made;
  evict_others_();
  made = make(request);
  if (!is_out_of_memory(made)) return made;
  // Halve the bound, so that the next draw does not run out of memory again.
  while (!draws_.empty()) {
    memory_bound_ = bytes_ / 2;
    make_room(0, 0);
    trim_spare();
    evict_others_();
    made = make(request);
    if (!is_out_of_memory(made)) return made;
  }
  // What operators need beside their tensors is not known ahead.
  while (is_out_of_memory(made) && reference_.use_less_memory())
    made = make(request);
  if (!is_out_of_memory(made)) return made;
  return fail(errc::unsupported, "task {}: not enough memory for its inputs and expected outputs: {}", task_.name,
              made.error().message);
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
    make_room(draw_bytes_, 0);  // the new draw reuses the memory of an old one
    CUDAL1_TRY(auto made, make_evicting(wanted));
    bytes_ += made->bytes;
    draws_.push_front(std::move(made));
    make_room(0, 1);
    trim_spare();
  }
  return draws_.front();
}

expected<std::shared_ptr<const draw>> draw_pool::with_rounding(std::shared_ptr<const draw> d) {
  const auto kept = std::ranges::find_if(draws_, [&](const auto& held) {
    return held->request.kind == d->request.kind && held->request.seed == d->request.seed;
  });
  if (kept != draws_.end() && (*kept)->rounding) return *kept;
  auto found = backend_.find_rounding(reference_, *d);
  if (is_out_of_memory(found)) {
    evict_others_();
    found = backend_.find_rounding(reference_, *d);
  }
  if (!found) return tl::unexpected(found.error());
  auto more = std::make_shared<draw>(*d);
  more->rounding = std::move(*found);
  more->bytes += more->rounding->bytes();
  if (kept != draws_.end()) {
    bytes_ += more->bytes - (*kept)->bytes;
    *kept = more;
  }
  return more;
}

draws_of_fork draw_pool::fork_of(const timing_plan& plan) const {
  draws_of_fork fork;
  const int most = most_timing_draws_ - 1;
  const bool has_clock = backend_.traits().has_device_clock && plan.pairs > 0;
  const bool by_device = has_clock && plan.scored_by == score_clock::device;
  const int some = has_clock ? std::min(plan.forks > 1 ? 1 : single_forks_device_pairs, most - 1) : 0;
  fork.device_pairs = by_device ? std::min(plan.pairs, std::max(most / 2, 1)) : some;
  // Never at the expense of the pairs that were asked for.
  fork.warm_pairs = by_device ? std::clamp(most - fork.device_pairs - plan.pairs, 0, some) : 0;
  fork.pairs = std::clamp(plan.pairs, 0, most - fork.device_pairs - fork.warm_pairs);
  fork.device_pairs = std::min(fork.device_pairs, fork.pairs);
  fork.warm_pairs = std::min(fork.warm_pairs, fork.pairs);
  fork.draws = std::max(2, fork.pairs + fork.device_pairs + fork.warm_pairs + 1);
  return fork;
}

int draw_pool::draws_at_once() const {
  return static_cast<int>(std::clamp<int64_t>(memory_bound_ / std::max<int64_t>(draw_bytes_, 1), 1, 1024));
}

void draw_pool::make_room(int64_t more, std::size_t kept) {
  while (bytes_ + more > memory_bound_ && draws_.size() > kept) {
    bytes_ -= draws_.back()->bytes;
    draws_.pop_back();
  }
}

void draw_pool::trim_spare() {
  backend_.trim(std::max<int64_t>(memory_bound_ - bytes_, 0));
}

}  // namespace cudal1
