#include "policy/graph/convolution_geometry.hpp"

#include <algorithm>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

int64_t floor_of(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
int64_t ceiling_of(int64_t a, int64_t b) {
  return -floor_of(-a, b);
}

}  // namespace

std::vector<int64_t> by_dimension(const graph_step& s, std::string_view argument, std::size_t dims, int64_t otherwise) {
  auto given = integers_argument(s, argument).value_or(std::vector<int64_t>{});
  if (given.size() == dims) return given;
  return std::vector<int64_t>(dims, given.empty() ? otherwise : given.front());
}

bool geometry_is(const std::vector<int64_t>& values, int64_t wanted) {
  return std::ranges::all_of(values, [&](int64_t v) { return v == wanted; });
}

json list_of(const std::vector<int64_t>& values) {
  json::array out;
  for (const int64_t v : values)
    out.emplace_back(v);
  return json(std::move(out));
}

const char* convolution_name(std::size_t dims) {
  constexpr const char* names[] = {"aten::conv1d", "aten::conv2d", "aten::conv3d"};
  return names[dims - 1];
}

aten_step convolution_of(const convolution_geometry& c, const std::string& weight, const aten_step& own) {
  aten_step made;
  made.op = convolution_name(c.stride.size());
  made.args = {
      {"input", json(c.input)},      {"weight", json(weight)},        {"bias", c.bias.empty() ? json() : json(c.bias)},
      {"stride", list_of(c.stride)}, {"padding", list_of(c.padding)}, {"dilation", list_of(c.dilation)},
      {"groups", json(c.groups)}};
  made.results = own.results;
  made.precision = own.precision;
  return made;
}

expected<convolution_geometry> geometry_of(const graph& g, const graph_step& s) {
  const auto no = [&](const std::string& why) { return fail(errc::invalid_argument, "step {}: {}", s.number, why); };
  convolution_geometry out;
  const std::string name = s.op().substr(0, s.op().find('.'));
  const bool is_plain = name == "aten::conv1d" || name == "aten::conv2d" || name == "aten::conv3d";
  out.transposed = name.starts_with("aten::conv_transpose");
  if ((!is_plain && !out.transposed) || s.op().ends_with(".padding") || s.is_replaced())
    return no("it is no convolution");
  out.input = tensor_argument_name(s, "input").value_or("");
  out.weight = tensor_argument_name(s, "weight").value_or("");
  out.bias = tensor_argument_name(s, "bias").value_or("");
  const auto all = g.type_of(out.weight).dim();
  if (g.type_of(out.input).dim() != all) return no("it has no batch");
  const auto dims = static_cast<std::size_t>(all - 2);
  out.stride = by_dimension(s, "stride", dims, 1);
  out.padding = by_dimension(s, "padding", dims, 0);
  out.dilation = by_dimension(s, "dilation", dims, 1);
  out.output_padding = by_dimension(s, "output_padding", dims, 0);
  out.groups = integer_argument(s, "groups").value_or(1);
  return out;
}

std::vector<met_range> met_ranges(const convolution_geometry& c, std::size_t dim, int64_t inputs, int64_t outputs,
                                  int64_t weights) {
  std::vector<met_range> out;
  for (int64_t w = 0; w < weights; ++w) {
    const int64_t offset = w * c.dilation[dim] - c.padding[dim];
    met_range r;
    if (c.transposed) {  // result = element * stride + offset
      r.first = std::max<int64_t>(0, ceiling_of(-offset, c.stride[dim]));
      r.last = std::min(inputs - 1, floor_of(outputs - 1 - offset, c.stride[dim]));
    } else {  // element = result + offset
      r.first = std::max<int64_t>(0, offset);
      r.last = std::min(inputs - 1, outputs - 1 + offset);
    }
    if (r.first > r.last) continue;
    r.first_weight = w;
    if (!out.empty() && out.back().first == r.first && out.back().last == r.last &&
        out.back().first_weight + out.back().weights == w)
      ++out.back().weights;
    else
      out.push_back(r);
  }
  return out;
}

}  // namespace cudal1
