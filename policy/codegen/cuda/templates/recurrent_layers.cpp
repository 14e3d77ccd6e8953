#include "policy/codegen/cuda/templates/recurrent_layers.hpp"

#include <algorithm>
#include <array>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/graph/alignment.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most_batch = 64, k_most_steps = 1 << 16, k_most_items = 16;
constexpr int64_t k_most_threads = 512, k_most_weights = 96;  // registers of a thread for weights
constexpr int64_t k_registers = 65536, k_other_registers = 56;
constexpr int64_t k_most_shared_bytes = 96 << 10;
// Of a step beside the products, in instructions of a thread of eight warps: what waiting for all blocks and reading
// what they wrote take.
constexpr double k_wait = 540;

struct cell {
  std::string_view op, name;  // as the dialect has it
  int64_t gates = 1;
};
constexpr std::array<cell, 4> cells{{{"aten::lstm.input", "cell_lstm", 4},
                                     {"aten::gru.input", "cell_gru", 3},
                                     {"aten::rnn_tanh.input", "cell_tanh", 1},
                                     {"aten::rnn_relu.input", "cell_relu", 1}}};

struct layers {
  const cell* kind = nullptr;
  int64_t count = 1, directions = 1, steps = 0, batch = 0, input = 0, hidden = 0;
  int64_t step_apart = 0, batch_apart = 0;  // elements of the input
  bool biases = false, vectors = false;
  int64_t weights() const { return count * directions * (biases ? 4 : 2); }
  int64_t states() const { return count * directions * batch * hidden; }
  int64_t most_inputs() const { return count > 1 ? std::max(input, directions * hidden) : input; }
  bool is_lstm() const { return kind->gates == 4; }
  // Floats that blocks give each other (recurrent_layers of the dialect).
  int64_t kept() const { return directions == 1 ? 2 * states() : 4 * steps * batch * hidden; }
  // Steps that wait for each other.
  int64_t waves() const { return directions == 1 ? steps + count - 1 : steps * count; }
};

const std::vector<tensor_argument>* list_of(const graph_step& s, std::string_view name) {
  const auto* a = s.argument(name);
  return a == nullptr ? nullptr : std::get_if<std::vector<tensor_argument>>(a);
}

// The tensors beside the input, with the names that template_kernel::reads has.
std::vector<std::pair<std::string, std::string>> parts_of(const graph_step& s) {
  std::vector<std::pair<std::string, std::string>> all;  // value, argument
  if (const auto state = tensor_argument_name(s, "hx")) all.emplace_back(*state, "hx");
  for (const char* name : {"hx", "params"})
    if (const auto* list = list_of(s, name))
      for (std::size_t i = 0; i < list->size(); ++i)
        all.emplace_back((*list)[i].name, fmt::format("{}[{}]", name, i));
  return all;
}

layers layers_of(const graph& g, const graph_step& s) {
  layers l;
  l.kind = std::ranges::find(cells, s.task_op(), &cell::op);
  l.count = *integer_argument(s, "num_layers");
  l.directions = *boolean_argument(s, "bidirectional") ? 2 : 1;
  l.biases = *boolean_argument(s, "has_biases");
  const std::string input = g.resolve(*tensor_argument_name(s, "input"));
  const tensor_type& x = g.type_of(input);
  const bool batch_first = *boolean_argument(s, "batch_first");
  const std::size_t step = batch_first ? 1 : 0, batch = 1 - step;
  l.steps = x.shape[step];
  l.batch = x.shape[batch];
  l.input = x.shape[2];
  l.step_apart = x.strides[step];
  l.batch_apart = x.strides[batch];
  l.hidden = g.type_of(g.resolve(parts_of(s).front().first)).shape[2];
  const auto by_four = [](int64_t n) { return n % 4 == 0; };
  l.vectors = by_four(l.input) && by_four(l.hidden) && by_four(l.step_apart) && by_four(l.batch_apart) &&
              starts_aligned(g, input);
  return l;
}

expected<void> fits(const graph& g, const graph_step& s) {
  if (std::ranges::count(cells, s.task_op(), &cell::op) == 0)
    return fail(errc::unsupported, "step {} ({}) has no recurrent layers", s.number, s.task_op());
  const auto no = [&](std::string_view why) {
    return fail(errc::unsupported, "step {} ({}) stays a library call: {}", s.number, s.task_op(), why);
  };
  const tensor_type& x = g.type_of(g.resolve(*tensor_argument_name(s, "input")));
  if (x.type != dtype::float32) return no(fmt::format("its elements are {}", name_of(x.type)));
  if (x.strides[2] != 1 && x.shape[2] != 1) return no("the elements of a step are not neighbours");
  for (const auto& [value, argument] : parts_of(s))
    if (!g.type_of(g.resolve(value)).is_contiguous()) return no(argument + " is not contiguous");
  const layers l = layers_of(g, s);
  if (l.steps < 1 || l.batch < 1 || l.input < 1 || l.hidden < 1) return no("it is empty");
  if (l.batch > k_most_batch) return no(fmt::format("its batch has more than {}", k_most_batch));
  if (l.steps > k_most_steps) return no(fmt::format("it has more than {} steps", k_most_steps));
  return {};
}

// How the work is divided (recurrent_sizes of the dialect).
struct division {
  int64_t units = 0, rows = 1, terms = 0;
  int64_t groups = 0, slices = 0, blocks = 0;
  int64_t threads() const { return 32 * groups * slices; }
  int64_t padded_rows() const { return groups * 32 * rows; }
  int64_t padded_terms() const { return slices * terms; }
  int64_t values(const layers& l) const { return l.batch * padded_terms(); }  // floats
  int64_t sums(const layers& l) const { return slices * l.batch * padded_rows(); }
  int64_t work() const { return threads() * rows * terms; }
};

division divided(const layers& l, int64_t units, int64_t rows, int64_t terms) {
  division d{units, rows, terms};
  d.groups = (l.kind->gates * units + 32 * rows - 1) / (32 * rows);
  d.slices = (l.most_inputs() + terms - 1) / terms + (l.hidden + terms - 1) / terms;
  d.blocks = (l.directions == 1 ? l.count : 2) * (l.hidden / units);
  return d;
}

expected<void> is_possible(const layers& l, const division& d) {
  const auto no = [&](const std::string& why) {
    return fail(errc::unsupported, "{} units of {} rows and {} terms a thread: {}", d.units, d.rows, d.terms, why);
  };
  if (l.hidden % d.units != 0) return no(fmt::format("{} units are no multiple", l.hidden));
  if (d.rows * d.terms > k_most_weights) return no("too many weights for a thread's registers");
  if (d.threads() > k_most_threads) return no(fmt::format("{} threads a block", d.threads()));
  if (d.threads() % d.units != 0) return no("a thread would have several units");
  if (d.threads() * (d.rows * d.terms + k_other_registers) > k_registers) return no("too many registers a block");
  if (4 * (d.values(l) + d.sums(l)) > k_most_shared_bytes) return no("too much shared memory");
  if ((l.batch * d.units + d.threads() - 1) / d.threads() > k_most_items) return no("too many states of a thread");
  if (d.blocks > large_gpu_processors)
    return no(fmt::format("{} blocks cannot run at once on {} multiprocessors", d.blocks, large_gpu_processors));
  return {};
}

// What was chosen; of the rest, what leaves a block the least work, with as many threads as hide each other's waiting.
expected<division> best_division(const layers& l, const tunable_values& chosen) {
  const auto values = [&](const char* name, std::vector<int64_t> otherwise) {
    const auto found = chosen.find(name);
    return found == chosen.end() ? std::move(otherwise) : std::vector{found->second};
  };
  std::vector<int64_t> units;
  for (int64_t n = 1; n <= std::min<int64_t>(l.hidden, 64); ++n)
    if (l.hidden % n == 0) units.push_back(n);
  std::optional<division> best;
  expected<void> last;
  const auto is_better = [&](const division& d, const division& than) {
    if (d.work() != than.work()) return d.work() < than.work();
    const auto distance = [](const division& of) { return std::abs(of.threads() - 512); };
    if (distance(d) != distance(than)) return distance(d) < distance(than);
    return d.rows > than.rows;
  };
  for (const int64_t u : values("units", units))
    for (const int64_t r : values("rows", {1, 2, 4}))
      for (const int64_t t : values("terms", {8, 16, 32, 48, 64, 96})) {
        const division d = divided(l, u, r, t);
        if (auto possible = is_possible(l, d); !possible)
          last = std::move(possible);
        else if (!best || is_better(d, *best))
          best = d;
      }
  if (best) return *best;
  if (chosen.size() == 3) return tl::unexpected(last.error());
  return fail(errc::unsupported, "layers of {} units with {} inputs do not fit the registers of {} blocks", l.hidden,
              l.most_inputs(), large_gpu_processors);
}

expected<template_kernel> write(const graph& g, const graph_step& s, const tunable_values& chosen) {
  using tile::value;
  const layers l = layers_of(g, s);
  CUDAL1_TRY(const division d, best_division(l, chosen));
  tile::kernel_builder b(d.threads(), d.blocks);
  template_kernel out;
  const auto x = b.tensor("x", dtype::float32, (l.steps - 1) * l.step_apart + (l.batch - 1) * l.batch_apart + l.input);
  out.reads = {{x, "input"}};
  std::string weights;
  int64_t numbered = 0;
  for (const auto& [name, argument] : parts_of(s)) {
    const bool is_state = argument.starts_with("hx");
    const std::string own = is_state ? argument == "hx[1]" ? "c0" : "h0" : fmt::format("w{}", numbered++);
    out.reads.emplace_back(b.tensor(own, dtype::float32, g.type_of(g.resolve(name)).numel()), argument);
    if (!is_state) weights += (weights.empty() ? "" : ", ") + own;
  }
  const auto result = b.tensor("out", dtype::float32, l.steps * l.batch * l.directions * l.hidden);
  out.writes = {result, b.tensor("hn", dtype::float32, l.states())};
  if (l.is_lstm()) out.writes.push_back(b.tensor("cn", dtype::float32, l.states()));
  out.scratch = {b.tensor("kept", dtype::float32, l.kept())};
  const auto values = b.dynamic("values", dtype::float32, 0, d.values(l));
  const auto sums = b.dynamic("sums", dtype::float32, (4 * d.values(l) + 15) / 16 * 16, d.sums(l));
  b.add({tile::raw{fmt::format("const float* const weights[{}] = {{{}}};", l.weights(), weights), {"weights"}}});
  std::vector<tile::buffer_id> changed = out.writes;
  changed.insert(changed.end(), {out.scratch.front(), values, sums});
  const double of_step =
      static_cast<double>(l.batch * d.rows * d.terms) * 1.3 + k_wait * 8 * 32 / static_cast<double>(d.threads());
  b.add({tile::call{
      value::operation(fmt::format("recurrent_layers<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>(x, {}LL, {}LL, "
                                   "h0, {}, weights, out, hn, "
                                   "{}, kept, values, sums, [&] {{ grid_sync(); }})",
                                   l.kind->name, l.count, l.directions, l.steps, l.batch, l.input, l.hidden, d.units,
                                   d.rows, d.terms, l.biases, l.vectors, l.step_apart, l.batch_apart,
                                   l.is_lstm() ? "c0" : "nullptr", l.is_lstm() ? "cn" : "nullptr"),
                       {}, dtype::int32, of_step * static_cast<double>(l.waves())),
      changed}});
  out.comment = fmt::format("{} in {} direction{}: {} layer{} of {} units, {} steps", s.task_op(), l.directions,
                            l.directions == 1 ? "" : "s", l.count, l.count == 1 ? "" : "s", l.hidden, l.steps);
  out.statements = std::move(b).finish();
  out.cooperative = true;
  return out;
}

}  // namespace

kernel_template recurrent_layers() {
  return {.name = "recurrent_layers",
          .summary = "all layers and steps of an LSTM, a GRU or an RNN, whose blocks keep the weights in registers",
          .tunables = {{"units", {8, 16, 32}}, {"rows", {1, 2, 4}}, {"terms", {16, 32, 64}}},
          .fits = fits,
          .write = write};
}

}  // namespace cudal1
