#include "policy/codegen/body_builder.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <tuple>

#include "policy/codegen/body_edits.hpp"
#include "policy/codegen/feature_pools.hpp"
#include "policy/codegen/internal_operators.hpp"
#include "policy/codegen/memory_order.hpp"
#include "policy/codegen/operator_values.hpp"
#include "policy/codegen/product_operators.hpp"
#include "policy/codegen/window_operators.hpp"
#include "policy/graph/alignment.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

std::size_t at(int64_t index) {
  return static_cast<std::size_t>(index);
}

// Internal operators have their own registry; ATen operators are found by their records.
const operator_builder* find_elementwise_builder(const graph_step& s) {
  const internal_operator* own = find_internal_operator(s.op());
  if (own == nullptr) return is_own_product(s) ? &product_builder() : find_pointwise(s);
  return own->elementwise ? &own->elementwise : nullptr;
}

}  // namespace

const row_operator* find_row_builder(const graph_step& s) {
  const internal_operator* own = find_internal_operator(s.op());
  if (own == nullptr) {
    const auto* const of_windows = find_window_operator(s);
    return of_windows != nullptr ? of_windows : find_row_operator(s);
  }
  return own->rows ? &*own->rows : nullptr;
}

body_builder::body_builder(const graph& g, row_domain domain, std::set<int> in_front)
    : graph_(&g), domain_(std::move(domain)), in_front_(std::move(in_front)) {
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
  const int slid = static_cast<int>(domain_.windows.size());
  for (int i = 0; i < slid; ++i)
    body_.windows.push_back({domain_.windows[at(i)], body_.row_dims - slid + i, body_.row_dims + i});
}

std::optional<value_form> body_builder::form_of(const std::vector<int64_t>& shape) const {
  if (!domain_.windows.empty()) {
    const auto made = std::span(domain_.shape).first(domain_.pooled.size());
    if (!std::ranges::equal(shape, is_in_front_ ? std::span(domain_.pooled) : made)) return std::nullopt;
    return is_in_front_ ? value_form::pooled : value_form::row_squeezed;
  }
  if (domain_.parts > 1) {
    if (shape == domain_.whole) return value_form::full;
    if (shape == domain_.shape || is_ungrouped(shape)) return value_form::part;
    const auto joined = static_cast<std::ptrdiff_t>(domain_.shape.size()) - domain_.joined_dim;
    if (domain_.reduced.empty())
      return std::ssize(shape) < joined || shape.end()[-joined] == 1 ? repeated_along(shape) : std::nullopt;
  }
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
  return domain_.parts > 1 ? std::nullopt : repeated_along(shape);
}

// Of a value that has size 1 where the kernel's other values differ.
std::optional<value_form> body_builder::repeated_along(const std::vector<int64_t>& shape) const {
  if (shape.size() > domain_.shape.size()) return std::nullopt;
  const std::size_t shift = domain_.shape.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && shape[d] != domain_.shape[d + shift]) return std::nullopt;
  return value_form::repeated;
}

std::vector<int64_t> body_builder::domain_strides(const std::vector<int64_t>& by_dim, value_form form) const {
  const auto step = [&](const domain_dim& d) {
    return d.dim == domain_.joined_dim && domain_.interleaved && form == value_form::full ? domain_.parts
                                                                                          : d.multiplier;
  };
  std::vector<int64_t> out;
  for (const auto& d : dims_)
    out.push_back(d.size == 1 || (!repeats_.empty() && repeats_[at(d.dim)] != 0) ? 0 : by_dim[at(d.dim)] * step(d));
  return out;
}

// Of a part's first element, for a tensor of these strides by dimension of the full shape.
int64_t body_builder::part_offset(int64_t part, const std::vector<int64_t>& by_dim) const {
  if (domain_.parts == 1) return 0;
  const auto d = static_cast<std::size_t>(domain_.joined_dim);
  return part * (domain_.interleaved ? 1 : domain_.shape[d]) * by_dim[d];
}

// Strides of `type`, broadcast to `result`, by dimension of the full shape.
std::vector<int64_t> body_builder::strides_in_result(const tensor_type& type, const tensor_type& result) const {
  std::vector<int64_t> in_result(result.shape.size(), 0);
  const std::size_t shift = result.shape.size() - type.shape.size();
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    in_result[i + shift] = type.shape[i] == 1 ? 0 : type.strides[i];
  if (result.shape.size() == domain_.shape.size()) return in_result;
  if (is_ungrouped(result.shape)) {
    std::vector<int64_t> grouped(in_result.begin(), in_result.end() - 1);
    int64_t step = in_result.back();
    for (std::size_t d = domain_.shape.size(); d-- > in_result.size() - 1;) {
      grouped.insert(grouped.begin() + static_cast<std::ptrdiff_t>(in_result.size()) - 1, step);
      step *= domain_.shape[d];
    }
    return grouped;
  }
  if (form_of(result.shape) == value_form::repeated) {
    in_result.insert(in_result.begin(), domain_.shape.size() - result.shape.size(), 0);
    return in_result;
  }
  // A per-row value without the reduced dimensions.
  std::vector<int64_t> out(domain_.shape.size(), 0);
  std::size_t next = 0;
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (std::find(domain_.reduced.begin(), domain_.reduced.end(), static_cast<int64_t>(d)) == domain_.reduced.end())
      out[d] = in_result[next++];
  }
  return out;
}

// Of strides by dimension of what windows slide over, those by dimension of the full shape.
std::vector<int64_t> body_builder::strides_in_windows(std::vector<int64_t> by_dim) const {
  const std::size_t dims = domain_.pooled.size(), first = dims - domain_.windows.size();
  by_dim.resize(domain_.shape.size(), 0);
  for (std::size_t i = 0; i < domain_.windows.size(); ++i) {
    by_dim[dims + i] = by_dim[first + i] * domain_.windows[i].dilation;
    by_dim[first + i] *= domain_.windows[i].stride;
  }
  return by_dim;
}

int body_builder::add_node(body_node n) {
  body_.nodes.push_back(std::move(n));
  return static_cast<int>(body_.nodes.size()) - 1;
}

int body_builder::load(const std::string& value, std::vector<int64_t> strides, int64_t offset, bool slides) {
  for (std::size_t i = 0; i < body_.nodes.size(); ++i) {
    const auto& n = body_.nodes[i];
    if (n.kind != node_kind::load || !n.operands.empty()) continue;
    const auto& known = body_.operands[static_cast<std::size_t>(n.operand)];
    if (known.value == value && known.strides == strides && known.offset == offset && known.slides == slides)
      return static_cast<int>(i);
  }
  body_node n;
  n.kind = node_kind::load;
  n.type = computed_in(graph_->type_of(value).type);
  n.value = value;
  n.operand = static_cast<int>(body_.operands.size());
  n.per_row = !domain_.reduced.empty() && is_one_per_row(strides, body_.row_dims);
  n.cost = 0;
  const tensor_type& type = graph_->type_of(value);
  const bool aligned = starts_aligned(*graph_, value) && offset * size_of(type.type) % 16 == 0;
  body_.operands.push_back({value, type, std::move(strides), aligned, offset});
  body_.operands.back().slides = slides;
  return add_node(std::move(n));
}

expected<int> body_builder::table_load(const table& from) {
  if (domain_.parts > 1 || !domain_.windows.empty() || bound_.contains(from.value) || bound_.contains(from.index))
    return fail(errc::unsupported, "the rows of {} are not chosen by a tensor in memory", from.value);
  const int index = load(from.index, domain_strides(from.index_strides));
  const tensor_type& type = graph_->type_of(from.value);
  body_node n;
  n.kind = node_kind::load;
  n.type = computed_in(type.type);
  n.value = from.value;
  n.operand = static_cast<int>(body_.operands.size());
  n.operands = {index};
  n.cost = 0;
  body_operand o{from.value, type, domain_strides(from.strides), starts_aligned(*graph_, from.value)};
  o.lookup_stride = from.row_stride;
  o.lookup_count = from.rows;
  n.per_row = node(index).per_row && !domain_.reduced.empty() && is_one_per_row(o.strides, body_.row_dims);
  body_.operands.push_back(std::move(o));
  return add_node(std::move(n));
}

int body_builder::strided_load(const std::string& value, const std::vector<int64_t>& strides) {
  if (is_in_front_) return load(value, domain_strides(strides_in_windows(strides)));
  std::vector<int64_t> by_dim = strides;
  by_dim.resize(domain_.shape.size(), 0);
  return load(value, domain_strides(by_dim), part_offset(part_, strides));
}

expected<int> body_builder::window_weights(const std::string& value, std::vector<int64_t> strides) {
  if (bound_.contains(value)) return fail(errc::unsupported, "the weights {} are not in memory", value);
  strides.resize(domain_.shape.size(), 0);
  return converted(load(value, domain_strides(strides), 0, false), dtype::float32);
}

int body_builder::converted(int n, dtype wanted) {
  wanted = computed_in(wanted);
  const dtype have = node(n).type;
  if (have == wanted) return n;
  if (wanted == dtype::bool_) return pointwise("$0 != 0", {n}, wanted, 0);
  return pointwise("(" + c_type(wanted) + ")$0", {n}, wanted, 0);
}

int body_builder::wrapped_to(dtype type, int n) {
  const std::string text = wrapped(type, "$0");
  return text == "$0" ? n : pointwise(text, {n}, type, 0);
}

// A value of type `from` as one of type `wanted`.
int body_builder::cast(int n, dtype from, dtype wanted) {
  const int out = converted(n, wanted);
  const bool fits = from == wanted || from == dtype::bool_ || size_of(from) < size_of(wanted);
  return fits ? out : wrapped_to(wanted, out);
}

expected<int> body_builder::operand_value(const std::string& name, const tensor_type& result, dtype wanted) {
  const std::string& value = graph_->resolve(name);
  const tensor_type& type = graph_->type_of(value);
  const auto result_form = form_of(result.shape);
  if (!result_form)
    return fail(errc::unsupported, "{} has neither the shape of the kernel's elements nor that of its rows",
                result.text());
  if (const auto known = bound_.find(value); known != bound_.end()) {
    const bool single = type.numel() == 1;
    const bool fits =
        known->second.form == *result_form || known->second.form == value_form::repeated ||
        (known->second.form == value_form::row_kept &&
         (*result_form == value_form::full || *result_form == value_form::part)) ||
        (single && domain_.windows.empty() && known->second.form != value_form::full && body_.rows() == 1);
    if (!fits) return fail(errc::unsupported, "{} would be broadcast across the kernel's rows", value);
    return cast(known->second.nodes[known->second.form == value_form::full ? at(part_) : 0], type.type, wanted);
  }
  return loaded_as(value, type, result, wanted);
}

// What lies in memory, seen as a tensor of this type.
expected<int> body_builder::loaded_as(const std::string& value, const tensor_type& type, const tensor_type& result,
                                      dtype wanted) {
  if (is_made_in_front(value))
    return fail(errc::unsupported, "{} is made in front of the product, and read behind it", value);
  if (type.shape.size() > result.shape.size())
    return fail(errc::unsupported, "{} has more dimensions than the result", value);
  std::vector<int64_t> strides = strides_in_result(type, result);
  if (is_in_front_) strides = strides_in_windows(std::move(strides));
  const auto form = *form_of(result.shape);
  const int64_t offset = form == value_form::full ? part_offset(part_, strides) : 0;
  return cast(load(value, domain_strides(strides, form), offset), type.type, wanted);
}

expected<int> body_builder::view_of_memory(const std::string& name, const tensor_type& as) {
  const std::string& value = graph_->resolve(name);
  if (bound_.contains(value) || !form_of(as.shape))
    return fail(errc::unsupported, "a view as {} of {}, which the kernel computes", as.text(), value);
  return loaded_as(value, as, as, as.type);
}

expected<int> body_builder::joined_operand(const graph_step& s, std::string_view name, dtype wanted) {
  const auto* list = std::get_if<std::vector<tensor_argument>>(s.argument(name));
  if (list == nullptr || std::ssize(*list) != domain_.parts)
    return fail(errc::unsupported, "{} joins other parts than the rest of the kernel", s.op());
  tensor_type part;
  part.shape = domain_.ungrouped.empty() ? domain_.shape : domain_.ungrouped;
  const std::string& value = graph_->resolve((*list)[at(part_)].name);
  if (graph_->type_of(value).shape != part.shape)
    return fail(errc::unsupported, "{} joins other parts than the rest of the kernel", s.op());
  return operand_value(value, part, wanted);
}

expected<int> body_builder::operand(const graph_step& s, std::string_view name, const tensor_type& result,
                                    dtype wanted) {
  const auto value = tensor_argument_name(s, name);
  if (!value) return fail(errc::unsupported, "{} has no tensor argument {}", s.op(), name);
  return operand_value(*value, result, wanted);
}

int body_builder::constant(double v, dtype type) {
  body_node n;
  n.kind = node_kind::constant;
  n.type = computed_in(type);
  n.expression = c_literal(v, type);
  n.per_row = true;
  n.cost = 0;
  return add_node(std::move(n));
}

int body_builder::pointwise(std::string expression, std::vector<int> operands, dtype type, int cost) {
  body_node n;
  n.type = computed_in(type);
  n.expression = std::move(expression);
  n.cost = n.operations = cost;
  n.per_row = true;
  for (const int o : operands) {
    n.per_row = n.per_row && node(o).per_row;
    n.cost += node(o).kind == node_kind::reduce || node(o).per_row ? 0 : node(o).cost;
  }
  n.operands = std::move(operands);
  return add_node(std::move(n));
}

expected<int> body_builder::add_factor(const product_factor& f) {
  // Of a transposed weight, the weight: its strides say how it is read, and it is known to be constant.
  const std::string memory = seen_through_views(*graph_, f.value);
  if (bound_.contains(f.value) || bound_.contains(memory))
    return fail(errc::unsupported, "the product's operand {} is not in memory", f.value);
  for (const auto* value : {&f.value, &memory})
    if (is_made_in_front(*value))
      return fail(errc::unsupported, "{} is made in front of the product, as one of its factors alone", *value);
  const tensor_type& type = graph_->type_of(memory);
  const int64_t offset = part_offset(part_, f.strides);
  const bool aligned = starts_aligned(*graph_, memory) && offset * size_of(type.type) % 16 == 0;
  body_operand o{memory, type, domain_strides(f.strides), aligned, offset};
  o.constant = graph_->is_constant(memory);
  o.step = f.step;
  o.lookup_stride = f.lookup_stride;
  o.lookup_count = f.lookup_count;
  o.inner_step = f.inner_step;
  body_.operands.push_back(std::move(o));
  return static_cast<int>(body_.operands.size()) - 1;
}

bool body_builder::is_made_in_front(const std::string& value) const {
  const graph_step* maker = graph_->producer(value);
  return domain_.windows.empty() && maker != nullptr && in_front_.contains(maker->number);
}

expected<std::optional<kernel_body>> body_builder::made_in_front(const std::string& value) const {
  if (!is_made_in_front(value)) return std::nullopt;
  row_domain own;
  own.shape = graph_->type_of(value).shape;
  body_builder front(*graph_, std::move(own));
  for (const int number : in_front_)
    CUDAL1_CHECK(front.add_step(graph_->step_at(number)));
  const auto made = front.bound_.find(value);
  if (made == front.bound_.end() || made->second.form != value_form::full)
    return fail(errc::unsupported, "the product's operand {} is not made element by element", value);
  kernel_body out = std::move(front.body_);
  out.results = {{made->second.nodes.front(), {}}};
  tidy(out);
  return out;
}

expected<void> body_builder::start_products(const std::string& of, const made_factor& left) {
  left_factor_ = of;
  body_product& made = body_.product.emplace();
  std::vector<int> operands;
  for (const auto& each : left.operands) {
    CUDAL1_TRY(const int operand, add_factor(each));
    operands.push_back(operand);
  }
  made.left = operands[at(left.main)];
  made.left_band = left.operands[at(left.main)].known;
  if (left.rows >= 0) made.left_rows = operands[at(left.rows)];
  if (left.inner_right >= 0) {
    made.inner_right = operands[at(left.inner_right)];
    made.inner_depth = left.inner_depth;
  }
  made.left_made = left.nodes;
  for (auto& n : made.left_made)
    if (n.kind == node_kind::load) n.operand = operands[at(n.operand)];
  return {};
}

expected<int> body_builder::product(const std::string& of, const made_factor& left, const product_factor& right,
                                    int64_t depth) {
  if (!domain_.windows.empty()) return fail(errc::unsupported, "a kernel of windows computes no product");
  if (!body_.product) {
    CUDAL1_CHECK(start_products(of, left));
    body_.product->depth = depth;
    body_.product->right_band = right.known;
  }
  body_product& made = *body_.product;
  if (left_factor_ != of) return fail(errc::unsupported, "a kernel computes products of one left factor only");
  if (made.rights.size() == most_products)
    return fail(errc::unsupported, "a kernel computes at most {} products", most_products);
  CUDAL1_TRY(const int operand, add_factor(right));
  const body_operand& o = body_.operands[at(operand)];
  const body_operand& first = made.rights.empty() ? o : body_.operands[at(made.rights.front())];
  if (std::tie(o.strides, o.step, o.type.type) != std::tie(first.strides, first.step, first.type.type))
    return fail(errc::unsupported,
                "{} does not lie in memory as {} does, the right factor of the kernel's other product", o.value,
                first.value);
  made.rights.push_back(operand);
  if (made.right_band != right.known) made.right_band = {};
  body_node n;
  n.kind = node_kind::product;
  n.operand = static_cast<int>(made.rights.size()) - 1;
  n.cost = 1000;
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

int body_builder::window_size(bool counts_padding) {
  body_node n;
  n.kind = node_kind::window_size;
  n.counts_padding = counts_padding;
  n.per_row = true;
  return add_node(std::move(n));
}

expected<int> body_builder::pooled_operand(const graph_step& s, std::string_view name) {
  tensor_type type;
  type.shape = domain_.pooled;
  is_in_front_ = true;
  auto found = operand(s, name, type, dtype::float32);
  is_in_front_ = false;
  return found;
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
    return fail(errc::unsupported, "the result of {} is {}, which is neither one value per element nor one per row",
                s.op(), type.text());
  if (memory_type(type.type).empty()) return fail(errc::unsupported, "kernels do not write {} yet", name_of(type.type));
  const bool by_row = *form == value_form::row_kept || *form == value_form::row_squeezed;
  if (by_row && !node(n).per_row) return fail(errc::unsupported, "the result of {} differs along a row", s.op());
  const std::string& value = s.text->results[result];
  if (!value.empty()) bind_value(value, *form, converted(n, type.type));
  return {};
}

void body_builder::bind_value(const std::string& value, value_form form, int n) {
  // A node has one name; a second name for the same value (a view) gets a separate node.
  if (!node(n).value.empty() || node(n).kind == node_kind::load) n = pointwise("$0", {n}, node(n).type, 0);
  node(n).value = value;
  bound_value& bound = bound_[value];
  bound.form = form;
  bound.nodes.push_back(n);
}

// Views of the parts of a value that the kernel computes.
expected<void> body_builder::add_slices(const graph_step& s) {
  const auto known = bound_.find(graph_->resolve(*tensor_argument_name(s, "self")));
  if (known == bound_.end() || known->second.form != value_form::full)
    return fail(errc::unsupported, "{} takes slices of what the kernel does not compute", s.op());
  const std::vector<int> nodes = known->second.nodes;
  const int64_t size = domain_.shape[at(domain_.joined_dim)];
  for (std::size_t r = 0; r < s.text->results.size(); ++r) {
    if (s.text->results[r].empty()) continue;
    const auto place = place_of_slice(*graph_, s, r);
    if (!place || place->dim != domain_.joined_dim || place->first % size != 0 ||
        s.result_types[r].shape != domain_.shape)
      return fail(errc::unsupported, "{} takes other slices than the rest of the kernel", s.op());
    CUDAL1_CHECK(bind(s, r, nodes[at(place->first / size)]));
  }
  return {};
}

expected<void> body_builder::add_feature_pool(const graph_step& s) {
  const auto known = bound_.find(graph_->resolve(*tensor_argument_name(s, "self")));
  if (known == bound_.end() || known->second.form != value_form::full)
    return fail(errc::unsupported, "{} pools what the kernel does not compute", s.op());
  CUDAL1_CHECK(check_only_first_is_read(*this, s, "indices"));
  const std::vector<int> nodes = known->second.nodes;
  const bool averages = s.record().traits.sums;
  int value = nodes.front();
  for (const int n : std::span(nodes).subspan(1))
    value = pointwise(averages ? "$0 + $1" : "$0 > $1 || $0 != $0 ? $0 : $1", {value, n});
  if (averages) value = divided(*this, value, static_cast<double>(domain_.parts));
  bind_value(s.text->results[0], value_form::part, value);
  return {};
}

expected<bool> body_builder::adds_parts(const graph_step& s) {
  if (domain_.parts == 1) return false;
  if (place_of_slice(*graph_, s, 0)) {
    CUDAL1_CHECK(add_slices(s));
    return true;
  }
  const auto pool = pool_of_features(*graph_, s);
  if (pool && pool->size == domain_.parts && graph_->type_of(pool->product).shape == domain_.whole) {
    CUDAL1_CHECK(add_feature_pool(s));
    return true;
  }
  if (!is_unit_view(*graph_, s)) return false;
  const auto known = bound_.find(graph_->resolve(*tensor_argument_name(s, "self")));
  if (known == bound_.end() || s.text->results[0].empty()) return false;
  bound_[s.text->results[0]] = known->second;
  return true;
}

expected<void> body_builder::add_step(const graph_step& s) {
  CUDAL1_TRY(const bool added, adds_parts(s));
  if (added) return {};
  if (const auto* build = find_elementwise_builder(s)) {
    const auto& shape = s.result_types[0].shape;
    repeats_.clear();
    if (form_of(shape) == value_form::repeated) {
      repeats_.assign(domain_.shape.size(), 1);
      for (std::size_t d = 0; d < shape.size(); ++d)
        repeats_[domain_.shape.size() - shape.size() + d] = shape[d] == 1 ? 1 : 0;
    }
    const bool whole = domain_.parts > 1 && s.result_types[0].shape == domain_.whole;
    is_in_front_ = !domain_.windows.empty() && in_front_.contains(s.number);
    for (part_ = 0; part_ < (whole ? domain_.parts : 1); ++part_)
      CUDAL1_CHECK((*build)(*this, s));
    part_ = 0;
    is_in_front_ = false;
    repeats_.clear();
    return {};
  }
  if (const auto* row = find_row_builder(s)) {
    CUDAL1_TRY(const row_domain own, row->domain(*graph_, s));
    row_domain rows = domain_;
    if (rows.parts > 1) {
      rows = {};
      rows.shape = domain_.shape;
      rows.reduced = domain_.reduced;
    }
    if (own != rows) {
      // (A reduction of per-row values is legal only over dimensions of size 1.)
      return fail(errc::unsupported, "{} reduces other dimensions than the rest of the kernel", s.op());
    }
    return row->build(*this, s);
  }
  return fail(errc::unsupported, "{} is neither a pointwise nor a row operator", s.op());
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
      if (known == bound_.end()) return fail(errc::unsupported, "the kernel does not compute {}", value);
      const tensor_type& type = s.result_types[r];
      if (known->second.form == value_form::pooled)
        return fail(errc::unsupported, "{} is computed again for each window, and read elsewhere", value);
      if (known->second.form == value_form::repeated)
        return fail(errc::unsupported, "{} is smaller than what the kernel computes, and read elsewhere", value);
      if (!type.is_contiguous() && (body_.product || !is_dense(type)))
        return fail(errc::unsupported,
                    "{} is {}, but kernels write contiguous tensors, or these with their dimensions in another order "
                    "where they make no product",
                    value, type.text());
      const bool in_parts =
          domain_.parts > 1 && (known->second.form == value_form::full || known->second.form == value_form::part);
      if (in_parts && (type.dim() != std::ssize(domain_.shape) ||
                       (known->second.form == value_form::full && !domain_.covers_whole())))
        return fail(errc::unsupported, "{} is read outside of the kernel, which has no element for each of its own",
                    value);
      const std::vector<int64_t> strides = strides_in_result(type, type);
      const auto& nodes = known->second.nodes;
      for (std::size_t part = 0; part < nodes.size(); ++part) {
        const value_form form = known->second.form;
        const int64_t offset = form == value_form::full ? part_offset(static_cast<int64_t>(part), strides) : 0;
        const bool aligned = offset * size_of(type.type) % 16 == 0;
        body_.results.push_back({nodes[part], {value, type, domain_strides(strides, form), aligned, offset}});
      }
    }
  }
  if (body_.results.empty()) return fail(errc::invalid_argument, "nothing reads the results of these steps");
  return std::move(body_);
}

expected<kernel_body> build_body(const graph& g, const std::vector<int>& steps) {
  if (steps.empty()) return fail(errc::invalid_argument, "a kernel needs at least one step");
  CUDAL1_TRY(const row_domain domain, domain_of(g, steps));
  const bool slides = !domain.windows.empty();
  const std::set<int> in_front = steps_in_front(g, steps, domain);
  body_builder builder(g, domain, in_front);
  for (const int number : steps)
    if (slides || !in_front.contains(number)) CUDAL1_CHECK(builder.add_step(g.step_at(number)));
  CUDAL1_TRY(kernel_body body, std::move(builder).finish(steps));
  for (const auto size : body.domain) {
    if (size == 0) return fail(errc::unsupported, "the kernel would have no elements");
  }
  for (const auto& o : body.operands) {
    if (o.type.storage_bytes() > (int64_t{1} << 32))
      return fail(errc::unsupported, "{} is too large for 32-bit indices", o.value);
  }
  order_dimensions(body);
  collapse_dimensions(body);
  put_columns_in_right_factor(body);
  return body;
}

operator_family family_of(const graph_step& s) {
  if (is_own_product(s)) return operator_family::product;
  if (find_elementwise_builder(s) != nullptr) return operator_family::pointwise;
  if (const auto* row = find_row_builder(s)) return row->family;
  return operator_family::other;
}

}  // namespace cudal1
