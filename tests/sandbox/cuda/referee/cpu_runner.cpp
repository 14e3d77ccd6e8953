#include "tests/sandbox/cuda/referee/cpu_runner.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cpu/runtime/object_library.hpp"
#include "sandbox/cuda/runner/gpu_messages.hpp"
#include "sandbox/cuda/runtime/device_memory.hpp"
#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/shared_memory.hpp"

namespace cudal1::test {
namespace {

constexpr std::chrono::minutes peer_timeout{5};

struct given_tensors {
  unique_fd file;
  mapping mapped;
};

struct resident_program_on_cpu {
  std::unique_ptr<kernel_library> kernels;
  std::unique_ptr<interpreter> run;
  std::vector<tensor_type> inputs, weights;
  std::pair<int64_t, int64_t> bound_weights{-1, -1};  // id and generation
  std::set<std::string> seen;                         // the inputs of its calls since it was loaded
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
  explicit cpu_runner(bool spoils) : spoils_(spoils) {}
  expected<gpu_reply> answer(frame& f) {
    switch (f.type) {
      case frame_type::arena:
        return take_arena(f);
      case frame_type::load:
        return load(f);
      case frame_type::unload: {
        CUDAL1_TRY(const auto m, record_of<gpu_unload_message>(f));
        programs_.erase(m.which);
        texts_.erase(m.which);
        return gpu_reply{};
      }
      case frame_type::tensors:
        return take_tensors(f);
      case frame_type::drop: {
        CUDAL1_TRY(const auto m, record_of<gpu_drop_message>(f));
        for (const int64_t id : m.ids)
          if (given_.erase(id) == 0) return fail(errc::corrupt, "there is nothing to drop");
        return gpu_reply{};
      }
      case frame_type::call:
        return calls(f);
      default:
        return fail(errc::corrupt, "no such frame");
    }
  }

 private:
  // The last quarter is for outputs that are kept.
  expected<gpu_reply> take_arena(frame& f) {
    CUDAL1_TRY(const auto m, record_of<gpu_arena_message>(f));
    const int64_t bytes = m.bytes.at(0);  // tests are content with the first part
    CUDAL1_TRY(progress_, map_shared(f.descriptors.at(0).get(), gpu_progress::bytes, memory_access::read_write));
    CUDAL1_TRY(arena_, map_shared(f.descriptors.at(1).get(), bytes, memory_access::read_write));
    CUDAL1_CHECK(install_arena({.base = arena_.data(), .bytes = bytes / 4 * 3, .poison_seed = 1}));
    return gpu_reply{};
  }

  expected<gpu_reply> load(frame& f) {
    CUDAL1_TRY(const auto m, record_of<gpu_load_message>(f));
    programs_.erase(m.which);
    resident_program_on_cpu p;
    if (!f.descriptors.empty()) {
      CUDAL1_TRY(p.kernels, load_object(f.descriptors[0].get()));
    }
    if (!m.program.empty()) texts_[m.which] = m.program;
    CUDAL1_TRY(auto checked, check_program_text(texts_[m.which]));
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
    CUDAL1_TRY(t.mapped, map_shared(f.descriptors.at(0).get(), m.bytes, memory_access::read_only));
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

  expected<void> copy_outputs(resident_program_on_cpu& p, gpu_call_record& record) {
    for (std::size_t i = 0; i < record.outputs.size(); ++i) {
      if (record.outputs[i].home != static_cast<uint32_t>(output_home::arena)) continue;
      const tensor_view& output = p.run->outputs()[i];
      const auto bytes = static_cast<std::size_t>(output.type.storage_bytes());
      if (kept_ + bytes > arena_.size()) return fail(errc::infrastructure, "no room for an output's copy");
      std::memcpy(arena_.data() + kept_, output.data, bytes);
      record.outputs[i].offset = static_cast<int64_t>(kept_);
      kept_ += (bytes + 63) / 64 * 64;
    }
    return {};
  }

  expected<gpu_reply> calls(frame& f) {
    CUDAL1_TRY(const auto m, record_of<gpu_calls_message>(f));
    gpu_reply reply;
    kept_ = arena_.size() / 4 * 3;
    reply.notes = {"computed on the CPU"};
    for (const auto& one : m.calls) {
      ++reinterpret_cast<gpu_progress*>(progress_.data())->calls;
      CUDAL1_TRY(auto record, call(one));
      reply.calls.push_back(std::move(record));
    }
    if (spoils_ && m.calls.size() > 1) arena_.data()[arena_.size() / 4 * 3 + 5] ^= std::byte{1};
    return reply;
  }

  expected<gpu_call_record> call(const gpu_call& m) {
    auto& p = programs_.at(m.which);
    auto& given = given_.at(m.inputs);
    mapping moved;
    if (m.elsewhere) {
      CUDAL1_TRY(moved,
                 map_shared(given.file.get(), static_cast<int64_t>(given.mapped.size()), memory_access::read_only));
    }
    const auto inputs = views_of(p.inputs, (m.elsewhere ? moved : given.mapped).data());
    const bool is_new = p.seen.emplace(reinterpret_cast<const char*>(given.mapped.data()), given.mapped.size()).second;
    if (!is_new && m.mode != call_mode::untimed)
      return fail(errc::infrastructure, "the {} is timed on a draw that it has met before", enum_name(m.which));
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
    gpu_call_record record;
    record.microseconds = took.count();
    record.guard_problem = arena_check_guards().problem;
    const fingerprint bits = hash_on_host(p.run->outputs(), m.key);
    record.hash_low = bits.low;
    record.hash_high = bits.high;
    if (!m.keep) return record;
    for (const auto& output : p.run->outputs())
      record.outputs.push_back(place_of(output, inputs));
    CUDAL1_CHECK(copy_outputs(p, record));
    return record;
  }

  bool spoils_;
  mapping progress_;
  std::size_t kept_ = 0;  // the end of kept outputs in the arena
  mapping arena_;
  std::map<resident_program, resident_program_on_cpu> programs_;
  std::map<resident_program, std::string> texts_;  // the last text of each
  std::map<int64_t, given_tensors> given_;
};

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::vector<std::byte> in_order(const tensor_view& t) {
  const auto element = static_cast<std::size_t>(size_of(t.type.type));
  std::vector<std::byte> bytes(static_cast<std::size_t>(t.type.bytes()));
  for (std::size_t i = 0; i * element < bytes.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t offset = 0;
    for (std::size_t d = t.type.shape.size(); d-- > 0; rest /= t.type.shape[d])
      offset += rest % t.type.shape[d] * t.type.strides[d];
    std::memcpy(&bytes[i * element], static_cast<const std::byte*>(t.data) + offset * static_cast<int64_t>(element),
                element);
  }
  return bytes;
}

uint64_t product_of_halves(uint64_t value, uint64_t key) {
  return uint64_t{static_cast<uint32_t>(value) + static_cast<uint32_t>(key)} *
         (static_cast<uint32_t>(value >> 32) + static_cast<uint32_t>(key >> 32));
}

}  // namespace

fingerprint hash_on_host(std::span<const tensor_view> outputs, uint64_t key) {
  fingerprint sum;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const hash_launch h = hash_of_output(outputs[i].type, outputs[i].data, key, i);
    sum += h.base;
    auto bytes = in_order(outputs[i]);
    bytes.resize((bytes.size() + 15) / 16 * 16);
    for (uint64_t p = 0; p < bytes.size() / 16; ++p) {
      uint64_t values[2];
      std::memcpy(values, &bytes[16 * p], sizeof values);
      const uint64_t first = mixed(h.first_secret + 0x9e3779b97f4a7c15 * (p + 1)),
                     second = mixed(h.second_secret ^ 0xd1b54a32d192ed03 * (p + 1)),
                     third = (first ^ (second >> 29)) * 0xbf58476d1ce4e5b9,
                     fourth = (second ^ (first >> 31)) * 0x94d049bb133111eb;
      sum.low += product_of_halves(values[0], first) + product_of_halves(values[1], second);
      sum.high += product_of_halves(values[0], third) + product_of_halves(values[1], fourth);
    }
  }
  return sum;
}

int serve_on_cpu(int channel, bool spoils) {
  auto& self = *new cpu_runner(spoils);  // the arena outlives every tensor
  for (;;) {
    auto f = receive_frame(channel, deadline_in(peer_timeout));
    if (!f) return 0;
    const auto reply = self.answer(*f);
    const auto sent = reply ? send_record(channel, frame_type::done, *reply, deadline_in(peer_timeout))
                            : send_failure(channel, reply.error(), deadline_in(peer_timeout));
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
