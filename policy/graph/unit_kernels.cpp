#include "policy/graph/unit_kernels.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "policy/graph/convolution_geometry.hpp"
#include "policy/graph/found_steps.hpp"
#include "policy/graph/value_forms.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

// In which order the channels and the elements in space of a sample are in memory.
enum class channel_order { first, last };

struct unit_convolution {
  convolution_geometry geometry;
  channel_order order = channel_order::first;
  std::vector<int64_t> read;  // the shape of the elements of the input that windows meet
  value_form input, result;
};

// Matrices of channels and space, one a sample; or one matrix with a row of channels for each place.
value_form matrices(const std::vector<int64_t>& shape, channel_order order) {
  const int64_t places = std::accumulate(shape.begin() + 2, shape.end(), int64_t{1}, std::multiplies<>());
  if (order == channel_order::first) return {{}, {shape[0], shape[1], places}, "_planes"};
  value_form out{{}, {shape[0] * places, shape[1]}, "_rows"};
  if (places == 1) return out;
  out.order.push_back(0);
  for (std::size_t d = 2; d < shape.size(); ++d)
    out.order.push_back(static_cast<int64_t>(d));
  out.order.push_back(1);
  return out;
}

bool leaves_out_elements(const unit_convolution& c) {
  return !geometry_is(c.geometry.stride, 1);
}

// Finds an order in which the input and the result are views of matrices; false if there is none. What leaves out
// elements is copied.
bool find_order(const graph& g, const graph_step& s, unit_convolution& c) {
  const tensor_type& result = s.result_types[0];
  c.read = result.shape;
  c.read[1] = g.type_of(c.geometry.input).shape[1];
  const bool is_one_place = std::all_of(c.read.begin() + 2, c.read.end(), [](int64_t n) { return n == 1; });
  const auto preferred = is_one_place ? channel_order::last : channel_order::first;
  for (const auto order : {preferred, channel_order::first, channel_order::last}) {
    c.order = order;
    c.input = matrices(c.read, order);
    c.result = matrices(result.shape, order);
    const auto made = seen_as(result, c.result);
    if (made && made->is_contiguous() && (leaves_out_elements(c) || seen_as(g.type_of(c.geometry.input), c.input)))
      return true;
  }
  return false;
}

expected<unit_convolution> unit_convolution_of(const graph& g, int number) {
  if (!g.has_step(number)) return fail(errc::invalid_argument, "there is no step {}", number);
  const graph_step& s = g.step_at(number);
  const auto no = [&](const std::string& why) { return fail(errc::invalid_argument, "step {}: {}", number, why); };
  unit_convolution out;
  CUDAL1_TRY(out.geometry, geometry_of(g, s));
  const convolution_geometry& c = out.geometry;
  if (!g.is_constant(c.weight)) return no(c.weight + " is no weight");
  const auto& weight = g.type_of(c.weight).shape;
  if (std::any_of(weight.begin() + 2, weight.end(), [](int64_t n) { return n != 1; }))
    return no("its kernel has several elements");
  if (c.groups != 1) return no("it has groups");
  if (!geometry_is(c.padding, 0) || !geometry_is(c.output_padding, 0)) return no("it is padded");
  if (c.transposed && !geometry_is(c.stride, 1)) return no("there are zeros between its results");
  if (!find_order(g, s, out)) return no("neither its planes nor its channels are dense in memory");
  return out;
}

class product_writer {
 public:
  product_writer(const graph& g, form_writer& out, const unit_convolution& what, const graph_step& own)
      : g_(&g), out_(&out), c_(&what), own_(&own) {}

  void write() {
    const std::string x = out_->seen(elements(), c_->read, c_->input), w = weights();
    if (c_->order == channel_order::last)
      return add("aten::linear", {{"input", json(x)}, {"weight", json(w)}, {"bias", bias()}}, result());
    if (bias().is_null()) return add("aten::matmul", {{"self", json(w)}, {"other", json(x)}}, result());
    const std::string product = out_->changes().new_name(own_->text->results[0] + "_product");
    add("aten::matmul", {{"self", json(w)}, {"other", json(x)}}, product);
    out_->changes().add("aten::add.Tensor", {{"self", json(product)}, {"other", json(bias_by_channel())}}, result());
  }

 private:
  json bias() const { return c_->geometry.bias.empty() ? json() : json(c_->geometry.bias); }
  std::string result() { return out_->made(own_->text->results[0], c_->result); }

  void add(const char* op, step_arguments args, std::string result) {
    aten_step s;
    s.op = op;
    s.args = std::move(args);
    s.results = {std::move(result)};
    s.precision = own_->text->precision;
    out_->changes().add(std::move(s));
  }

  // The elements of the input that windows meet, without gaps.
  std::string elements() {
    const std::string& input = c_->geometry.input;
    if (!leaves_out_elements(*c_)) return input;
    std::string value = out_->seen(input, g_->type_of(input).shape, {{}, g_->type_of(input).shape, ""});
    for (std::size_t d = 0; d < c_->geometry.stride.size(); ++d) {
      const int64_t step = c_->geometry.stride[d];
      if (step == 1) continue;
      value =
          out_->changes().add("aten::slice.Tensor",
                              {{"self", json(value)}, {"dim", json(static_cast<int64_t>(d) + 2)}, {"step", json(step)}},
                              out_->changes().new_name(input + "_met"));
    }
    step_arguments copy = {{"self", json(value)}};
    if (c_->order == channel_order::last && !c_->input.order.empty())
      copy.emplace_back("memory_format", json(c_->geometry.stride.size() == 3 ? "channels_last_3d" : "channels_last"));
    return out_->changes().add("aten::contiguous", std::move(copy), out_->changes().new_name(input + "_met"));
  }

  std::string set_up(const char* op, step_arguments args) {
    return out_->changes().at_set_up(op, std::move(args), c_->geometry.weight + "_matrix");
  }
  // A row for each channel of the result.
  std::string weights() {
    const auto& shape = g_->type_of(c_->geometry.weight).shape;
    std::string w =
        set_up("aten::reshape", {{"self", json(c_->geometry.weight)}, {"shape", list_of({shape[0], shape[1]})}});
    if (!c_->geometry.transposed) return w;
    w = set_up("aten::transpose.int", {{"self", json(w)}, {"dim0", json(0)}, {"dim1", json(1)}});
    return set_up("aten::contiguous", {{"self", json(w)}});
  }

  std::string bias_by_channel() {
    const std::string& own = c_->geometry.bias;
    const std::vector<int64_t> along = {g_->type_of(own).shape[0], 1};
    if (!g_->is_constant(own)) return out_->seen(own, g_->type_of(own).shape, {{}, along, "_by_channel"});
    return out_->changes().at_set_up("aten::reshape", {{"self", json(own)}, {"shape", list_of(along)}},
                                     own + "_by_channel");
  }

  const graph* g_;
  form_writer* out_;
  const unit_convolution* c_;
  const graph_step* own_;
};

}  // namespace

std::vector<int> convolutions_with_unit_kernels(const graph& g) {
  return found_among<unit_convolution>(
      g, [](const graph_step& s) { return s.record().kind == operator_kind::convolution; }, unit_convolution_of);
}

expected<proved_task> with_unit_kernels_multiplied(const graph& g, std::span<const int> steps) {
  CUDAL1_TRY(auto found, all_found<unit_convolution>(g, steps, unit_convolution_of));
  form_writer out(g);
  for (const auto& s : g.steps()) {
    if (const auto now = found.find(s.number); now != found.end())
      product_writer(g, out, now->second, s).write();
    else
      out.add(s);
  }
  CUDAL1_TRY(auto with, out.take());
  return proved_task{
      std::move(with),
      fmt::format("the kernels of steps {} have one element: each result is the product of a row of weights and the "
                  "channels of the one place that it meets",
                  print_steps({steps.begin(), steps.end()}))};
}

}  // namespace cudal1
