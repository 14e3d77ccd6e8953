#include "policy/body/body_builder.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "policy/body/body_edits.hpp"
#include "policy/body/body_operators.hpp"
#include "policy/body/matrix_product.hpp"
#include "policy/body/memory_order.hpp"
#include "policy/body/operator_values.hpp"
#include "policy/body/operators/feature_pools.hpp"
#include "policy/body/operators/product_operators.hpp"
#include "policy/body/operators/window_operators.hpp"
#include "policy/graph/alignment.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

std::size_t at(int64_t index) {
  return static_cast<std::size_t>(index);
}

// Internal operators have their own registry; ATen operators are found by their records.
const operator_builder* find_elementwise_builder(const graph_step& s) {
  if (s.use->record != nullptr) return is_own_product(s) ? &product_builder() : find_pointwise(s);
  const body_operator* own = find_body_operator(s.op());
  return own != nullptr && own->elementwise ? &own->elementwise : nullptr;
}

// The place of a value of one shape where it is broadcast to another, whose place is known. Empty where it cannot be.
std::optional<place> broadcast_place(const std::vector<int64_t>& shape, const std::vector<int64_t>& to,
                                     const place& where) {
  if (shape.size() > to.size()) return std::nullopt;
  const std::size_t shift = to.size() - shape.size();
  place out(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && shape[d] != to[d + shift]) return std::nullopt;
    if (shape[d] == to[d + shift]) out[d] = where[d + shift];
  }
  return out;
}

}  // namespace

const row_operator* find_row_builder(const graph_step& s) {
  if (s.use->record != nullptr) {
    const auto* const of_windows = find_window_operator(s);
    return of_windows != nullptr ? of_windows : find_row_operator(s);
  }
  const body_operator* own = find_body_operator(s.op());
  return own != nullptr && own->rows ? &*own->rows : nullptr;
}

body_builder::body_builder(const graph& g, kernel_domain domain, const std::vector<int>& steps)
    : graph_(&g), domain_(std::move(domain)), steps_(steps.begin(), steps.end()) {
  add_axes();
  add_scopes();
}

// Rows first, then columns; the place of the results' scope. Along an axis of one index nothing moves.
void body_builder::add_axes() {
  const row_domain& rows = domain_.rows;
  scope& results = scopes_.emplace_back();
  results.shape = rows.shape;
  results.where.resize(rows.shape.size());
  const auto add = [&](coordinate& along, int64_t extent, axis_role role, int64_t multiple) {
    if (extent != 1) along.terms.emplace_back(static_cast<int>(body_.axes.size()), multiple);
    body_.axes.push_back({extent, role});
  };
  for (const bool is_column : {false, true}) {
    for (int64_t d = 0; d < std::ssize(rows.shape); ++d) {
      const bool is_reduced = std::ranges::count(rows.reduced, d) > 0;
      const axis_role role = is_column ? axis_role::reduced : axis_role::parallel;
      const int64_t size = rows.shape[at(d)], inner = size / rows.groups;
      if (d == rows.split_dim)
        add(results.where[at(d)], is_column ? inner : rows.groups, role, is_column ? 1 : inner);
      else if (is_reduced == is_column)
        add(results.where[at(d)], size, role, 1);
    }
  }
  const auto first = std::ssize(rows.shape) - std::ssize(rows.windows);
  for (std::size_t i = 0; i < rows.windows.size(); ++i) {
    body_.windows.push_back(
        {rows.windows[i], static_cast<int>(first) + static_cast<int>(i), static_cast<int>(body_.axes.size())});
    add(taps_.emplace_back(), rows.windows[i].kernel, axis_role::tap, 1);
  }
}

void body_builder::add_scopes() {
  const row_domain& rows = domain_.rows;
  if (!rows.windows.empty()) {
    scope slid{scope_kind::windows, rows.slid, scopes_.front().where, 0};
    const std::size_t first = rows.slid.size() - rows.windows.size();
    for (std::size_t i = 0; i < rows.windows.size(); ++i) {
      for (auto& [axis, multiple] : slid.where[first + i].terms)
        multiple *= rows.windows[i].stride;
      for (const auto& [axis, multiple] : taps_[i].terms)
        slid.where[first + i].terms.emplace_back(axis, multiple * rows.windows[i].dilation);
    }
    windows_ = static_cast<int>(scopes_.size());
    scopes_.push_back(std::move(slid));
  }
  first_part_ = static_cast<int>(scopes_.size());
  if (!domain_.parts) return;
  const joined_parts& parts = *domain_.parts;
  for (int64_t p = 0; p < parts.count; ++p) {
    scope part{scope_kind::part, parts.whole, scopes_.front().where, p};
    coordinate& joined = part.where[at(parts.dim)];
    joined.offset = parts.interleaved ? p : p * parts.part[at(parts.dim)];
    for (auto& [axis, multiple] : joined.terms)
      if (parts.interleaved) multiple *= parts.count;
    scopes_.push_back(std::move(part));
  }
}

// The place of values that are one per row: with the reduced dimensions of size 1, or without them.
std::optional<place> body_builder::place_of_rows(const std::vector<int64_t>& shape) const {
  const row_domain& rows = domain_.rows;
  if (rows.split_dim >= 0 || rows.reduced.empty()) return std::nullopt;
  std::vector<int64_t> kept = rows.shape, squeezed;
  place where_kept = scopes_.front().where, where_squeezed;
  for (const auto d : rows.reduced) {
    kept[at(d)] = 1;
    where_kept[at(d)] = {};
  }
  if (shape == kept) return where_kept;
  for (int64_t d = 0; d < std::ssize(rows.shape); ++d) {
    if (std::ranges::count(rows.reduced, d) > 0) continue;
    squeezed.push_back(rows.shape[at(d)]);
    where_squeezed.push_back(where_kept[at(d)]);
  }
  return shape == squeezed ? std::optional(where_squeezed) : std::nullopt;
}

// The place of values that are the same along dimensions of the results.
std::optional<place> body_builder::place_along(const std::vector<int64_t>& shape) const {
  const row_domain& rows = domain_.rows;
  if (rows.split_dim >= 0 || !rows.windows.empty()) return std::nullopt;
  if (domain_.parts) {
    // They are the same in all parts, too.
    const auto joined = std::ssize(rows.shape) - domain_.parts->dim;
    if (!rows.reduced.empty() || (std::ssize(shape) >= joined && shape.end()[-joined] != 1)) return std::nullopt;
  }
  return broadcast_place(shape, rows.shape, scopes_.front().where);
}

std::optional<place> body_builder::place_in(int number, const std::vector<int64_t>& shape) const {
  const scope& now = scopes_[at(number)];
  if (shape == now.shape) return now.where;
  if (now.kind == scope_kind::operand) return broadcast_place(shape, now.shape, now.where);
  if (now.kind != scope_kind::results) return std::nullopt;
  if (is_ungrouped(shape)) {
    place out(now.where.begin(), now.where.begin() + std::ssize(shape) - 1);
    coordinate& last = out.emplace_back();
    int64_t below = 1;
    for (std::size_t d = now.shape.size(); d-- > shape.size() - 1; below *= now.shape[d])
      for (const auto& [axis, multiple] : now.where[d].terms)
        last.terms.emplace_back(axis, multiple * below);
    return out;
  }
  const auto rows = place_of_rows(shape);
  return rows ? rows : place_along(shape);
}

expected<place> body_builder::place_of(const tensor_type& result) const {
  auto out = place_here(result.shape);
  if (!out)
    return fail(errc::unsupported, "{} has neither the shape of the kernel's elements nor that of its rows",
                result.text());
  return std::move(*out);
}

bool body_builder::is_by_element(const std::vector<int64_t>& shape) const {
  if (scope_now().kind != scope_kind::operand && (domain_.parts || !domain_.rows.windows.empty())) return false;
  if (shape == this->shape()) return true;
  return place_here(shape) && (scope_now().kind == scope_kind::operand || !place_of_rows(shape));
}

bool body_builder::has_columns(const place& where) const {
  return std::ranges::any_of(where, [&](const coordinate& c) {
    return std::ranges::any_of(c.terms, [&](const auto& t) { return body_.axes[at(t.first)].is_column(); });
  });
}

std::vector<int64_t> body_builder::strides_at(const std::vector<int64_t>& by_dim, const place& where) const {
  std::vector<int64_t> out(body_.axes.size(), 0);
  for (std::size_t d = 0; d < std::min(by_dim.size(), where.size()); ++d)
    for (const auto& [axis, multiple] : where[d].terms)
      out[at(axis)] += multiple * by_dim[d];
  return out;
}

int64_t body_builder::offset_at(const std::vector<int64_t>& by_dim, const place& where) {
  int64_t out = 0;
  for (std::size_t d = 0; d < std::min(by_dim.size(), where.size()); ++d)
    out += where[d].offset * by_dim[d];
  return out;
}

int body_builder::add_node(body_node n) {
  body_.nodes.push_back(std::move(n));
  order_.emplace_back(step_, added_++);
  return static_cast<int>(body_.nodes.size()) - 1;
}

// Whether what windows of one element along a dimension have lies in its padding.
bool body_builder::reaches_padding(const std::vector<int64_t>& strides) const {
  return std::ranges::any_of(body_.windows, [&](const body_window& w) {
    return w.walk.kernel == 1 && w.walk.padding > 0 && strides[at(w.row)] != 0;
  });
}

int body_builder::load(const std::string& value, const std::vector<int64_t>& strides, int64_t offset,
                       load_bounds bounds) {
  const bool bounded = bounds == load_bounds::windows;
  for (std::size_t i = 0; i < body_.nodes.size(); ++i) {
    const auto& n = body_.nodes[i];
    if (n.kind != node_kind::load || !n.operands.empty()) continue;
    const auto& known = body_.accesses[at(n.access)];
    if (known.value != value || known.strides != strides || known.offset != offset || known.bounded != bounded)
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
  scope_kind kind = scopes_[at(in)].kind;
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

expected<int> body_builder::joined_operand(const graph_step& s, std::string_view name, dtype wanted) {
  const auto* list = std::get_if<std::vector<tensor_argument>>(s.argument(name));
  const scope& now = scope_now();
  if (list == nullptr || now.kind != scope_kind::part || std::ssize(*list) != domain_.parts->count)
    return fail(errc::unsupported, "{} joins other parts than the rest of the kernel", s.op());
  tensor_type part;
  part.shape = domain_.parts->ungrouped.empty() ? domain_.parts->part : domain_.parts->ungrouped;
  const std::string& value = graph_->resolve((*list)[at(now.part)].name);
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
  known.axis = static_cast<int>(body_.axes.size());
  body_.axes.push_back({count, axis_role::contracted});
  for (auto& each : body_.accesses)
    each.strides.push_back(0);
  return known.axis;
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
  if (scopes_[at(in)].where != where)
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

expected<void> body_builder::bind(const graph_step& s, std::size_t result, int n) {
  const tensor_type& type = s.result_types[result];
  const auto where = place_here(type.shape);
  if (!where)
    return fail(errc::unsupported, "the result of {} is {}, which is neither one value per element nor one per row",
                s.op(), type.text());
  if (memory_type(type.type).empty()) return fail(errc::unsupported, "kernels do not write {} yet", name_of(type.type));
  const bool is_full = type.shape == shape() && domain_.rows.windows.empty();
  const bool by_row = scope_now().kind == scope_kind::results && !is_full && !body_.is_elementwise();
  if (by_row && !has_columns(*where) && !node(n).per_row)
    return fail(errc::unsupported, "the result of {} differs along a row", s.op());
  const std::string& value = s.text->results[result];
  if (!value.empty()) bind_value(value, converted(n, type.type));
  return {};
}

void body_builder::bind_value(const std::string& value, int n) {
  // A node has one name; a second name for the same value (a view) gets a separate node.
  if (!node(n).value.empty() || node(n).kind == node_kind::load) n = pointwise("$0", {n}, node(n).type, 0);
  node(n).value = value;
  bound_[{now_, value}] = n;
}

// Views of the parts of a value that the kernel computes.
expected<void> body_builder::add_slices(const graph_step& s) {
  const std::string from = graph_->resolve(*tensor_argument_name(s, "self"));
  if (!is_computed(from) || graph_->type_of(from).shape != domain_.parts->whole)
    return fail(errc::unsupported, "{} takes slices of what the kernel does not compute", s.op());
  const int64_t size = domain_.parts->part[at(domain_.parts->dim)];
  for (std::size_t r = 0; r < s.text->results.size(); ++r) {
    if (s.text->results[r].empty()) continue;
    const auto slice = place_of_slice(*graph_, s, r);
    if (!slice || slice->dim != domain_.parts->dim || slice->first % size != 0 ||
        s.result_types[r].shape != domain_.parts->part)
      return fail(errc::unsupported, "{} takes other slices than the rest of the kernel", s.op());
    CUDAL1_TRY(const int part, computed(from, first_part_ + static_cast<int>(slice->first / size)));
    CUDAL1_CHECK(bind(s, r, part));
  }
  return {};
}

expected<void> body_builder::add_feature_pool(const graph_step& s) {
  CUDAL1_CHECK(check_only_first_is_read(*this, s, "indices"));
  const std::string product = pool_of_features(*graph_, s)->product;
  if (!is_computed(product)) return fail(errc::unsupported, "{} pools what the kernel does not compute", s.op());
  std::vector<int> nodes;
  for (int64_t p = 0; p < domain_.parts->count; ++p) {
    CUDAL1_TRY(const int part, computed(product, first_part_ + static_cast<int>(p)));
    nodes.push_back(part);
  }
  const bool averages = s.record().traits.sums;
  int value = nodes.front();
  for (const int n : std::span(nodes).subspan(1))
    value = pointwise(averages ? "$0 + $1" : "$0 > $1 || $0 != $0 ? $0 : $1", {value, n});
  if (averages) value = divided(*this, value, static_cast<double>(domain_.parts->count));
  bind_value(s.text->results[0], value);
  return {};
}

expected<bool> body_builder::adds_parts(const graph_step& s) {
  if (!domain_.parts || is_in_operand()) return false;
  if (place_of_slice(*graph_, s, 0)) {
    CUDAL1_CHECK(add_slices(s));
    return true;
  }
  const auto pool = pool_of_features(*graph_, s);
  if (pool && pool->size == domain_.parts->count && graph_->type_of(pool->product).shape == domain_.parts->whole) {
    CUDAL1_CHECK(add_feature_pool(s));
    return true;
  }
  if (!is_unit_view(*graph_, s) || s.text->results[0].empty()) return false;
  const std::string from = graph_->resolve(*tensor_argument_name(s, "self"));
  if (!is_computed(from)) return false;
  CUDAL1_TRY(const int same, computed(from, now_));
  bound_[{now_, s.text->results[0]}] = same;
  return true;
}

expected<void> body_builder::add_step(const graph_step& s) {
  CUDAL1_TRY(const bool added, adds_parts(s));
  if (added) return {};
  if (const auto* build = find_elementwise_builder(s)) return (*build)(*this, s);
  if (const auto* row = find_row_builder(s)) {
    CUDAL1_TRY(const row_domain own, row->domain(*graph_, s));
    // (A reduction of per-row values is legal only over dimensions of size 1.)
    if (scope_now().kind != scope_kind::results || own != domain_.rows)
      return fail(errc::unsupported, "{} reduces other dimensions than the rest of the kernel", s.op());
    return row->build(*this, s);
  }
  return fail(errc::unsupported, "{} is neither a pointwise nor a row operator", s.op());
}

// A value that is read outside of the kernel.
expected<void> body_builder::add_results(const graph_step& s, std::size_t result) {
  const std::string& value = s.text->results[result];
  const tensor_type& type = s.result_types[result];
  const bool whole = domain_.parts && type.shape == domain_.parts->whole;
  if (!domain_.rows.windows.empty() && type.shape == domain_.rows.slid && type.shape != shape())
    return fail(errc::unsupported, "{} is computed for each window again, and read elsewhere", value);
  std::vector<int> nodes;
  for (int64_t p = 0; p < (whole ? domain_.parts->count : 1); ++p) {
    CUDAL1_TRY(const int n, computed(value, whole ? first_part_ + static_cast<int>(p) : 0));
    nodes.push_back(n);
  }
  const bool is_element = whole || type.shape == shape() || is_ungrouped(type.shape);
  const auto row = place_of_rows(type.shape);
  if (!is_element && !row && place_here(type.shape))
    return fail(errc::unsupported, "{} is smaller than what the kernel computes, and read elsewhere", value);
  if (!type.is_contiguous() && (body_.has_contraction() || !is_dense(type)))
    return fail(errc::unsupported,
                "{} is {}, but kernels write contiguous tensors, or these with their dimensions in another order where "
                "they make no product",
                value, type.text());
  if (domain_.parts && !row &&
      (type.dim() != std::ssize(domain_.parts->part) || (whole && !domain_.parts->covers_whole())))
    return fail(errc::unsupported, "{} is read outside of the kernel, which does not compute all of its elements",
                value);
  for (std::size_t p = 0; p < nodes.size(); ++p) {
    const place where = whole ? scopes_[at(first_part_) + p].where : *place_here(type.shape);
    const int64_t offset = offset_at(type.strides, where);
    const bool aligned = offset * size_of(type.type) % 16 == 0;
    body_.results.push_back({nodes[p], {value, type, strides_at(type.strides, where), aligned, offset}});
  }
  return {};
}

expected<kernel_body> body_builder::build() && {
  for (const int number : steps_) {
    const graph_step& s = graph_->step_at(number);
    for (std::size_t r = 0; r < s.text->results.size(); ++r) {
      const std::string& value = s.text->results[r];
      if (value.empty()) continue;
      const auto& readers = graph_->readers(value);
      if (graph_->is_output(value) || std::ranges::any_of(readers, [&](int n) { return !steps_.contains(n); }))
        CUDAL1_CHECK(add_results(s, r));
    }
  }
  if (body_.results.empty()) return fail(errc::invalid_argument, "nothing reads the results of these steps");
  for (auto& r : body_.results)
    r.target.strides.resize(body_.axes.size(), 0);
  // In the order of the steps that need them first, so that a kernel reads as the program does.
  std::vector<int> sorted(body_.nodes.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::sort(sorted, {}, [&](int n) { return order_[at(n)]; });
  keep_nodes(body_, sorted);
  return std::move(body_);
}

expected<kernel_body> build_body(const graph& g, const std::vector<int>& steps) {
  if (steps.empty()) return fail(errc::invalid_argument, "a kernel needs at least one step");
  CUDAL1_TRY(kernel_domain domain, domain_of(g, steps));
  CUDAL1_TRY(kernel_body body, body_builder(g, std::move(domain), steps).build());
  for (const auto size : body.extents()) {
    if (size == 0) return fail(errc::unsupported, "the kernel would have no elements");
  }
  for (const auto& o : body.accesses) {
    if (o.type.storage_bytes() > (int64_t{1} << 32))
      return fail(errc::unsupported, "{} is too large for 32-bit indices", o.value);
  }
  if (body.has_contraction()) CUDAL1_CHECK(matrix_product_of(body));
  order_axes(body);
  collapse_axes(body);
  put_columns_in_b(body);
  return body;
}

operator_family family_of(const graph_step& s) {
  if (is_own_product(s)) return operator_family::product;
  if (find_elementwise_builder(s) != nullptr) return operator_family::pointwise;
  if (const auto* row = find_row_builder(s)) return row->family;
  return operator_family::other;
}

}  // namespace cudal1
