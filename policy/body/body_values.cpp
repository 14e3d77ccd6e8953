// The nodes that a body's builder makes: loads, operands, conversions, elementwise nodes, reductions and contractions.
#include <algorithm>

#include "policy/body/body_builder.hpp"
#include "policy/body/matrix_product.hpp"
#include "policy/body/memory_order.hpp"
#include "policy/body/operator_values.hpp"
#include "policy/graph/alignment.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/strides.hpp"

namespace cudal1 {

int body_builder::add_node(body_node n) {
  body_.nodes.push_back(std::move(n));
  order_.emplace_back(step_, added_++);
  return static_cast<int>(body_.nodes.size()) - 1;
}

// Whether what windows of one element along a dimension have lies in its padding.
bool body_builder::reaches_padding(const std::vector<int64_t>& strides) const {
  return std::ranges::any_of(body_.windows, [&](const body_window& w) {
    return w.walk.kernel == 1 && w.walk.padding > 0 && strides[rules::at(w.row)] != 0;
  });
}

int body_builder::load(const std::string& value, const std::vector<int64_t>& strides, int64_t offset,
                       load_bounds bounds) {
  const bool bounded = bounds == load_bounds::windows;
  for (std::size_t i = 0; i < body_.nodes.size(); ++i) {
    const auto& n = body_.nodes[i];
    if (n.kind != node_kind::load || !n.operands.empty()) continue;
    const auto& known = body_.accesses[rules::at(n.access)];
    if (known.value != value || known.strides != strides || known.offset != offset || known.bounded != bounded ||
        !known.divided.empty())
      continue;
    if (step_ < order_[i].first) order_[i] = {step_, added_++};
    return static_cast<int>(i);
  }
  body_node n;
  n.kind = node_kind::load;
  n.type = computed_in(graph_->type_of(value).type);
  n.value = value;
  n.access = static_cast<int>(body_.accesses.size());
  n.per_row = !body_.is_elementwise() && body_.is_one_per_row(strides) && !(bounded && reaches_padding(strides));
  n.cost = 0;
  const tensor_type& type = graph_->type_of(value);
  const bool aligned = starts_aligned(*graph_, value) && offset * size_of(type.type) % 16 == 0;
  body_.accesses.push_back({value, type, strides, aligned, offset});
  body_.accesses.back().bounded = bounded;
  body_.accesses.back().constant = graph_->is_constant(value);
  const scope& now = scope_now();
  if (now.channel >= 0 && strides[rules::at(now.channel)] != 0) {
    divided_axis groups = now.groups;
    groups.outer_stride *= strides[rules::at(now.channel)];
    body_.accesses.back().divided.push_back(groups);
  }
  return add_node(std::move(n));
}

expected<int> body_builder::table_load(const table& from, const tensor_type& result) {
  const bool is_plain = is_in_operand() || (!domain_.parts && domain_.rows.windows.empty());
  if (!is_plain || is_computed(from.value) || is_computed(from.index))
    return fail(errc::unsupported, "the rows of {} are not chosen by a tensor in memory", from.value);
  CUDAL1_TRY(const place where, place_of(result));
  const int index = load(from.index, strides_at(from.index_strides, where), 0, load_bounds::tensor);
  const tensor_type& type = graph_->type_of(from.value);
  body_node n;
  n.kind = node_kind::load;
  n.type = computed_in(type.type);
  n.value = from.value;
  n.access = static_cast<int>(body_.accesses.size());
  n.operands = {index};
  n.cost = 0;
  body_access o{from.value, type, strides_at(from.strides, where), starts_aligned(*graph_, from.value)};
  o.gather_stride = from.row_stride;
  o.gather_count = from.rows;
  n.per_row = node(index).per_row && !body_.is_elementwise() && body_.is_one_per_row(o);
  body_.accesses.push_back(std::move(o));
  return add_node(std::move(n));
}

int body_builder::strided_load(const std::string& value, const std::vector<int64_t>& strides) {
  const scope& now = scope_now();
  return load(value, strides_at(strides, now.where), offset_at(strides, now.where), bounds_now());
}

expected<int> body_builder::window_weights(const std::string& value, const std::vector<int64_t>& strides,
                                           const std::vector<int64_t>& by_place) {
  if (is_computed(value)) return fail(errc::unsupported, "the weights {} are not in memory", value);
  std::vector<int64_t> all = strides_at(strides, scope_now().where);
  const std::vector<int64_t> within = strides_at(by_place, taps_);
  for (std::size_t a = 0; a < all.size(); ++a)
    all[a] += within[a];
  return converted(load(value, all, 0, load_bounds::tensor), dtype::float32);
}

bool body_builder::is_computed(const std::string& value) const {
  const graph_step* maker = graph_->producer(value);
  return maker != nullptr && steps_.contains(maker->number);
}

// The node of a value that the kernel computes, in that scope.
expected<int> body_builder::computed(const std::string& value, int in) {
  const auto known = bound_.find({in, value});
  if (known != bound_.end()) return known->second;
  const graph_step& s = *graph_->producer(value);
  scope_kind kind = scopes_[rules::at(in)].kind;
  if (kind == scope_kind::part) kind = scope_kind::results;
  const scope_kind first = kinds_.try_emplace(value, kind).first->second;
  if (first != kind)
    return fail(errc::unsupported, "{} is computed for {}, and read elsewhere", value,
                first == scope_kind::windows || kind == scope_kind::windows ? "each window again"
                                                                            : "a product, in front of it");
  // What makes an A is written where the product is.
  const int step_before = std::exchange(step_, kind != scope_kind::operand ? s.number : step_);
  const auto added = in_scope(in, [&] { return add_step(s); });
  step_ = step_before;
  CUDAL1_CHECK(added);
  const auto made = bound_.find({in, value});
  if (made == bound_.end()) return fail(errc::unsupported, "the kernel does not compute {}", value);
  return made->second;
}

expected<int> body_builder::operand_value(const std::string& name, const tensor_type& result, dtype wanted) {
  const std::string& value = graph_->resolve(name);
  const tensor_type& type = graph_->type_of(value);
  CUDAL1_TRY(const place where, place_of(result));
  if (type.shape.size() > result.shape.size())
    return fail(errc::unsupported, "{} has more dimensions than the result", value);
  const auto own = broadcast_place(type.shape, result.shape, where);
  if (!own) return fail(errc::unsupported, "{} is not broadcast to {}", value, result.text());
  if (!is_computed(value)) return loaded_as(value, type, *own, wanted);
  // What is the same in all parts of a value is computed once.
  const bool is_shared = scope_now().kind == scope_kind::part && type.shape != shape();
  const int in = is_shared ? 0 : now_;
  CUDAL1_TRY(const int n, computed(value, in));
  if (place_in(in, type.shape) != own)
    return fail(errc::unsupported, "{} would be broadcast across the kernel's rows", value);
  return cast(n, type.type, wanted);
}

// What lies in memory, seen as a tensor of this type, at that place.
expected<int> body_builder::loaded_as(const std::string& value, const tensor_type& type, const place& where,
                                      dtype wanted) {
  std::vector<int64_t> by_dim = type.strides;
  for (std::size_t d = 0; d < by_dim.size(); ++d)
    if (type.shape[d] == 1) by_dim[d] = 0;
  // Operands in memory are read like this: a transposed one as its memory is.
  const std::string& memory = is_in_operand() ? seen_through_views(*graph_, value) : value;
  return cast(load(memory, strides_at(by_dim, where), offset_at(by_dim, where), bounds_now()), type.type, wanted);
}

expected<int> body_builder::view_of_memory(const std::string& name, const tensor_type& as) {
  const std::string& value = graph_->resolve(name);
  const auto where = place_here(as.shape);
  if (is_computed(value) || !where)
    return fail(errc::unsupported, "the kernel cannot read {} from memory as {}", value, as.text());
  return loaded_as(value, as, *where, as.type);
}

expected<int> body_builder::merged_load(const std::string& view, const std::vector<int64_t>& parts,
                                        const tensor_type& result) {
  const std::string& value = graph_->resolve(view);
  const tensor_type& type = graph_->type_of(value);
  CUDAL1_TRY(const place where, place_of(result));
  if (is_computed(value) || scope_now().kind != scope_kind::results || !domain_.rows.windows.empty())
    return fail(errc::unsupported, "{} is not in memory, or read for windows or a product", value);
  body_access o{value, type, std::vector<int64_t>(body_.axes.size(), 0), starts_aligned(*graph_, value)};
  o.constant = graph_->is_constant(value);
  std::size_t from = 0;
  for (std::size_t d = 0; d < parts.size(); ++d, from += rules::at(parts[d - 1])) {
    const int64_t outer = type.strides[from], inner = parts[d] > 1 ? type.strides[from + 1] : outer;
    const int64_t divisor = parts[d] > 1 ? type.shape[from + 1] : 1;
    for (const auto& [axis, multiple] : where[d].terms) {
      if (outer == divisor * inner) {
        o.strides[rules::at(axis)] += multiple * inner;
        continue;
      }
      if (multiple != 1 || where[d].terms.size() != 1)
        return fail(errc::unsupported, "the kernel's rows and columns divide a dimension of {}", result.text());
      o.strides[rules::at(axis)] = std::max<int64_t>(inner, 2);  // not contiguous
      o.divided.push_back({axis, divisor, outer, inner});
    }
  }
  body_node n;
  n.kind = node_kind::load;
  n.type = computed_in(type.type);
  n.value = value;
  n.access = static_cast<int>(body_.accesses.size());
  n.per_row = !body_.is_elementwise() && body_.is_one_per_row(o);
  n.cost = 0;
  body_.accesses.push_back(std::move(o));
  return add_node(std::move(n));
}

expected<int> body_builder::joined_operand(const graph_step& s, std::string_view name, dtype wanted) {
  const auto* list = std::get_if<std::vector<tensor_argument>>(s.argument(name));
  const scope& now = scope_now();
  if (list == nullptr || now.kind != scope_kind::part || std::ssize(*list) != domain_.parts->count)
    return fail(errc::unsupported, "{} joins other parts than the rest of the kernel", s.op());
  tensor_type part;
  part.shape = domain_.parts->ungrouped.empty() ? domain_.parts->part : domain_.parts->ungrouped;
  const std::string& value = graph_->resolve((*list)[rules::at(now.part)].name);
  if (graph_->type_of(value).shape != part.shape)
    return fail(errc::unsupported, "{} joins other parts than the rest of the kernel", s.op());
  return in_scope(0, [&] { return operand_value(value, part, wanted); });
}

expected<int> body_builder::operand(const graph_step& s, std::string_view name, const tensor_type& result,
                                    dtype wanted) {
  const auto value = tensor_argument_name(s, name);
  if (!value) return fail(errc::unsupported, "{} has no tensor argument {}", s.op(), name);
  return operand_value(*value, result, wanted);
}

expected<int> body_builder::slid_operand(const graph_step& s, std::string_view name) {
  tensor_type type;
  type.shape = domain_.rows.slid;
  return in_scope(windows_, [&] { return operand(s, name, type, dtype::float32); });
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

int body_builder::k_axis_of(const std::string& a, int64_t count) {
  contracted_a& known = contracted_[a];
  if (known.axis >= 0) return known.axis;
  known.axis = add_contracted_axis(count);
  return known.axis;
}

int body_builder::add_contracted_axis(int64_t count) {
  body_.axes.push_back({count, axis_role::contracted});
  for (auto& each : body_.accesses)
    each.strides.push_back(0);
  return static_cast<int>(body_.axes.size()) - 1;
}

// Each element of the convolution's result is in one window of the pool, or in none at the end of a dimension.
expected<void> body_builder::check_pool(const std::vector<work_parts::window>& convolved) const {
  if (convolved.size() != domain_.rows.windows.size())
    return fail(errc::unsupported, "a pool over other dimensions than the convolution's");
  for (const auto& w : domain_.rows.windows)
    if (w.stride != w.kernel || w.padding != 0 || w.dilation != 1 || w.positions * w.kernel > w.size)
      return fail(errc::unsupported, "the windows of the pool behind the convolution overlap, or have padding");
  return {};
}

expected<int> body_builder::convolution(const convolved& of, const place& where) {
  const bool is_pooled = pools_convolution_ && now_ == windows_;
  const std::size_t pools = is_pooled ? domain_.rows.windows.size() : 0;
  if ((!is_pooled && scope_now().kind != scope_kind::results) || domain_.parts || body_.windows.size() != pools)
    return fail(errc::unsupported, "a kernel computes only one convolution, and all of its result");
  if (is_pooled) CUDAL1_CHECK(check_pool(of.windows));
  if (is_computed(of.weight)) return fail(errc::unsupported, "the weights {} are not in memory", of.weight);
  const tensor_type &input = graph_->type_of(of.input), &weight = graph_->type_of(of.weight);
  const int64_t in_group = weight.shape[of.is_transposed ? 0 : 1];
  const int64_t groups = input.shape[1] / std::max<int64_t>(in_group, 1);
  const int channel = add_contracted_axis(in_group);
  scope slid{scope_kind::windows, input.shape, {where[0], {{{channel, 1}}}}, 0};
  if (groups > 1) {
    const auto& terms = where[1].terms;
    if (terms.size() != 1 || where[1].offset != 0 || terms[0].second != 1)
      return fail(errc::unsupported, "the kernel's rows divide the channels of a convolution of groups");
    slid.groups = {terms[0].first, weight.shape[0] / groups, in_group, 0};
    slid.channel = channel;
  }
  place of_weight = {where[1], {{{channel, 1}}}};
  if (of.is_transposed) std::swap(of_weight[0], of_weight[1]);
  for (std::size_t i = 0; i < of.windows.size(); ++i) {
    const auto& w = of.windows[i];
    const auto& terms = where[i + 2].terms;
    if (!is_pooled && (terms.size() > 1 || where[i + 2].offset != 0 || (!terms.empty() && terms[0].second != 1)))
      return fail(errc::unsupported, "the kernel's rows divide a dimension that windows slide along");
    const int tap = add_contracted_axis(w.kernel);
    const int row = is_pooled ? body_.windows[i].row : terms.empty() ? -1 : terms[0].first;
    body_.windows.push_back({w, row, tap, of.is_transposed});
    coordinate& along = slid.where.emplace_back();
    for (const auto& [axis, multiple] : terms)
      along.terms.emplace_back(axis, multiple * w.stride);
    along.terms.emplace_back(tap, w.dilation);
    of_weight.push_back({{{tap, 1}}});
  }
  const int over = static_cast<int>(scopes_.size());
  scopes_.push_back(std::move(slid));
  CUDAL1_TRY(const int x, in_scope(over, [&] { return operand_value(of.input, input, dtype::float32); }));
  const int w = load(of.weight, strides_at(weight.strides, of_weight), 0, load_bounds::tensor);
  return contraction(channel, x, converted(w, dtype::float32), {}, {});
}

// A transposed weight is read as the weight: its strides say how it is read, and it is known to be constant.
expected<int> body_builder::operand_in_memory(const std::string& value, const place& where) {
  const std::string memory = seen_through_views(*graph_, value);
  if (is_computed(value) || is_computed(memory))
    return fail(errc::unsupported, "the product's operand {} is not in memory: a kernel computes only one of A and B",
                value);
  const std::vector<int64_t>& strides = graph_->type_of(value).strides;
  return load(memory, strides_at(strides, where), offset_at(strides, where), load_bounds::tensor);
}

expected<int> body_builder::computed_operand(const std::string& a, const place& where) {
  if (is_in_operand()) return fail(errc::unsupported, "the product's operand {} is not in memory", a);
  int& in = contracted_[a].scope;
  if (in < 0) {
    in = static_cast<int>(scopes_.size());
    scopes_.push_back({scope_kind::operand, graph_->type_of(a).shape, where, 0});
  }
  if (scopes_[rules::at(in)].where != where)
    return fail(errc::unsupported, "{} is an operand of products whose rows differ", a);
  return computed(a, in);
}

int body_builder::contraction(int axis, int a, int b, band a_band, band b_band) {
  body_node n;
  n.kind = node_kind::contraction;
  n.operands = {a, b};
  n.axis = axis;
  n.a_band = a_band;
  n.b_band = b_band;
  n.cost = 1000;
  return add_node(std::move(n));
}

int body_builder::scan(int of) {
  for (auto& a : body_.axes)
    if (a.role == axis_role::reduced) a.role = axis_role::sequential;
  body_node n;
  n.kind = node_kind::scan;
  n.type = node(of).type;
  n.operands = {of};
  n.cost = 100;
  return add_node(std::move(n));
}

}  // namespace cudal1
