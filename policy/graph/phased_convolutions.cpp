#include "policy/graph/phased_convolutions.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include "policy/graph/convolution_geometry.hpp"
#include "policy/graph/found_steps.hpp"
#include "policy/graph/split_values.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most_phases = 64;

// One dimension in space. A result at outer * stride + phase is the sum of the elements at outer + offset times the
// weights at phase + padding - stride * offset, where the transposed convolution has one there.
struct phased_dimension {
  int64_t inputs = 0, outputs = 0, stride = 1, weights = 1, dilation = 1;
  int64_t outer = 0;                   // results of a phase
  int64_t first_phase = 0, count = 1;  // of the phases whose results are made: all, or the only one with weights
  int64_t length = 1;                  // how many elements a result is made from
  int64_t zeros = 0;                   // in front of the weights, so that they begin with the first phase's
  int64_t before = 0;                  // elements that the first result needs in front of the input, or -skipped ones
  bool is_shifted = false;             // the second of two phases begins one element further
  int64_t padding = 0, start = 0;      // of the convolution, and the first of its results that is one

  bool has_phases() const { return stride > 1; }
  bool is_exact() const { return outer * stride == outputs; }
  bool has_all_phases() const { return count == stride; }
  int64_t reach() const { return dilation * (weights - 1) + 1; }
  int64_t places() const { return outer + (is_shifted ? 1 : 0); }
};

void choose_padding(phased_dimension& d) {
  const int64_t span = d.has_phases() ? d.length - 1 : d.reach() - 1;
  d.padding = std::max({int64_t{0}, d.before, d.places() - d.before + span - d.inputs});
  d.start = d.padding - d.before;
}

phased_dimension dimension_of(const graph& g, const graph_step& s, const convolution_geometry& c, std::size_t dim) {
  phased_dimension d;
  d.inputs = g.type_of(c.input).shape[dim + 2];
  d.outputs = d.outer = s.result_types[0].shape[dim + 2];
  d.stride = c.stride[dim];
  d.weights = d.length = g.type_of(c.weight).shape[dim + 2];
  d.dilation = c.dilation[dim];
  const int64_t padding = c.padding[dim];
  if (!d.has_phases()) {
    d.before = d.reach() - 1 - padding;
    choose_padding(d);
    return d;
  }
  d.outer = (d.outputs + d.stride - 1) / d.stride;
  d.count = d.stride;
  // With two phases of which each has half of the weights, the second's elements are those of the first, one further.
  d.is_shifted = d.stride == 2 && d.dilation == 1 && padding % 2 == 1 && d.weights % 2 == 0;
  if (d.is_shifted) {
    d.length = d.weights / 2;
    d.before = d.length - 1 - (padding - 1) / 2;
    choose_padding(d);
    return d;
  }
  const int64_t furthest = (padding + d.stride - 1) / d.stride;
  d.zeros = d.stride * furthest - padding;
  d.length = (d.zeros + d.reach() + d.stride - 1) / d.stride;
  d.before = d.length - 1 - furthest;
  if (d.dilation % d.stride == 0 || d.weights == 1) {
    d.first_phase = d.zeros;
    d.count = 1;
  }
  choose_padding(d);
  return d;
}

struct phased_convolution {
  const graph_step* step = nullptr;
  convolution_geometry geometry;
  std::vector<phased_dimension> space;

  const std::string& result() const { return step->text->results[0]; }
  bool is_exact() const { return std::ranges::all_of(space, &phased_dimension::is_exact); }
  bool has_all_phases() const { return std::ranges::all_of(space, &phased_dimension::has_all_phases); }
  // The dimensions that have phases, in the order in which channels have them. The last comes first: with the channels
  // last in memory, neighbouring results in it are then equally far apart.
  std::vector<std::size_t> phase_order() const {
    std::vector<std::size_t> out;
    for (std::size_t d = 0; d < space.size(); ++d)
      if (space[d].has_phases()) out.push_back(d);
    if (space.back().has_phases()) std::rotate(out.begin(), out.end() - 1, out.end());
    return out;
  }
};

expected<phased_convolution> phased_of(const graph& g, int number) {
  if (!g.has_step(number)) return fail(errc::invalid_argument, "there is no step {}", number);
  phased_convolution out;
  out.step = &g.step_at(number);
  const auto no = [&](const std::string& why) { return fail(errc::invalid_argument, "step {}: {}", number, why); };
  CUDAL1_TRY(out.geometry, geometry_of(g, *out.step));
  const convolution_geometry& c = out.geometry;
  if (!c.transposed) return no("it is no transposed convolution");
  if (!g.is_constant(c.weight)) return no(c.weight + " is no weight");
  if (geometry_is(c.stride, 1)) return no("its windows move by one element: it has one phase");
  if (!out.step->result_types[0].is_contiguous()) return no("its result is not contiguous");
  int64_t phases = 1;
  for (std::size_t d = 0; d < c.stride.size(); ++d) {
    out.space.push_back(dimension_of(g, *out.step, c, d));
    phases *= out.space.back().count;
  }
  if (phases > k_most_phases) return no(fmt::format("it has {} phases, more than {}", phases, k_most_phases));
  return out;
}

// ---- weights, at set-up ---------------------------------------------------------------------------------------------

class phase_weights {
 public:
  phase_weights(const graph& g, program_changes& out, const phased_convolution& of)
      : out_(&out), of_(&of), shape_(g.type_of(of.geometry.weight).shape), now_(json(of.geometry.weight)) {}

  // [groups * phases * outputs of a group, inputs of a group, space].
  std::string write() {
    for (std::size_t d = 0; d < of_->space.size(); ++d)
      spread(d);
    pad();
    divide();
    order_channels();
    return std::string(now_.as_string());
  }

 private:
  const phased_dimension& space(std::size_t d) const { return of_->space[d]; }
  void then(const char* op, step_arguments args) {
    args.emplace(args.begin(), "self", now_);
    now_ = json(out_->at_set_up(op, std::move(args), of_->geometry.weight + "_phases"));
  }

  // Puts dilated weights where they are.
  void spread(std::size_t d) {
    const int64_t dilation = space(d).dilation;
    if (!space(d).has_phases() || dilation == 1 || space(d).weights == 1) return;
    std::vector<int64_t> spread = shape_, pads(2 * (shape_.size() - d - 3), 0);
    pads.insert(pads.end(), {0, dilation - 1});  // of the new dimension, behind those of the dimensions after it
    then("aten::unsqueeze", {{"dim", json(static_cast<int64_t>(d + 3))}});
    then("aten::constant_pad_nd", {{"pad", list_of(pads)}});
    spread[d + 2] *= dilation;
    then("aten::reshape", {{"shape", list_of(spread)}});
    shape_[d + 2] = space(d).reach();
    then("aten::narrow",
         {{"dim", json(static_cast<int64_t>(d + 2))}, {"start", json(0)}, {"length", json(shape_[d + 2])}});
  }

  // Zeros so that each phase has as many weights.
  void pad() {
    std::vector<int64_t> pads;
    for (std::size_t d = of_->space.size(); d-- > 0;) {
      const phased_dimension& s = space(d);
      pads.push_back(s.zeros);
      pads.push_back(s.has_phases() ? s.length * s.stride - s.zeros - s.reach() : 0);
    }
    if (!geometry_is(pads, 0)) then("aten::constant_pad_nd", {{"pad", list_of(pads)}});
  }

  // Phases as dimensions of their own, [inputs, outputs of a group, {length, phases} of each dimension], and all in the
  // order in which a convolution meets elements.
  void divide() {
    std::vector<int64_t> divided = {shape_[0], shape_[1]}, flipped;
    for (const auto& s : of_->space) {
      flipped.push_back(std::ssize(divided));
      divided.push_back(s.length);
      if (!s.has_phases()) continue;
      if (s.is_shifted) flipped.push_back(std::ssize(divided));
      divided.push_back(s.stride);
    }
    then("aten::reshape", {{"shape", list_of(divided)}});
    int64_t dim = 2;
    for (const auto& s : of_->space) {
      if (s.has_phases() && !s.has_all_phases())
        then("aten::narrow", {{"dim", json(dim + 1)}, {"start", json(s.first_phase)}, {"length", json(s.count)}});
      dim += s.has_phases() ? 2 : 1;
    }
    then("aten::flip", {{"dims", list_of(flipped)}});
  }

  void order_channels() {
    const int64_t groups = of_->geometry.groups;
    std::vector<int64_t> grouped = {groups, shape_[0] / groups, shape_[1]}, lengths, at_length, at_phase, order = {0};
    int64_t outputs = groups * shape_[1];
    for (const auto& s : of_->space) {
      at_length.push_back(std::ssize(grouped));
      grouped.push_back(s.length);
      lengths.push_back(s.length);
      at_phase.push_back(std::ssize(grouped));
      if (s.has_phases()) grouped.push_back(s.count);
      outputs *= s.count;
    }
    for (const auto d : of_->phase_order())
      order.push_back(at_phase[d]);
    order.insert(order.end(), {2, 1});
    order.insert(order.end(), at_length.begin(), at_length.end());
    std::vector<int64_t> shape = {outputs, shape_[0] / groups};
    shape.insert(shape.end(), lengths.begin(), lengths.end());
    then("aten::reshape", {{"shape", list_of(grouped)}});
    then("aten::permute", {{"dims", list_of(order)}});
    then("aten::reshape", {{"shape", list_of(shape)}});
  }

  program_changes* out_;
  const phased_convolution* of_;
  std::vector<int64_t> shape_;
  json now_;
};

// ---- the steps ------------------------------------------------------------------------------------------------------

// What a dimension of a value is.
struct axis {
  enum kind { batch, group, channel, outer, phase, window } what = batch;
  std::size_t of = 0;  // the dimension in space
  bool operator==(const axis&) const = default;
};

class phase_writer {
 public:
  phase_writer(const graph& g, program_changes& out, const phased_convolution& of) : g_(&g), out_(&out), of_(&of) {}

  // Adds what makes the result; it has the task's own form, or one in `forms`.
  void write(split_values& forms) {
    convolve();
    read_phases();
    then("aten::contiguous", {});
    const bool is_exact = of_->is_exact();
    std::vector<std::pair<const char*, step_arguments>> last;
    if (!is_exact) {
      merge_and_cut();
      last.emplace_back("aten::contiguous", step_arguments());
    }
    const dimension_parts in = is_exact ? parts() : own_parts();
    for (std::size_t d = 0; d < of_->space.size(); ++d)
      if (!of_->space[d].has_all_phases())
        last.emplace_back("aten::where.ScalarOther",
                          step_arguments{{"condition", json(has_weights(d, in))}, {"other", json(0)}});
    if (has_bias()) last.emplace_back("aten::add.Tensor", step_arguments{{"other", bias_as(in)}});
    for (std::size_t i = 0; i < last.size(); ++i) {
      last[i].second.emplace(last[i].second.begin(), "self", json(now_));
      const std::string name = !is_exact && i + 1 == last.size() ? of_->result() : new_name();
      now_ = out_->add(last[i].first, std::move(last[i].second), name);
    }
    if (is_exact) forms.add(of_->result(), now_, in);
  }

 private:
  const tensor_type& result_type() const { return of_->step->result_types[0]; }
  int64_t groups() const { return of_->geometry.groups; }
  bool has_bias() const { return !of_->geometry.bias.empty(); }
  std::string new_name() { return out_->new_name(of_->result() + "_phases"); }
  void then(const char* op, step_arguments args) {
    args.emplace(args.begin(), "self", json(now_));
    now_ = out_->add(op, std::move(args), new_name());
  }
  json place_of(axis::kind what, std::size_t of = 0) const {
    return json(std::ranges::find(axes_, axis{what, of}) - axes_.begin());
  }

  void convolve() {
    convolution_geometry c = of_->geometry;
    c.bias.clear();  // what follows adds it
    c.stride.assign(of_->space.size(), 1);
    for (std::size_t d = 0; d < of_->space.size(); ++d) {
      const phased_dimension& s = of_->space[d];
      c.padding[d] = s.padding;
      if (s.has_phases()) c.dilation[d] = 1;
    }
    aten_step made = convolution_of(c, phase_weights(*g_, *out_, *of_).write(), *of_->step->text);
    now_ = new_name();
    made.results = {now_};
    out_->add(std::move(made));
  }

  // The convolution's result as a view whose dimensions are in the order of the task's.
  void read_phases() {
    const auto& type = result_type();
    std::vector<int64_t> size = {type.shape[0]};
    axes_ = {{axis::batch, 0}};
    const auto has = [&](axis a, int64_t extent) {
      axes_.push_back(a);
      size.push_back(extent);
    };
    if (groups() > 1) has({axis::group, 0}, groups());
    for (const auto d : of_->phase_order())
      has({axis::phase, d}, of_->space[d].count);
    has({axis::channel, 0}, type.shape[1] / groups());
    for (std::size_t d = 0; d < of_->space.size(); ++d) {
      const phased_dimension& s = of_->space[d];
      has({axis::outer, d}, s.places());
      narrow(static_cast<int64_t>(d + 2), s.start, s.places(), s.inputs + 2 * s.padding - span_of(s));
    }
    then("aten::view", {{"size", list_of(size)}});
    for (std::size_t d = 0; d < of_->space.size(); ++d)
      if (of_->space[d].is_shifted) shift(d);
    permute();
  }

  static int64_t span_of(const phased_dimension& s) { return s.has_phases() ? s.length - 1 : s.reach() - 1; }

  void narrow(int64_t dim, int64_t start, int64_t length, int64_t of) {
    if (length != of) then("aten::narrow", {{"dim", json(dim)}, {"start", json(start)}, {"length", json(length)}});
  }

  // The first phase has the first of two neighbours, and the second phase the second one.
  void shift(std::size_t d) {
    then("aten::unfold", {{"dimension", place_of(axis::outer, d)}, {"size", json(2)}, {"step", json(1)}});
    axes_.push_back({axis::window, d});
    then("aten::diagonal",
         {{"offset", json(0)}, {"dim1", place_of(axis::phase, d)}, {"dim2", place_of(axis::window, d)}});
    std::erase(axes_, axis{axis::window, d});
    std::erase(axes_, axis{axis::phase, d});
    axes_.push_back({axis::phase, d});
  }

  void permute() {
    std::vector<axis> wanted = {{axis::batch, 0}};
    if (groups() > 1) wanted.push_back({axis::group, 0});
    wanted.push_back({axis::channel, 0});
    for (std::size_t d = 0; d < of_->space.size(); ++d) {
      wanted.push_back({axis::outer, d});
      if (of_->space[d].has_phases()) wanted.push_back({axis::phase, d});
    }
    json::array dims;
    for (const auto& a : wanted)
      dims.emplace_back(place_of(a.what, a.of));
    then("aten::permute", {{"dims", json(std::move(dims))}});
    if (of_->has_all_phases()) return;
    std::vector<int64_t> size;
    for (const auto& a : wanted)
      size.push_back(a.what == axis::phase ? of_->space[a.of].stride : -1);
    then("aten::expand", {{"size", list_of(size)}});  // the only phase, in place of those without weights, too
  }

  dimension_parts parts() const {
    const auto& shape = result_type().shape;
    dimension_parts out = {{shape[0]}, {shape[1]}};
    if (groups() > 1) out[1] = {groups(), shape[1] / groups()};
    for (const auto& s : of_->space) {
      out.push_back({s.outer});
      if (s.has_phases()) out.back().push_back(s.stride);
    }
    return out;
  }

  dimension_parts own_parts() const {
    dimension_parts out;
    for (const int64_t size : result_type().shape)
      out.push_back({size});
    return out;
  }

  // Which places of a dimension are of the only phase that has weights, in the shape of these parts but for the batch
  // and channels: elsewhere the results are zeros.
  std::string has_weights(std::size_t d, const dimension_parts& in) {
    const phased_dimension& s = of_->space[d];
    json now;
    const auto then = [&](const char* op, step_arguments args) {
      if (!now.is_null()) args.emplace(args.begin(), "self", now);
      now = json(out_->at_set_up(op, std::move(args), of_->result() + "_turns"));
    };
    then("aten::full", {{"size", list_of({1})}, {"fill_value", json(1.0)}, {"dtype", json("float32")}});
    then("aten::constant_pad_nd", {{"pad", list_of({s.first_phase, s.stride - 1 - s.first_phase})}});
    std::vector<int64_t> shape = {in[d + 2].back()};
    if (in[d + 2].size() == 1) {
      then("aten::expand", {{"size", list_of({s.outer, s.stride})}});
      then("aten::reshape", {{"shape", list_of({s.outer * s.stride})}});
      then("aten::narrow", {{"dim", json(0)}, {"start", json(0)}, {"length", json(s.outputs)}});
    }
    for (std::size_t behind = d + 3; behind < in.size(); ++behind)
      shape.insert(shape.end(), in[behind].size(), 1);
    then("aten::ne.Scalar", {{"other", json(0)}});
    then("aten::view", {{"size", list_of(shape)}});
    return std::string(now.as_string());
  }

  // The bias with as many dimensions as these parts have, but for the batch.
  json bias_as(const dimension_parts& in) {
    const std::string& bias = of_->geometry.bias;
    std::vector<int64_t> size = in[1];
    for (std::size_t d = 2; d < in.size(); ++d)
      size.insert(size.end(), in[d].size(), 1);
    step_arguments as = {{"self", json(bias)}, {"size", list_of(size)}};
    return json(g_->is_constant(bias) ? out_->at_set_up("aten::view", std::move(as), bias + "_channels")
                                      : out_->add("aten::view", std::move(as), out_->new_name(bias + "_channels")));
  }

  // A view in the task's shape, where the last results of some phases are none.
  void merge_and_cut() {
    const auto& shape = result_type().shape;
    std::vector<int64_t> size = {shape[0], shape[1]};
    for (const auto& s : of_->space)
      size.push_back(s.outer * s.stride);
    then("aten::view", {{"size", list_of(size)}});
    for (std::size_t d = 0; d < of_->space.size(); ++d)
      narrow(static_cast<int64_t>(d + 2), 0, shape[d + 2], size[d + 2]);
  }

  const graph* g_;
  program_changes* out_;
  const phased_convolution* of_;
  std::string now_;
  std::vector<axis> axes_;  // of now_
};

}  // namespace

std::vector<int> phased_convolutions(const graph& g) {
  return found_among<phased_convolution>(
      g, [](const graph_step& s) { return s.record().traits.transposed; }, phased_of);
}

expected<proved_task> with_phased_convolutions(const graph& g, std::span<const int> steps) {
  CUDAL1_TRY(auto found, all_found<phased_convolution>(g, steps, phased_of));
  program_changes changes(g.origin().reference);
  split_values forms(g, changes);
  for (const auto& s : g.steps()) {
    const auto phased = found.find(s.number);
    if (phased == found.end()) {
      forms.add(s);
      continue;
    }
    for (const auto& operand : s.operands())
      forms.add_own(operand);
    phase_writer(g, changes, phased->second).write(forms);
  }
  forms.add_outputs();
  CUDAL1_TRY(auto with, with_program(g.origin(), changes.take()));
  return proved_task{
      std::move(with),
      fmt::format("results of the transposed convolutions {} whose places leave the same remainder by "
                  "the stride are made with the same weights from neighbouring elements: channels of one "
                  "convolution",
                  print_steps({steps.begin(), steps.end()}))};
}

}  // namespace cudal1
