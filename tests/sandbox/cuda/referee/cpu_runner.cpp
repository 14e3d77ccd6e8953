#include "tests/sandbox/cuda/referee/cpu_runner.hpp"

#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cpu/kernel_library.hpp"
#include "sandbox/cuda/memory.hpp"
#include "sandbox/cuda/messages.hpp"
#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/process/frame.hpp"
#include "sandbox/process/shared_memory.hpp"

namespace cudal1::test {
namespace {

constexpr std::chrono::minutes patience{5};

struct given_tensors {
  unique_fd file;
  mapping mapped;
};

struct resident_program_on_cpu {
  std::unique_ptr<kernel_library> kernels;
  std::unique_ptr<interpreter> run;
  std::vector<tensor_type> inputs, weights;
  std::pair<int64_t, int64_t> bound_weights{-1, -1};  // id and generation
};

std::vector<tensor_view> views_of(const std::vector<tensor_type>& types, std::byte* base) {
  const device_layout layout = device_layout_of(types);
  std::vector<tensor_view> views;
  for (std::size_t i = 0; i < types.size(); ++i)
    views.push_back({types[i], base + layout.offsets[i]});
  return views;
}

class cpu_runner {
 public:
  expected<gpu_reply> answer(frame& f) {
    switch (f.type) {
      case frame_type::arena:
        return take_arena(f);
      case frame_type::load:
        return load(f);
      case frame_type::unload: {
        CUDAL1_TRY(const auto m, record_of<gpu_unload_message>(f));
        programs_.erase(m.which);
        return gpu_reply{};
      }
      case frame_type::tensors:
        return take_tensors(f);
      case frame_type::drop: {
        CUDAL1_TRY(const auto m, record_of<gpu_drop_message>(f));
        if (given_.erase(m.id) == 0) return fail(errc::corrupt, "there is nothing to drop");
        return gpu_reply{};
      }
      case frame_type::call:
        return call(f);
      default:
        return fail(errc::corrupt, "no such frame");
    }
  }

 private:
  expected<gpu_reply> take_arena(frame& f) {
    CUDAL1_TRY(const auto m, record_of<gpu_arena_message>(f));
    CUDAL1_TRY(arena_, map_shared(f.descriptors.at(0).get(), m.bytes, true));
    CUDAL1_CHECK(install_arena({.base = arena_.data(), .bytes = m.bytes, .poison_seed = 1}));
    return gpu_reply{};
  }

  expected<gpu_reply> load(frame& f) {
    CUDAL1_TRY(const auto m, record_of<gpu_load_message>(f));
    programs_.erase(m.which);
    resident_program_on_cpu p;
    if (!f.descriptors.empty()) {
      CUDAL1_TRY(p.kernels, kernel_library::load(f.descriptors[0].get()));
    }
    CUDAL1_TRY(auto checked, check_program_text(m.program));
    for (const auto& d : checked.text.inputs)
      p.inputs.push_back(d.type);
    for (const auto& d : checked.text.weights)
      p.weights.push_back(d.type);
    CUDAL1_TRY(p.run, interpreter::load(std::move(checked), p.kernels.get()));
    programs_.emplace(m.which, std::move(p));
    return gpu_reply{};
  }

  expected<gpu_reply> take_tensors(frame& f) {
    CUDAL1_TRY(const auto m, record_of<gpu_tensors_message>(f));
    if (given_.contains(m.id)) return fail(errc::corrupt, "id {} is taken", m.id);
    given_tensors t;
    CUDAL1_TRY(t.mapped, map_shared(f.descriptors.at(0).get(), m.bytes, false));
    t.file = std::move(f.descriptors[0]);
    given_.emplace(m.id, std::move(t));
    return gpu_reply{};
  }

  gpu_output_place place_of(const tensor_view& output, const std::vector<tensor_view>& inputs) const {
    const auto* at = static_cast<const std::byte*>(output.data);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto* base = static_cast<const std::byte*>(inputs[i].data);
      if (at >= base && at < base + inputs[i].type.storage_bytes())
        return {static_cast<uint32_t>(output_home::input), static_cast<uint32_t>(i), at - base};
    }
    return {static_cast<uint32_t>(output_home::arena), 0, at - arena_.data()};
  }

  expected<gpu_reply> call(frame& f) {
    CUDAL1_TRY(const auto m, record_of<gpu_call_message>(f));
    auto& p = programs_.at(m.which);
    auto& given = given_.at(m.inputs);
    mapping moved;
    if (m.elsewhere) {
      CUDAL1_TRY(moved, map_shared(given.file.get(), static_cast<int64_t>(given.mapped.size()), false));
    }
    const auto inputs = views_of(p.inputs, (m.elsewhere ? moved : given.mapped).data());
    for (auto& [which, other] : programs_)
      other.run->release();
    arena_begin_call(m.seed);
    const std::pair wanted(m.weights, m.generation);
    if (p.bound_weights != wanted && m.weights != 0)
      CUDAL1_CHECK(p.run->set_weights(views_of(p.weights, given_.at(m.weights).mapped.data())));
    p.bound_weights = wanted;
    const auto start = std::chrono::steady_clock::now();
    CUDAL1_CHECK(p.run->call(inputs));
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    gpu_reply reply;
    reply.microseconds = took.count();
    reply.notes = {"computed on the CPU"};
    reply.guard_problem = arena_check_guards().problem;
    for (const auto& output : p.run->outputs())
      reply.outputs.push_back(place_of(output, inputs));
    return reply;
  }

  mapping arena_;
  std::map<resident_program, resident_program_on_cpu> programs_;
  std::map<int64_t, given_tensors> given_;
};

}  // namespace

int serve_on_cpu(int channel) {
  auto& self = *new cpu_runner;  // the arena outlives every tensor
  for (;;) {
    auto f = receive_frame(channel, deadline_in(patience));
    if (!f) return 0;
    const auto reply = self.answer(*f);
    const auto sent = reply ? send_record(channel, frame_type::done, *reply, deadline_in(patience))
                            : send_failure(channel, reply.error(), deadline_in(patience));
    if (!sent) return 1;
  }
}

forked_process& forked_process::operator=(forked_process&& other) noexcept {
  std::swap(pid, other.pid);
  std::swap(channel, other.channel);
  std::swap(pidfd, other.pidfd);
  return *this;
}

forked_process::~forked_process() {
  if (pid == 0) return;
  ::kill(pid, SIGKILL);
  (void)wait();
}

int forked_process::wait() {
  int status = 0;
  ::waitpid(std::exchange(pid, 0), &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

forked_process fork_process(const std::function<int(int channel)>& body) {
  auto ends = socket_pair();
  if (!ends) std::abort();
  forked_process p;
  p.pid = ::fork();
  if (p.pid == 0) {
    ends->first.reset();
    ::_exit(body(ends->second.get()));
  }
  p.channel = std::move(ends->first);
  p.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, p.pid, 0)));
  return p;
}

}  // namespace cudal1::test
