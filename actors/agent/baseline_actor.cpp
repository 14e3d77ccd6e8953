#include "actors/agent/baseline_actor.hpp"

#include <cerrno>
#include <cstring>

#include <sys/eventfd.h>
#include <unistd.h>

#include "config/base/blob.hpp"
#include "config/base/thread_cores.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

expected<std::shared_ptr<baseline_cancel>> baseline_cancel::make() {
  unique_fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail(errc::infrastructure, "cannot create an eventfd: {}", std::strerror(errno));
  return std::make_shared<baseline_cancel>(std::move(event));
}

void baseline_cancel::set() {
  const uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof one);  // fails only if it is set already
}

void baseline_cancel::clear() {
  uint64_t earlier = 0;
  (void)!::read(event_.get(), &earlier, sizeof earlier);  // fails only if it is not set
}

void baseline_state::begin(baseline_setup setup) {
  setup_ = std::move(setup);
  // For the process and its compilers, which inherit it. May fail: a container may allow fewer cores.
  if (!setup_.seen.empty()) (void)move_this_thread(setup_.seen);
}

// A blob: the model's Python file, or the task itself, whose steps tools/python/task_model.py calls one by one.
expected<std::string> baseline_state::source_of(const task& t) const {
  const blobs kept(setup_.data);
  if (!t.is_whole_model()) return kept.put(canonical_text(t), ".json");
  CUDAL1_CHECK(open_blob(kept.folder(), t.origin->source));
  return t.origin->source;
}

expected<baseline_times> baseline_state::measure(const message::measure_baseline& m) {
  baseline_times times;
  CUDAL1_TRY(times.source, source_of(*m.what));
  if (!measurer_) {
    CUDAL1_TRY(measurer_, setup_.make({setup_.device, setup_.data + "/baseline.log", setup_.cancel->fd()}));
  }
  if (m.wanted.compares) {
    CUDAL1_TRY(times.comparison, measurer_->compare(*m.what, blobs(setup_.data).folder()));
    return times;
  }
  baseline_request r = m.wanted;
  r.source = blobs(setup_.data).folder() + "/" + times.source;
  r.flush_bytes = setup_.of_device.flush_bytes;
  r.threads = setup_.of_device.threads;
  r.cores = setup_.of_device.cores;
  CUDAL1_TRY(times.kinds, measurer_->measure(r));
  times.torch = measurer_->torch();
  return times;
}

expected<message::done> baseline_state::release() {
  measurer_.reset();
  setup_.cancel->clear();
  return message::done{};
}

baseline_actor::behavior_type run_baseline(baseline_actor::stateful_pointer<baseline_state> self,
                                           const std::shared_ptr<baseline_setup>& setup) {
  prepare(self);
  auto& s = self->state;
  s.begin(std::move(*setup));
  return {
      [&s](const message::measure_baseline& m) { return reply_or_error(s.name, [&] { return s.measure(m); }); },
      [&s](const message::device_held&) { return reply_or_error(s.name, [&] { return s.release(); }); },
  };
}

}  // namespace cudal1
