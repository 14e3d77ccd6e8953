#include "sandbox/program/operators/number_facts.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

using namespace work_parts;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// A call, and what is known of its operands.
class known_call {
 public:
  known_call(const operator_call& call, const tensor_type& result, const number_facts_by_value& known)
      : call_(&call), result_(&result), known_(&known), operands_(operands_of(call)) {}

  const operator_record& record() const { return record_of(*call_); }
  const operator_traits& traits() const { return record().traits; }
  const tensor_type& result() const { return *result_; }
  const std::vector<std::string>& operands() const { return operands_; }
  const tensor_type* type(std::string_view name) const { return tensor_of(*call_, name); }

  // Of an operand, or of the number that an argument is; nothing is known of what is missing.
  number_facts of(std::string_view name) const {
    if (const auto* tensor = argument<tensor_argument>(*call_, name)) return of_value(tensor->name);
    const auto n = number(name);
    if (!n) return {};
    if (std::isnan(*n)) return {{}, finiteness::nan};
    return {{*n, *n}, std::isfinite(*n) ? finiteness::kept : finiteness::lost};
  }
  number_facts of_value(const std::string& value) const {
    const auto found = known_->find(value);
    return found == known_->end() ? number_facts{} : found->second;
  }
  number_facts of_first() const { return operands_.empty() ? number_facts{} : of_value(operands_.front()); }
  std::string value(std::string_view name) const {
    const auto* tensor = argument<tensor_argument>(*call_, name);
    return tensor == nullptr ? "" : tensor->name;
  }
  std::optional<double> number(std::string_view name) const {
    const auto* value = argument<scalar_value>(*call_, name);
    if (value == nullptr) return std::nullopt;
    return std::visit([](auto x) { return static_cast<double>(x); }, *value);
  }
  bool is_null(std::string_view name) const {
    return argument<scalar_value>(*call_, name) == nullptr && argument<tensor_argument>(*call_, name) == nullptr;
  }
  bool boolean(std::string_view name) const {
    const auto* value = argument<scalar_value>(*call_, name);
    return value != nullptr && std::holds_alternative<bool>(*value) && std::get<bool>(*value);
  }
  bool all_are_kept() const {
    return std::ranges::all_of(operands_, [&](const auto& o) { return of_value(o).finite == finiteness::kept; });
  }
  bool has_infinite_number() const {
    return std::ranges::any_of(call_->arguments, [](const argument_value& a) {
      const auto* scalar = std::get_if<scalar_value>(&a);
      return scalar != nullptr && std::holds_alternative<double>(*scalar) && !std::isfinite(std::get<double>(*scalar));
    });
  }

 private:
  const operator_call* call_;
  const tensor_type* result_;
  const number_facts_by_value* known_;
  std::vector<std::string> operands_;
};

// ---- ranges ---------------------------------------------------------------------------------------------------------

// Nothing where a limit is no number, or where they leave no room (then ATen's result is the upper one).
std::optional<bounds> limits_of(const known_call& c, const clipping& clips) {
  bounds out = clips.limits;
  for (const auto& [name, limit] : {std::pair(clips.low_argument, &out.low), std::pair(clips.high_argument, &out.high)})
    if (!name.empty() && !c.is_null(name)) {
      const auto n = c.number(name);
      if (!n || std::isnan(*n)) return std::nullopt;
      *limit = *n;
    }
  return out.low <= out.high ? std::optional(out) : std::nullopt;
}

bool is_square(const known_call& c) {
  const auto& kernel = c.traits().kernel;
  if (kernel && kernel->form == kernel_form::power) return std::fmod(c.number("exponent").value_or(1), 2.0) == 0;
  return c.record().name() == "aten::mul.Tensor" && c.value("self") == c.value("other");
}

// The number that a creation fills its result with.
std::optional<double> filled_with(const known_call& c) {
  const std::string_view op = c.record().name();
  if (c.record().kind != operator_kind::creation) return std::nullopt;
  if (op.find("zeros") != op.npos) return 0;
  if (op.find("ones") != op.npos) return 1;
  if (op.find("full") != op.npos) return c.number("fill_value");
  return op == "aten::scalar_tensor" ? c.number("s") : std::nullopt;
}

// Whether the result has the same elements as the first operand, or a choice of them.
bool takes_elements(const known_call& c) {
  if (selects_elements(c.record())) return true;
  const tensor_type* from = c.type("self") != nullptr ? c.type("self") : c.type("input");
  return c.record().kind == operator_kind::copy && c.traits().idle[0] != 0 && !c.boolean("train") && from != nullptr &&
         from->type == c.result().type;
}

// The numbers that the type has.
bounds range_of(dtype type) {
  switch (type) {
    case dtype::bool_:
      return {0, 1};
    case dtype::uint8:
      return {0, 255};
    case dtype::int8:
      return {-128, 127};
    case dtype::int16:
      return {-32768, 32767};
    default:
      return {};
  }
}

// Integers wrap around, so that the square of one may be negative.
bounds integers_after(const known_call& c) {
  const bounds all = range_of(c.result().type);
  const std::string_view op = c.record().name();
  const double number = c.number("other").value_or(-1);
  if (op == "aten::bitwise_and.Scalar" && number >= 0) return {0, std::min(number, all.high)};
  const bounds before = c.of("self").within;
  if (op != "aten::bitwise_right_shift.Tensor_Scalar" || number < 0 || number > 7 || !std::isfinite(before.low) ||
      !std::isfinite(before.high) || c.type("self")->type != c.result().type)
    return all;
  const double by = std::exp2(number);
  return {std::floor(before.low / by), std::floor(before.high / by)};
}

bounds range_after(const known_call& c) {
  const auto& traits = c.traits();
  if (traits.clips) {
    const auto limits = limits_of(c, *traits.clips);
    if (!limits) return {};
    const bounds before = c.of_first().within;
    return {std::clamp(before.low, limits->low, limits->high), std::clamp(before.high, limits->low, limits->high)};
  }
  if (takes_elements(c)) return c.of_first().within;
  if (!is_floating(c.result().type)) return integers_after(c);
  if (traits.range) return *traits.range;
  if (is_square(c)) return non_negative;
  if (const auto n = filled_with(c); n && !std::isnan(*n)) return {*n, *n};
  const bool largest = c.record().name() == "aten::maximum";
  if (largest || c.record().name() == "aten::minimum") {
    const bounds a = c.of("self").within, b = c.of("other").within;
    return largest ? bounds{std::max(a.low, b.low), std::max(a.high, b.high)}
                   : bounds{std::min(a.low, b.low), std::min(a.high, b.high)};
  }
  return {};
}

// ---- finiteness -----------------------------------------------------------------------------------------------------

finiteness sum_of(const known_call& c) {
  const number_facts a = c.of("self"), b = c.of("other");
  if (!std::isfinite(c.number("alpha").value_or(1)) || c.number("alpha") == 0.0) return finiteness::unknown;
  if (a.finite == finiteness::nan || b.finite == finiteness::nan) return finiteness::nan;
  if (a.finite == finiteness::unknown || b.finite == finiteness::unknown) return finiteness::unknown;
  return a.finite == finiteness::lost ? a.finite : b.finite;
}

// Infinity times zero is NaN.
finiteness product_of(const number_facts& a, const number_facts& b) {
  if (a.finite == finiteness::nan || b.finite == finiteness::nan) return finiteness::nan;
  const bool zero = (a.is_one_number() && a.within.low == 0) || (b.is_one_number() && b.within.low == 0);
  const bool lost = a.finite == finiteness::lost || b.finite == finiteness::lost;
  if (zero && lost) return finiteness::nan;
  if (a.finite == finiteness::unknown || b.finite == finiteness::unknown) return finiteness::unknown;
  return lost ? finiteness::lost : finiteness::kept;
}

finiteness quotient_of(finiteness a, const number_facts& b) {
  if (a == finiteness::nan || b.finite == finiteness::nan) return finiteness::nan;
  if (b.finite != finiteness::kept) return finiteness::unknown;  // by infinity it is zero
  if (b.within.low == 0 && b.within.high == 0) return finiteness::lost;
  if (b.within.low > 0 || b.within.high < 0) return a;
  return finiteness::unknown;
}

// Operators of one operand that have a value for a part of the numbers only.
finiteness partial_of(const known_call& c) {
  const std::string_view op = c.record().name();
  const double low = c.of_first().within.low;
  const bool log = op == "aten::log" || op == "aten::log2" || op == "aten::log10";
  bool defined = (log || op == "aten::rsqrt") && low > 0;
  if (op == "aten::sqrt") defined = low >= 0;
  if (op == "aten::log1p") defined = low > -1;
  if (op == "aten::pow.Tensor_Scalar") {
    const double by = c.number("exponent").value_or(-1);
    const bool whole = by == std::floor(by);
    defined = by >= 0 ? whole || low >= 0 : low > 0;
  }
  return defined && c.all_are_kept() ? finiteness::kept : finiteness::unknown;
}

// Norms divide by a root of a variance and eps.
bool has_safe_variance(const known_call& c) {
  const auto eps = c.number("eps");
  if (eps && !(*eps > 0)) return false;
  return c.type("running_var") == nullptr || c.of("running_var").within.low >= 0;
}

finiteness of_reduction(const known_call& c) {
  const auto* of = c.type("self");
  const auto& rows = c.traits().rows;
  const bool divides = rows && (rows->form == row_form::variance || rows->form == row_form::deviation);
  if (!rows || divides || of == nullptr || of->numel() == 0) return finiteness::unknown;
  for (const char* order : {"ord", "p"})
    if (c.number(order).value_or(2) < 0) return finiteness::unknown;
  return c.all_are_kept() ? finiteness::kept : finiteness::unknown;
}

// Whether the operator makes finite numbers of finite numbers (whose sums and products are finite).
bool is_total(const known_call& c) {
  switch (c.record().kind) {
    case operator_kind::pointwise:
    case operator_kind::normalization:
      return !c.traits().poles && has_safe_variance(c);
    case operator_kind::loss:
    case operator_kind::reduction:
      return false;
    case operator_kind::attention:
      return c.is_null("attn_mask");  // of a row without a key there is nothing
    default:
      return !c.record().name().empty();
  }
}

finiteness arithmetic_of(const known_call& c, kernel_form form) {
  const std::string_view op = c.record().name();
  if (form == kernel_form::sum || form == kernel_form::difference || form == kernel_form::reversed_difference)
    return sum_of(c);
  if (op.starts_with("aten::mul.")) return product_of(c.of("self"), c.of("other"));
  if (op == "aten::div.Tensor" || op == "aten::div.Scalar") {
    const number_facts by = c.of("other");
    // Whatever is divided by zero.
    if (by.is_one_number() && by.within.low == 0 && c.of("self").finite != finiteness::nan) return finiteness::lost;
    return quotient_of(c.of("self").finite, by);
  }
  if (op == "aten::reciprocal") return quotient_of(finiteness::kept, c.of("self"));
  if (op == "aten::neg" || op == "aten::abs") return c.of("self").finite;
  return c.all_are_kept() && is_total(c) && !c.has_infinite_number() ? finiteness::kept : finiteness::unknown;
}

finiteness finite_after(const known_call& c) {
  const auto& traits = c.traits();
  if (!is_floating(c.result().type)) return finiteness::kept;  // there is no other integer
  if (takes_elements(c)) return c.of_first().finite;
  if (traits.clips) {
    const finiteness before = c.of_first().finite;
    if (before == finiteness::nan || before == finiteness::kept)
      return limits_of(c, *traits.clips) ? before : finiteness::unknown;
    return finiteness::unknown;
  }
  if (const auto n = filled_with(c))
    return std::isnan(*n) ? finiteness::nan : std::isinf(*n) ? finiteness::lost : finiteness::kept;
  if (traits.partial) return partial_of(c);
  if (c.record().kind == operator_kind::reduction) return of_reduction(c);
  return arithmetic_of(c, traits.kernel ? traits.kernel->form : kernel_form::expression);
}

}  // namespace

number_facts_by_value number_facts_of(const task& t) {
  number_facts_by_value known;
  const checked_program& p = t.reference;
  const auto declare = [&](const std::vector<tensor_declaration>& all) {
    for (const auto& d : all) {
      bounds within = range_of(d.type.type);
      if (t.has_fact(d.name, fact::non_negative)) within.low = 0;
      if (t.has_fact(d.name, fact::one_hot)) within = {0, 1};
      known[d.name] = {within, finiteness::kept};
    }
  };
  declare(p.text.inputs);
  declare(p.text.weights);
  const auto follow = [&](const step& s, const operator_call& call) {
    const auto* text = std::get_if<aten_step>(&s);
    if (text == nullptr || call.op == nullptr) return;
    for (const auto& result : text->results) {
      if (result.empty()) continue;
      const known_call c(call, p.types.at(result), known);
      const number_facts facts{range_after(c), finite_after(c)};
      known[result] = facts;
    }
  };
  for (std::size_t i = 0; i < p.setup_calls.size(); ++i)
    follow(p.text.setup[i], p.setup_calls[i]);
  for (std::size_t i = 0; i < p.calls.size(); ++i)
    follow(p.text.steps[i], p.calls[i]);
  return known;
}

}  // namespace cudal1
