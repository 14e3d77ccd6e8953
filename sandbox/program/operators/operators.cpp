// The table of operators, made from the records of all families.
#include "sandbox/program/operators/operators.hpp"

#include <algorithm>
#include <stdexcept>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

using namespace rules;

// The largest integer that rules compute with: far above what programs need, and no product of two overflows. Ends of
// slices may be larger, meaning "to the end".
constexpr int64_t size_limit = int64_t{1} << 31;

expected<void> check_integer(const schema_argument& a, int64_t v) {
  const bool is_slice_end = a.name == "start" || a.name == "end";
  if (is_slice_end || (v >= -size_limit && v <= size_limit)) return {};
  return refuse("{} is {}, out of any useful range", a.name, v);
}

expected<void> check_operand(const schema_argument& a, const tensor_type& t) {
  if (t.shape.size() != t.strides.size())
    return refuse("{} has {} strides for {} dimensions", a.name, t.strides.size(), t.shape.size());
  if (std::any_of(t.shape.begin(), t.shape.end(), [](int64_t s) { return s < 1 || s > size_limit; }))
    return not_covered("{} is {}: tensors without elements are not supported", a.name, t.text());
  return {};
}

// Checks for every operator: operands have elements, integers are in a useful range.
expected<void> check_arguments(const operator_call& call) {
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const auto& a = call.op->schema.arguments[i];
    const auto& v = call.arguments[i];
    if (const auto* t = std::get_if<tensor_argument>(&v)) CUDAL1_CHECK(check_operand(a, t->type));
    if (const auto* many = std::get_if<std::vector<tensor_argument>>(&v))
      for (const auto& t : *many)
        CUDAL1_CHECK(check_operand(a, t.type));
    if (const auto* s = std::get_if<scalar_value>(&v); s && a.type == schema_type::integer)
      CUDAL1_CHECK(check_integer(a, std::get<int64_t>(*s)));
    if (const auto* many = std::get_if<std::vector<int64_t>>(&v))
      for (const int64_t item : *many)
        CUDAL1_CHECK(check_integer(a, item));
  }
  return {};
}

expected<std::vector<operator_result>> typed(const rule& types, const operator_call& call) {
  if (call.arguments.size() != call.op->schema.arguments.size())
    return fail(errc::infrastructure, "{} was bound to {} arguments", call.op->schema.name, call.arguments.size());
  CUDAL1_CHECK(check_arguments(call));
  auto results = types(arguments(call));
  if (results && !call.op->schema.list_result && results->size() != call.op->schema.results.size())
    return fail(errc::infrastructure, "the rule of {} gives {} results", call.op->schema.name, results->size());
  return results;
}

operator_info make_info(const operator_record& r, std::string_view schema_text) {
  operator_info info;
  auto schema = parse_schema(schema_text);
  if (!schema) throw std::logic_error(schema.error().message);  // an error in a record; a test reads the whole table
  info.schema = std::move(*schema);
  info.schema_text = schema_text;
  info.needs_relayout = r.traits.needs_relayout;
  info.record = &r;
  info.rule = [types = r.types](const operator_call& call) -> expected<std::vector<operator_result>> {
    try {
      return typed(types, call);
    } catch (const std::exception& e) {  // the rule uses an argument that its schema does not have
      return fail(errc::infrastructure, "the rule of {} is broken: {}", call.op->schema.name, e.what());
    }
  };
  return info;
}

// The schema of an alias that is declared like the record's own.
std::string renamed(std::string_view schema, std::string_view name) {
  return std::string(name) + std::string(schema.substr(schema.find('(')));
}

}  // namespace

const std::vector<operator_record>& operator_records() {
  static const auto all = [] {
    std::vector<operator_record> records;
    for (const auto family : {elementary_function_records,
                              pointwise_records,
                              arithmetic_records,
                              comparison_records,
                              bit_records,
                              binary_records,
                              ternary_records,
                              reduction_records,
                              scan_records,
                              view_records,
                              list_records,
                              copy_records,
                              product_records,
                              contraction_records,
                              einsum_records,
                              recurrent_records,
                              convolution_records,
                              pool_records,
                              resampling_records,
                              normalization_records,
                              attention_records,
                              index_records,
                              sort_records,
                              join_records,
                              rearrangement_records,
                              creation_records,
                              loss_records}) {
      auto some = family();
      std::move(some.begin(), some.end(), std::back_inserter(records));
    }
    return records;
  }();
  return all;
}

const std::map<std::string, operator_info, std::less<>>& operator_table() {
  static const auto table = [] {
    std::map<std::string, operator_info, std::less<>> made;
    const auto add = [&](operator_info info) {
      auto name = info.schema.name;
      if (!made.emplace(name, std::move(info)).second) throw std::logic_error(name + " has two records");
    };
    for (const auto& r : operator_records()) {
      add(make_info(r, r.schema));
      for (const std::string_view alias : r.aliases)
        add(make_info(r, alias.find('(') == alias.npos ? renamed(r.schema, alias) : alias));
    }
    return made;
  }();
  return table;
}

const operator_info* find_operator(std::string_view name) {
  const auto found = operator_table().find(name);
  return found == operator_table().end() ? nullptr : &found->second;
}

std::string_view operator_record::name() const {
  const std::string_view text = schema;
  return text.substr(0, text.find('('));
}

bool selects_elements(const operator_record& r) {
  return r.traits.selects || r.kind == operator_kind::view || r.kind == operator_kind::list;
}

bool is_elementwise(const operator_record& r) {
  switch (r.kind) {
    case operator_kind::rearrangement:
    case operator_kind::scan:
    case operator_kind::normalization:
    case operator_kind::product:
    case operator_kind::contraction:
    case operator_kind::convolution:
    case operator_kind::attention:
    case operator_kind::recurrent:
    case operator_kind::resampling:
    case operator_kind::index:
    case operator_kind::sort:
      return false;
    default:
      return true;
  }
}

std::vector<operator_record> of_kind(operator_kind kind, std::vector<operator_record> records) {
  for (auto& r : records)
    r.kind = kind;
  return records;
}

}  // namespace cudal1
