#include "policy/codegen/body_builder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "policy/codegen/kernel_body.hpp"

namespace cudal1 {

std::string c_type(dtype t) {
  switch (t) {
    case dtype::bool_:
      return "bool";
    case dtype::int32:
      return "int";
    case dtype::int64:
      return "long long";
    case dtype::float32:
      return "float";
    case dtype::float64:
      return "double";
    default:
      return "";
  }
}

std::string c_literal(double v, dtype type) {
  if (type == dtype::bool_) return v != 0 ? "true" : "false";
  if (type == dtype::int32) return fmt::format("{}", static_cast<int64_t>(v));
  if (type == dtype::int64) return fmt::format("{}ll", static_cast<int64_t>(v));
  const bool single = type == dtype::float32;
  const double rounded = single ? static_cast<double>(static_cast<float>(v)) : v;
  if (std::isnan(rounded)) return single ? "__int_as_float(0x7fc00000)" : "__longlong_as_double(0x7ff8000000000000ll)";
  if (std::isinf(rounded)) {
    if (single) return rounded > 0 ? "__int_as_float(0x7f800000)" : "-__int_as_float(0x7f800000)";
    return rounded > 0 ? "__longlong_as_double(0x7ff0000000000000ll)" : "-__longlong_as_double(0x7ff0000000000000ll)";
  }
  std::string text = single ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (rounded < 0 || std::signbit(rounded))
    text = "(" + text + (single ? "f)" : ")");
  else if (single)
    text += "f";
  return text;
}

body_builder::body_builder(const graph& g, row_domain domain) : graph_(&g), domain_(std::move(domain)) {
  const auto is_reduced = [&](int64_t d) {
    return std::find(domain_.reduced.begin(), domain_.reduced.end(), d) != domain_.reduced.end();
  };
  std::vector<domain_dim> rows, columns;
  for (int64_t d = 0; d < static_cast<int64_t>(domain_.shape.size()); ++d) {
    const int64_t size = domain_.shape[static_cast<std::size_t>(d)];
    if (d == domain_.split_dim) {
      const int64_t inner = size / domain_.groups;
      rows.push_back({d, domain_.groups, inner});
      columns.push_back({d, inner, 1});
    } else {
      (is_reduced(d) ? columns : rows).push_back({d, size, 1});
    }
  }
  body_.row_dims = static_cast<int>(rows.size());
  dims_ = std::move(rows);
  for (const auto& c : columns) {
    columns_ *= c.size;
    dims_.push_back(c);
  }
  for (const auto& d : dims_)
    body_.domain.push_back(d.size);
}

std::optional<value_form> body_builder::form_of(const std::vector<int64_t>& shape) const {
  if (shape == domain_.shape) return value_form::full;
  if (domain_.split_dim >= 0) return std::nullopt;
  std::vector<int64_t> kept = domain_.shape, squeezed;
  for (const auto d : domain_.reduced)
    kept[static_cast<std::size_t>(d)] = 1;
  if (shape == kept) return value_form::row_kept;
  for (int64_t d = 0; d < static_cast<int64_t>(domain_.shape.size()); ++d) {
    if (std::find(domain_.reduced.begin(), domain_.reduced.end(), d) == domain_.reduced.end())
      squeezed.push_back(domain_.shape[static_cast<std::size_t>(d)]);
  }
  if (shape == squeezed) return value_form::row_squeezed;
  return std::nullopt;
}

std::vector<int64_t> body_builder::domain_strides(const std::vector<int64_t>& by_dim) const {
  std::vector<int64_t> out;
  for (const auto& d : dims_)
    out.push_back(d.size == 1 ? 0 : by_dim[static_cast<std::size_t>(d.dim)] * d.multiplier);
  return out;
}

// Strides of `type`, broadcast to `result`, by dimension of the full shape.
std::vector<int64_t> body_builder::strides_in_result(const tensor_type& type, const tensor_type& result) const {
  std::vector<int64_t> in_result(result.shape.size(), 0);
  const std::size_t shift = result.shape.size() - type.shape.size();
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    in_result[i + shift] = type.shape[i] == 1 ? 0 : type.strides[i];
  if (result.shape.size() == domain_.shape.size()) return in_result;
  // A row's value without its reduced dimensions.
  std::vector<int64_t> out(domain_.shape.size(), 0);
  std::size_t next = 0;
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (std::find(domain_.reduced.begin(), domain_.reduced.end(), static_cast<int64_t>(d)) == domain_.reduced.end())
      out[d] = in_result[next++];
  }
  return out;
}

int body_builder::add_node(body_node n) {
  body_.nodes.push_back(std::move(n));
  return static_cast<int>(body_.nodes.size()) - 1;
}

int body_builder::load(const std::string& value, std::vector<int64_t> strides) {
  for (std::size_t i = 0; i < body_.nodes.size(); ++i) {
    const auto& n = body_.nodes[i];
    if (n.kind != node_kind::load) continue;
    const auto& known = body_.operands[static_cast<std::size_t>(n.operand)];
    if (known.value == value && known.strides == strides) return static_cast<int>(i);
  }
  body_node n;
  n.kind = node_kind::load;
  n.type = graph_->type_of(value).type;
  n.value = value;
  n.operand = static_cast<int>(body_.operands.size());
  n.per_row = !domain_.reduced.empty() && is_one_a_row(strides, body_.row_dims);
  n.cost = 0;
  body_.operands.push_back({value, graph_->type_of(value), std::move(strides), starts_aligned(*graph_, value)});
  return add_node(std::move(n));
}

int body_builder::strided_load(const std::string& value, const std::vector<int64_t>& strides) {
  return load(value, domain_strides(strides));
}

int body_builder::converted(int n, dtype wanted) {
  const dtype have = node(n).type;
  if (have == wanted) return n;
  if (wanted == dtype::bool_) return pointwise("$0 != 0", {n}, wanted, 0);
  return pointwise("(" + c_type(wanted) + ")$0", {n}, wanted, 0);
}

expected<int> body_builder::operand_value(const std::string& name, const tensor_type& result, dtype wanted) {
  const std::string& value = graph_->resolve(name);
  const tensor_type& type = graph_->type_of(value);
  if (c_type(type.type).empty())
    return fail(errc::unsupported, "kernels do not read {} yet ({})", name_of(type.type), value);
  const auto result_form = form_of(result.shape);
  if (!result_form)
    return fail(errc::unsupported, "{} lies neither on the elements nor on the rows of the kernel", result.text());
  if (const auto known = bound_.find(value); known != bound_.end()) {
    const bool single = type.numel() == 1;
    const bool fits = known->second.form == *result_form ||
                      (known->second.form == value_form::row_kept && *result_form == value_form::full) ||
                      (single && known->second.form != value_form::full && body_.rows() == 1);
    if (!fits) return fail(errc::unsupported, "{} would be broadcast across the kernel's rows", value);
    return converted(known->second.node, wanted);
  }
  if (type.shape.size() > result.shape.size())
    return fail(errc::unsupported, "{} has more dimensions than the result", value);
  return converted(load(value, domain_strides(strides_in_result(type, result))), wanted);
}

expected<int> body_builder::operand(const graph_step& s, std::string_view name, const tensor_type& result,
                                    dtype wanted) {
  const auto value = tensor_argument_name(s, name);
  if (!value) return fail(errc::unsupported, "{} without {}", s.op(), name);
  return operand_value(*value, result, wanted);
}

int body_builder::constant(double v, dtype type) {
  body_node n;
  n.kind = node_kind::constant;
  n.type = type;
  n.expression = c_literal(v, type);
  n.per_row = true;
  n.cost = 0;
  return add_node(std::move(n));
}

int body_builder::pointwise(std::string expression, std::vector<int> operands, dtype type, int cost) {
  body_node n;
  n.type = type;
  n.expression = std::move(expression);
  n.cost = cost;
  n.per_row = true;
  for (const int o : operands) {
    n.per_row = n.per_row && node(o).per_row;
    n.cost += node(o).kind == node_kind::reduce || node(o).per_row ? 0 : node(o).cost;
  }
  n.operands = std::move(operands);
  return add_node(std::move(n));
}

int body_builder::reduce(reduction_kind how, int of) {
  body_node n;
  n.kind = node_kind::reduce;
  n.type = node(of).type;
  n.reduction = how;
  n.operands = {of};
  n.per_row = true;
  return add_node(std::move(n));
}

int body_builder::scan(int of) {
  body_node n;
  n.kind = node_kind::scan;
  n.type = node(of).type;
  n.operands = {of};
  n.cost = 100;
  return add_node(std::move(n));
}

expected<void> body_builder::bind(const graph_step& s, std::size_t result, int n) {
  const tensor_type& type = s.result_types[result];
  const auto form = form_of(type.shape);
  if (!form)
    return fail(errc::unsupported, "the result of {} is {}, which the kernel has no place for", s.op(), type.text());
  if (c_type(type.type).empty()) return fail(errc::unsupported, "kernels do not write {} yet", name_of(type.type));
  if (*form != value_form::full && !node(n).per_row)
    return fail(errc::unsupported, "the result of {} differs along a row", s.op());
  n = converted(n, type.type);
  const std::string& value = s.text->results[result];
  if (value.empty()) return {};
  // A node is named once; a second name for it (a view) is a node of its own.
  if (!node(n).value.empty() || node(n).kind == node_kind::load) n = pointwise("$0", {n}, type.type, 0);
  node(n).value = value;
  bound_[value] = {n, *form};
  return {};
}

expected<void> body_builder::add_step(const graph_step& s) {
  if (s.scaling) {
    // Straight from the diagonal, without the zeros around it.
    const auto& shape = domain_.shape;
    if (shape.size() != 2 || shape != s.result_types[0].shape)
      return fail(errc::unsupported, "a diagonal product needs a two-dimensional kernel of its own shape");
    const int64_t d = s.scaling->diagonal_stride;
    const int scale = strided_load(graph_->resolve(s.scaling->diagonal),
                                   s.scaling->scales_rows ? std::vector<int64_t>{d, 0} : std::vector<int64_t>{0, d});
    CUDAL1_TRY(const int matrix, operand_value(s.scaling->matrix, s.result_types[0], dtype::float32));
    return bind(s, 0, pointwise("$0 * $1", {scale, matrix}));
  }
  if (const auto* build = find_pointwise(s)) return (*build)(*this, s);
  if (const auto* row = find_row_operator(s)) {
    CUDAL1_TRY(const row_domain own, rows_of(*graph_, s, *row));
    if (own != domain_) {
      // A reduction over what the kernel has one value a row of is over one element only where sizes are 1.
      return fail(errc::unsupported, "{} goes over other rows than the rest of the kernel", s.op());
    }
    return s.dot ? build_row_dot(*this, s) : row->build(*this, s);
  }
  return fail(errc::unsupported, "{} is not made of elements and rows", s.op());
}

expected<kernel_body> body_builder::finish(const std::vector<int>& steps) && {
  const auto inside = [&](int number) { return std::find(steps.begin(), steps.end(), number) != steps.end(); };
  for (const int number : steps) {
    const graph_step& s = graph_->step_at(number);
    for (std::size_t r = 0; r < s.text->results.size(); ++r) {
      const std::string& value = s.text->results[r];
      if (value.empty()) continue;
      const auto& readers = graph_->readers(value);
      const bool leaves =
          graph_->is_output(value) || std::any_of(readers.begin(), readers.end(), [&](int n) { return !inside(n); });
      if (!leaves) continue;
      const auto known = bound_.find(value);
      if (known == bound_.end()) return fail(errc::unsupported, "the kernel does not make {}", value);
      const tensor_type& type = s.result_types[r];
      if (!type.is_contiguous())
        return fail(errc::unsupported, "{} is {}, and kernels write contiguous", value, type.text());
      body_.results.push_back({known->second.node, {value, type, domain_strides(strides_in_result(type, type)), true}});
    }
  }
  if (body_.results.empty()) return fail(errc::invalid_argument, "nothing reads what these steps make");
  return std::move(body_);
}

bool is_one_a_row(const std::vector<int64_t>& strides, int row_dims) {
  return std::all_of(strides.begin() + row_dims, strides.end(), [](int64_t s) { return s == 0; });
}

int64_t kernel_body::rows() const {
  return std::accumulate(domain.begin(), domain.begin() + row_dims, int64_t{1}, std::multiplies<>());
}

int64_t kernel_body::columns() const {
  return std::accumulate(domain.begin() + row_dims, domain.end(), int64_t{1}, std::multiplies<>());
}

bool kernel_body::has_reduction() const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const auto& n) { return n.kind == node_kind::reduce || n.kind == node_kind::scan; });
}

expected<kernel_body> build_body(const graph& g, const std::vector<int>& steps) {
  if (steps.empty()) return fail(errc::invalid_argument, "a kernel needs at least one step");
  std::optional<row_domain> domain;
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    if (s.scaling) continue;
    if (const auto* row = find_row_operator(s)) {
      CUDAL1_TRY(row_domain own, rows_of(g, s, *row));
      if (domain && *domain != own)
        return fail(errc::unsupported, "steps {} go over different rows", print_steps(steps));
      domain = std::move(own);
    }
  }
  if (!domain) {
    // Elements only: all results have one shape.
    domain = row_domain{g.step_at(steps.back()).result_types[0].shape, {}, -1, 1};
  }
  body_builder builder(g, *domain);
  for (const int number : steps)
    CUDAL1_CHECK(builder.add_step(g.step_at(number)));
  CUDAL1_TRY(kernel_body body, std::move(builder).finish(steps));
  for (const auto size : body.domain) {
    if (size == 0) return fail(errc::unsupported, "a kernel over no elements");
  }
  for (const auto& o : body.operands) {
    if (o.type.storage_bytes() > (int64_t{1} << 32))
      return fail(errc::unsupported, "{} is too large for 32-bit indices", o.value);
  }
  collapse_dimensions(body);
  return body;
}

operator_family family_of(const graph_step& s) {
  if (s.scaling) return operator_family::pointwise;
  if (find_pointwise(s) != nullptr) return operator_family::pointwise;
  if (const auto* row = find_row_operator(s)) return row->family;
  return operator_family::other;
}

void collapse_dimensions(kernel_body& body) {
  std::vector<std::vector<int64_t>*> all;
  for (auto& o : body.operands)
    all.push_back(&o.strides);
  for (auto& r : body.results)
    all.push_back(&r.target.strides);
  const auto erase = [&](std::size_t d) {
    body.domain.erase(body.domain.begin() + static_cast<std::ptrdiff_t>(d));
    for (auto* s : all)
      s->erase(s->begin() + static_cast<std::ptrdiff_t>(d));
    if (static_cast<int>(d) < body.row_dims) --body.row_dims;
  };
  for (std::size_t d = body.domain.size(); d-- > 0;) {
    if (body.domain[d] == 1) erase(d);
  }
  for (std::size_t d = body.domain.size(); d-- > 1;) {
    if (static_cast<int>(d) == body.row_dims) continue;  // rows stay rows
    const bool one_walk =
        std::all_of(all.begin(), all.end(), [&](const auto* s) { return (*s)[d - 1] == (*s)[d] * body.domain[d]; });
    if (!one_walk) continue;
    for (auto* s : all)
      (*s)[d - 1] = (*s)[d];
    body.domain[d - 1] *= body.domain[d];
    erase(d);
  }
}

}  // namespace cudal1
