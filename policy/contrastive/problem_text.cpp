#include "policy/contrastive/problem_text.hpp"

#include <cmath>
#include <limits>

#include "sandbox/program/operators/work.hpp"
#include "sandbox/verify/roofline.hpp"

namespace cudal1 {

namespace {

constexpr double least_number = 1.0 / 1024;
constexpr std::size_t most_tensors = 8, most_steps = 40;

void write_tensor(std::string_view what, const tensor_type& type, text_writer& to) {
  to.logarithm(what, static_cast<double>(type.numel()));
  for (const int64_t n : type.shape)
    to.logarithm(frame::size, static_cast<double>(n));
}

}  // namespace

float text_writer::no_value() {
  return std::numeric_limits<float>::quiet_NaN();
}

void text_writer::logarithm(std::string_view word, double number) {
  value(word, std::log2(std::max(number, least_number)));
}

void text_writer::put(std::string_view word, float value) {
  words_->append(word, out_.tokens);
  out_.values.resize(out_.tokens.size(), no_value());
  out_.values.back() = value;
}

void text_writer::tokens(std::span<const token> some) {
  out_.tokens.insert(out_.tokens.end(), some.begin(), some.end());
  out_.values.resize(out_.tokens.size(), no_value());
}

token_sequence text_writer::take() && {
  out_.legal.assign(out_.tokens.size(), {});
  return std::move(out_);
}

void write_problem(const task& t, std::string_view kind, const device_data* device, text_writer& to) {
  const task_work work = work_of(t);
  to.word(frame::device);
  to.word(kind);
  if (device != nullptr) {
    to.logarithm(frame::processors, static_cast<double>(device->multiprocessors));
    to.logarithm(frame::bandwidth, device->reached_gb_per_s);
    to.logarithm(frame::rate, device->reached_tflops.float32);
    to.logarithm(frame::rate, device->reached_tflops.half);
    to.logarithm(frame::cache, static_cast<double>(device->cache_bytes));
  }
  to.word(frame::problem);
  to.logarithm(frame::bytes, static_cast<double>(work.bytes()));
  to.logarithm(frame::flops, work.flops.total());
  if (device != nullptr) to.logarithm(frame::floor, roofline_of(work, *device).device_us());
  const program& p = t.reference.text;
  const auto declarations = [&](std::string_view what, const std::vector<tensor_declaration>& all) {
    for (std::size_t i = 0; i < all.size() && i < most_tensors; ++i)
      write_tensor(what, all[i].type, to);
  };
  declarations(frame::input, p.inputs);
  declarations(frame::weight, p.weights);
  to.word(frame::steps);
  for (std::size_t i = 0; i < p.steps.size() && i < most_steps; ++i) {
    const auto* step = std::get_if<aten_step>(&p.steps[i]);
    if (step == nullptr) continue;
    const auto found = step->results.empty() ? t.reference.types.end() : t.reference.types.find(step->results.front());
    if (found == t.reference.types.end())
      to.word(step->op);
    else
      to.logarithm(step->op, static_cast<double>(found->second.numel()));
  }
  for (std::size_t i = 0; i < p.outputs.size() && i < most_tensors; ++i)
    if (const auto found = t.reference.types.find(p.outputs[i]); found != t.reference.types.end())
      write_tensor(frame::output, found->second, to);
}

}  // namespace cudal1
