#include "sandbox/cpu/referee/cpu_runners.hpp"

#include <algorithm>

#include "sandbox/referee/elements.hpp"

namespace cudal1 {

tl::unexpected<error> cpu_runners::failed(resident_program which, const error& e) {
  if (link(which).problem()) return note_fault(which, *link(which).problem());
  if (link(which).lost()) return note_loss(which);
  return tl::unexpected<error>(e);
}

expected<void> cpu_runners::attach(resident_program which, std::span<unique_fd> descriptors,
                                   const call_limits& limits) {
  CUDAL1_TRY(links_[which == resident_program::variant ? 1 : 0],
             cpu_runner_link::attach(descriptors, {limits.call_ms, limits.memory_bytes, cores_.is_shared()},
                                     windows_[which == resident_program::variant ? 1 : 0]));
  tensor_bytes_ = limits.memory_bytes;
  return {};
}

expected<void> cpu_runners::load(resident_program which, const checked_program& p, int object, const std::string&) {
  if (const auto loaded = link(which).load(p, object); !loaded) return failed(which, loaded.error());
  load_ms_ += link(which).load_ms();
  return {};
}

expected<std::vector<call_record>> cpu_runners::run(const std::vector<planned_call>& calls) {
  std::vector<call_record> records;
  for (const auto& planned : calls) {
    auto record = call(planned);
    if (!record) return failed(planned.which, record.error());
    setup_ms_ = std::max(setup_ms_, link(planned.which).setup_ms());
    records.push_back(std::move(*record));
  }
  return records;
}

// Poison and addresses, then a runner that is stopped, then its inputs, the flush, the clock.
expected<call_record> cpu_runners::call(const planned_call& planned) {
  cpu_runner_link& runner = link(planned.which);
  const cpu_tensors& inputs = cpu_tensors::of(planned.draw->inputs);
  call_record record;
  CUDAL1_CHECK(runner.set_weights(planned.draw->weights));
  CUDAL1_CHECK(runner.prepare(planned.mode != call_mode::untimed));
  CUDAL1_CHECK(runner.hold());
  if (planned.mode == call_mode::untimed) {
    CUDAL1_CHECK(runner.give(inputs));
    runner.begin();
    CUDAL1_CHECK(runner.finish_call());
  } else {
    CUDAL1_TRY(record.flush_ms, cores_.flush([&] { return runner.give(inputs); }, [&] { runner.begin(); }));
    CUDAL1_TRY(record.microseconds, runner.finish_timed_call());
    CUDAL1_CHECK(check_preparation(planned.which));
  }
  if (planned.keep) CUDAL1_CHECK(read(planned, record));
  return record;
}

// Before a call a runner poisons its memory and wipes its stacks, which takes the longer the more memory it uses. What
// takes it far longer than the reference's runner is other work.
expected<void> cpu_runners::check_preparation(resident_program which) {
  constexpr int fewest = 3;
  constexpr double factor = 3, free_us = 20'000;
  preparation& mine = preparations_[which == resident_program::variant ? 1 : 0];
  mine.us += link(which).preparation_us();
  mine.bytes += static_cast<double>(link(which).memory_in_use());
  ++mine.calls;
  const preparation &reference = preparations_[0], &variant = preparations_[1];
  if (which != resident_program::variant || variant.calls < fewest || reference.calls == 0) return {};
  const double usual = reference.us / reference.calls, seen = variant.us / variant.calls;
  const double more_memory =
      reference.bytes > 0 ? variant.bytes / variant.calls * reference.calls / reference.bytes : 1;
  if (seen <= factor * usual * std::max(more_memory, 1.0) + free_us) return {};
  return refuse(
      {outcome::inconsistent, fmt::format("before each call its process took {:.0f} us of processor time, the "
                                          "reference's {:.0f} us: it works before the clock starts",
                                          seen, usual)});
}

expected<void> cpu_runners::read(const planned_call& planned, call_record& record) {
  cpu_runner_link& runner = link(planned.which);
  // Mapped only if an output lies in one of them.
  mapped_tensors inputs, weights;
  const auto given = [&](output_home home) -> expected<const mapped_tensors*> {
    const bool input = home == output_home::input;
    auto& mapped = input ? inputs : weights;
    if (mapped.empty()) {
      CUDAL1_TRY(mapped, cpu_tensors::of(input ? planned.draw->inputs : planned.draw->weights).map());
    }
    return &mapped;
  };
  CUDAL1_TRY(record.outputs, runner.outputs(given));
  copies_.clear();
  fingerprint bits{planned.key, ~planned.key};
  for (std::size_t i = 0; i < record.outputs.size(); ++i) {
    const tensor_type& type = runner.running().types.at(runner.running().text.outputs[i]);
    output_memory& memory = record.outputs[i];
    if (!type.is_contiguous() || memory.home != output_home::arena) {
      auto& copy = copies_.emplace_back(static_cast<std::size_t>(type.bytes()));
      gather(type, memory.data, copy.data());
      memory.data = copy.data();
    }
    const fingerprint one = fingerprint_of(memory.data, static_cast<std::size_t>(type.bytes()), planned.key + i);
    bits = {bits.low * 0x9e3779b97f4a7c15 + one.low, bits.high * 0xbf58476d1ce4e5b9 + one.high};
  }
  record.bits = bits;
  return runner.confirm_outputs();
}

expected<void> cpu_runners::check_guards() {
  if (const auto intact = link(resident_program::variant).check_guards(); !intact)
    return failed(resident_program::variant, intact.error());
  return {};
}

}  // namespace cudal1
