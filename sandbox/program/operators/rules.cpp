#include "sandbox/program/operators/rules.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/ranges.h>

#include "sandbox/program/arithmetic.hpp"

namespace cudal1::rules {

namespace {

template <class T>
const T& get(const argument_value& value, std::string_view name) {
  if (const T* found = std::get_if<T>(&value)) return *found;
  throw std::logic_error(fmt::format("argument {} is not of the kind that the rule reads", name));
}

}  // namespace

std::size_t arguments::index_of(std::string_view name) const {
  const auto& schema = call_->op->schema.arguments;
  for (std::size_t i = 0; i < schema.size(); ++i)
    if (schema[i].name == name) return i;
  throw std::logic_error(fmt::format("the schema has no argument {}", name));
}

std::string_view arguments::name(std::size_t index) const {
  return call_->op->schema.arguments.at(index).name;
}

const argument_value& arguments::at(std::string_view name) const {
  return call_->arguments.at(index_of(name));
}

bool arguments::has(std::string_view name) const {
  const auto& schema = call_->op->schema.arguments;
  return std::any_of(schema.begin(), schema.end(), [&](const schema_argument& a) { return a.name == name; });
}

bool arguments::is_tensor(std::size_t index) const {
  return std::holds_alternative<tensor_argument>(call_->arguments.at(index));
}

bool arguments::is_list(std::string_view name) const {
  return std::holds_alternative<std::vector<int64_t>>(at(name));
}

bool arguments::is_null(std::string_view name) const {
  return at(name).index() == 0;
}

const tensor_type& arguments::tensor(std::string_view name) const {
  return get<tensor_argument>(at(name), name).type;
}

const tensor_type& arguments::tensor(std::size_t index) const {
  return get<tensor_argument>(call_->arguments.at(index), "of that index").type;
}

const tensor_type* arguments::optional_tensor(std::string_view name) const {
  return is_null(name) ? nullptr : &tensor(name);
}

std::vector<tensor_type> arguments::tensors(std::string_view name) const {
  std::vector<tensor_type> types;
  for (const auto& item : get<std::vector<tensor_argument>>(at(name), name))
    types.push_back(item.type);
  return types;
}

std::vector<const tensor_type*> arguments::optional_tensors(std::string_view name) const {
  std::vector<const tensor_type*> types;
  for (const auto& item : get<std::vector<tensor_argument>>(at(name), name))
    types.push_back(item.name.empty() ? nullptr : &item.type);
  return types;
}

bool arguments::flag(std::string_view name) const {
  return std::get<bool>(scalar(name));
}

int64_t arguments::integer(std::string_view name) const {
  return std::get<int64_t>(scalar(name));
}

std::optional<int64_t> arguments::optional_integer(std::string_view name) const {
  if (is_null(name)) return std::nullopt;
  return integer(name);
}

double arguments::real(std::string_view name) const {
  return std::visit([](auto v) { return static_cast<double>(v); }, scalar(name));
}

scalar_value arguments::scalar(std::string_view name) const {
  return get<scalar_value>(at(name), name);
}

scalar_value arguments::scalar(std::size_t index) const {
  return get<scalar_value>(call_->arguments.at(index), "of that index");
}

std::optional<dtype> arguments::type(std::string_view name) const {
  if (is_null(name)) return std::nullopt;
  return get<dtype>(at(name), name);
}

std::string arguments::text(std::string_view name) const {
  return is_null(name) ? std::string() : get<std::string>(at(name), name);
}

std::vector<int64_t> arguments::integers(std::string_view name) const {
  if (is_null(name)) return {};
  return get<std::vector<int64_t>>(at(name), name);
}

std::vector<double> arguments::reals(std::string_view name) const {
  if (is_null(name)) return {};
  return get<std::vector<double>>(at(name), name);
}

expected<std::vector<int64_t>> arguments::per_dimension(std::string_view name, std::size_t count) const {
  auto values = integers(name);
  if (values.size() == 1) values.resize(count, values.front());
  if (values.size() != count) return refuse("{} should have {} numbers, but has {}", name, count, values.size());
  return values;
}

expected<void> check_kind(const tensor_type& t, unsigned accepted, std::string_view name) {
  const unsigned kind = t.type == dtype::bool_ ? bools : is_floating(t.type) ? floats : integers;
  if (accepted & kind) return {};
  return refuse("{} is {}, but this operator takes {} only", name, t.text(),
                accepted == floats     ? "floating types"
                : accepted == integers ? "integer types"
                : accepted == bools    ? "bool"
                : accepted == numbers  ? "integer and floating types"
                                       : "bool and integer types");
}

namespace {

// Whether an integer tensor of type `t` can hold v.
bool holds(dtype t, int64_t v) {
  switch (t) {
    case dtype::uint8:
      return std::in_range<uint8_t>(v);
    case dtype::int8:
      return std::in_range<int8_t>(v);
    case dtype::int16:
      return std::in_range<int16_t>(v);
    case dtype::int32:
      return std::in_range<int32_t>(v);
    case dtype::bool_:
      return v == 0 || v == 1;
    default:
      return true;
  }
}

}  // namespace

expected<void> check_scalar_fits(const scalar_value& value, dtype to, std::string_view name) {
  if (is_floating(to)) return {};
  if (std::holds_alternative<double>(value))
    return refuse("{} is the real number {}, for tensors of type {}", name, std::get<double>(value), name_of(to));
  if (const auto* v = std::get_if<int64_t>(&value); v && !holds(to, *v))
    return refuse("{} is {}, which {} cannot hold", name, *v, name_of(to));
  return {};
}

expected<void> check_same_type(const tensor_type& a, const tensor_type& b, std::string_view name_a,
                               std::string_view name_b) {
  if (a.type == b.type) return {};
  return refuse("{} is {} and {} is {}: they should have the same element type", name_a, a.text(), name_b, b.text());
}

expected<void> check_rank(const tensor_type& t, int64_t low, int64_t high, std::string_view name) {
  if (t.dim() >= low && t.dim() <= high) return {};
  if (low == high) return refuse("{} is {}, but should have {} dimensions", name, t.text(), low);
  return refuse("{} is {}, but should have {} to {} dimensions", name, t.text(), low, high);
}

expected<int64_t> wrap_dimension(int64_t dim, int64_t rank, std::string_view name) {
  const int64_t count = std::max<int64_t>(rank, 1);
  if (dim < -count || dim >= count) return refuse("{} is {}, but should lie in {} to {}", name, dim, -count, count - 1);
  return dim < 0 ? dim + count : dim;
}

expected<std::vector<int64_t>> wrap_dimensions(const std::vector<int64_t>& dims, int64_t rank, std::string_view name) {
  std::vector<int64_t> wrapped;
  for (const auto dim : dims) {
    CUDAL1_TRY(const int64_t d, wrap_dimension(dim, rank, name));
    if (std::find(wrapped.begin(), wrapped.end(), d) != wrapped.end())
      return refuse("{} names dimension {} twice", name, d);
    wrapped.push_back(d);
  }
  return wrapped;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

expected<void> check_placement(const arguments& a) {
  if (a.has("layout") && !a.is_null("layout") && a.text("layout") != "strided")
    return refuse("layout is \"{}\", but should be \"strided\" or null", a.text("layout"));
  if (a.has("device") && !a.is_null("device"))
    return refuse("device should be null: a program runs on one device, and does not name it");
  if (a.has("pin_memory") && !a.is_null("pin_memory") && a.flag("pin_memory"))
    return refuse("pin_memory should be null or false");
  return {};
}

expected<std::vector<int64_t>> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> shape(std::max(a.size(), b.size()));
  for (std::size_t i = 1; i <= shape.size(); ++i) {
    const int64_t sa = i <= a.size() ? a[a.size() - i] : 1, sb = i <= b.size() ? b[b.size() - i] : 1;
    if (sa != sb && sa != 1 && sb != 1)
      return refuse("shapes {} and {} do not broadcast together", shape_text(a), shape_text(b));
    shape[shape.size() - i] = sa == 1 ? sb : sa;
  }
  return shape;
}

// ---- type promotion ------------------------------------------------------------------------------

dtype promote(dtype a, dtype b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_floating(a)) {
    if (a == dtype::float64 || b == dtype::float64) return dtype::float64;
    return dtype::float32;  // either is float32, or they are the two half types
  }
  if (a == dtype::bool_) return b;
  if (b == dtype::bool_) return a;
  if (a == dtype::uint8 || b == dtype::uint8) {  // signed, and wide enough for both
    const dtype other = a == dtype::uint8 ? b : a;
    return other == dtype::int8 ? dtype::int16 : other;
  }
  return size_of(a) > size_of(b) ? a : b;
}

namespace {

std::optional<dtype> promote(std::optional<dtype> a, std::optional<dtype> b) {
  if (!a || !b) return a ? a : b;
  return rules::promote(*a, *b);
}

// ATen's combine_categories: the higher priority wins unless the lower is of a higher category.
std::optional<dtype> combine(std::optional<dtype> higher, std::optional<dtype> lower) {
  if (higher && is_floating(*higher)) return higher;
  if ((higher && *higher == dtype::bool_) || (lower && is_floating(*lower))) return promote(higher, lower);
  return higher ? higher : lower;
}

}  // namespace

promotion& promotion::add(const tensor_type& t) {
  auto& place = t.dim() > 0 ? dimensioned_ : scalar_tensor_;
  place = rules::promote(place.value_or(t.type), t.type);
  return *this;
}

promotion& promotion::add(const scalar_value& s) {
  const dtype type = std::holds_alternative<bool>(s)      ? dtype::bool_
                     : std::holds_alternative<int64_t>(s) ? dtype::int64
                                                          : dtype::float32;
  number_ = rules::promote(number_.value_or(type), type);
  return *this;
}

dtype promotion::result() const {
  return combine(dimensioned_, combine(scalar_tensor_, number_)).value_or(dtype::float32);
}

// ---- operands ------------------------------------------------------------------------------------

expected<void> check_contiguous(const tensor_type& t, std::string_view name) {
  if (is_plain(t)) return {};
  return not_covered("{} is {}, but must be contiguous here", name, t.text());
}

tensor_type as_two_dimensions(tensor_type t) {
  t.strides.insert(t.strides.begin() + 2, saturating_multiply(t.shape[2], t.strides[2]));
  t.shape.insert(t.shape.begin() + 2, 1);
  return t;
}

expected<void> check_channels_first(tensor_type t, std::string_view name) {
  if (t.dim() == 3) t = as_two_dimensions(std::move(t));
  if (suggested_format(t) == format::contiguous) return {};
  return not_covered("{} is {}: channels-last operands are not supported, make it contiguous first", name, t.text());
}

expected<void> check_image(const tensor_type& t, int64_t low, int64_t high, std::string_view name) {
  CUDAL1_CHECK(check_kind(t, floats, name));
  CUDAL1_CHECK(check_rank(t, low, high, name));
  return check_contiguous(t, name);
}

outcome with_spatial_sizes(const tensor_type& t, const std::vector<int64_t>& sizes, std::string_view name) {
  auto shape = t.shape;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 1) return refuse("{} {} should be positive", name, shape_text(sizes));
    shape[shape.size() - sizes.size() + d] = sizes[d];
  }
  return one(contiguous(t.type, std::move(shape)));
}

expected<void> check_sizes(const std::vector<int64_t>& shape) {
  if (std::all_of(shape.begin(), shape.end(), [](int64_t s) { return s >= 1; })) return {};
  return refuse("size {} should be positive", shape_text(shape));
}

expected<tensor_type> iterate(const std::vector<tensor_type>& operands, dtype common, dtype result) {
  std::vector<int64_t> shape;
  std::vector<tensor_type> seen;
  for (const auto& t : operands) {
    CUDAL1_TRY(shape, broadcast(shape, t.shape));
    seen.push_back(converted(t, common));
  }
  auto strides = iterator_strides(shape, seen);
  return tensor_type{result, std::move(shape), std::move(strides)};
}

outcome iterated(const std::vector<tensor_type>& operands, dtype common, dtype result) {
  CUDAL1_TRY(auto type, iterate(operands, common, result));
  return one(std::move(type));
}

}  // namespace cudal1::rules
