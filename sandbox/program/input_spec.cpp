#include "sandbox/program/input_spec.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "config/base/blob.hpp"
#include "config/base/describe.hpp"
#include "config/base/utf8.hpp"
#include "sandbox/program/form.hpp"
#include "sandbox/program/json_fields.hpp"
#include "sandbox/program/quantiles.hpp"

namespace cudal1 {

namespace {

std::vector<std::string_view> parameters_of(distribution kind) {
  switch (kind) {
    case distribution::uniform:
    case distribution::integer:
      return {"low", "high"};
    case distribution::normal:
      return {"mean", "std"};
    case distribution::bernoulli:
      return {"probability"};
    case distribution::constant:
      return {"value"};
    case distribution::signs:
    case distribution::simplex:
      return {};
  }
  return {};
}

distribution default_distribution(dtype type) {
  if (type == dtype::bool_) return distribution::bernoulli;
  return is_floating(type) ? distribution::normal : distribution::integer;
}

// A number or a size.
expected<double> read_bound(const json& v, const size_names& sizes, const std::string& where) {
  if (v.is_string()) {
    auto size = evaluate_size(v.as_string(), sizes);
    if (!size) return fail_in(where, size.error());
    return static_cast<double>(*size);
  }
  if (!v.is_number()) return wrong_json_kind(where, "a number or a size", v);
  return v.as_number();
}

// The integers that a dtype and a double both hold exactly: [first, last].
std::pair<double, double> range_of(dtype type) {
  switch (type) {
    case dtype::bool_:
      return {0, 1};
    case dtype::uint8:
      return {0, 255};
    case dtype::int8:
      return {-128, 127};
    case dtype::int16:
      return {-32768, 32767};
    case dtype::int32:
      return {-2147483648.0, 2147483647.0};
    default:
      return {-9007199254740992.0, 9007199254740992.0};
  }
}

expected<void> check_whole(double value, dtype type, const std::string& where) {
  const auto [first, last] = range_of(type);
  if (value != std::floor(value) || value < first || value > last)
    return fail(errc::parse_error, "{}: {} is not a valid {}", where, value, name_of(type));
  return {};
}

// Whether tensors of the element type can be drawn from the distribution.
expected<void> check_kind(const draw_spec& draw, dtype type, const std::string& where) {
  if (draw.kind == distribution::constant)
    return is_floating(type) ? expected<void>() : check_whole(draw.value, type, where + ", value");
  if (type == dtype::bool_ && draw.kind != distribution::bernoulli)
    return fail(errc::parse_error, "{}, distribution: a bool is drawn from bernoulli, or constant", where);
  const bool whole = draw.kind == distribution::integer || draw.kind == distribution::bernoulli ||
                     (draw.kind == distribution::signs && type != dtype::uint8);
  if (!is_floating(type) && !whole)
    return fail(errc::parse_error, "{}, distribution: {} needs integer, bernoulli{} or constant", where, name_of(type),
                type == dtype::uint8 ? "" : ", signs");
  return {};
}

expected<void> check_draw(const draw_spec& draw, dtype type, const std::string& where) {
  const bool bounded = draw.kind == distribution::uniform || draw.kind == distribution::integer;
  CUDAL1_CHECK(check_kind(draw, type, where));
  if (bounded && !(draw.low < draw.high))
    return fail(errc::parse_error, "{}: low ({}) should be below high ({})", where, draw.low, draw.high);
  if (draw.kind == distribution::integer) {
    const auto [first, last] = range_of(type);
    if (draw.low != std::floor(draw.low) || draw.high != std::floor(draw.high))
      return fail(errc::parse_error, "{}: low and high should be whole numbers", where);
    if (draw.low < first || draw.high - 1 > last)
      return fail(errc::parse_error, "{}: {} to {} does not fit {}", where, draw.low, draw.high - 1, name_of(type));
  }
  if (draw.factor && !(draw.factor->low < draw.factor->high))
    return fail(errc::parse_error, "{}, factor: low ({}) should be below high ({})", where, draw.factor->low,
                draw.factor->high);
  if (!(draw.std >= 0)) return fail(errc::parse_error, "{}, std: {} is negative", where, draw.std);
  if (!(draw.probability >= 0 && draw.probability <= 1))
    return fail(errc::parse_error, "{}, probability: {} is not in 0 to 1", where, draw.probability);
  if (draw.min && draw.max && *draw.min > *draw.max)
    return fail(errc::parse_error, "{}: min ({}) is above max ({})", where, *draw.min, *draw.max);
  return {};
}

expected<draw_factor> read_factor(const json& v, const size_names& sizes, const std::string& where) {
  CUDAL1_CHECK(known_keys(v, where, {"low", "high"}));
  draw_factor factor;
  for (const auto& [key, target] : {std::pair{"low", &factor.low}, {"high", &factor.high}}) {
    CUDAL1_TRY(const json* value, required_key(v, key, where));
    CUDAL1_TRY(*target, read_bound(*value, sizes, fmt::format("{}, {}", where, key)));
  }
  return factor;
}

// What a simplex is made of.
expected<void> read_base(const json& v, dtype type, const size_names& sizes, const std::string& where, draw_spec& draw);

expected<draw_spec> read_draw(const json* v, dtype type, const size_names& sizes, const std::string& where) {
  draw_spec draw;
  draw.kind = default_distribution(type);
  if (!v) {
    if (draw.kind != distribution::integer) return draw;
    return fail(errc::parse_error,
                "{}: {} needs one, such as {{\"distribution\": \"integer\", \"low\": 0, \"high\": 10}}", where,
                name_of(type));
  }
  if (!v->is_object()) return wrong_json_kind(where, "an object", *v);
  CUDAL1_TRY(const json* kind, required_key(*v, "distribution", where));
  CUDAL1_TRY(draw.kind, read_enum<distribution>(*kind, where + ", distribution"));
  auto known = parameters_of(draw.kind);
  known.emplace_back("distribution");
  if (draw.kind != distribution::signs && draw.kind != distribution::simplex && draw.kind != distribution::constant)
    known.insert(known.end(), {"min", "max"});
  if (draw.kind == distribution::uniform || draw.kind == distribution::normal) known.emplace_back("factor");
  if (draw.kind == distribution::simplex) known.emplace_back("of");
  CUDAL1_CHECK(known_keys(*v, fmt::format("{} ({})", where, enum_name(draw.kind)), known));
  if (draw.kind == distribution::integer) CUDAL1_CHECK(required_key(*v, "high", where));
  if (draw.kind == distribution::constant) CUDAL1_CHECK(required_key(*v, "value", where));
  const std::pair<std::string_view, double*> numbers[] = {{"low", &draw.low},
                                                          {"high", &draw.high},
                                                          {"mean", &draw.mean},
                                                          {"std", &draw.std},
                                                          {"probability", &draw.probability},
                                                          {"value", &draw.value}};
  for (const auto& [key, target] : numbers)
    if (const auto* value = v->find(key)) {
      CUDAL1_TRY(*target, read_bound(*value, sizes, fmt::format("{}, {}", where, key)));
    }
  if (const auto* min = v->find("min")) {
    CUDAL1_TRY(draw.min, read_bound(*min, sizes, where + ", min"));
  }
  if (const auto* max = v->find("max")) {
    CUDAL1_TRY(draw.max, read_bound(*max, sizes, where + ", max"));
  }
  if (const auto* factor = v->find("factor")) {
    CUDAL1_TRY(draw.factor, read_factor(*factor, sizes, where + ", factor"));
  }
  if (const auto* of = v->find("of")) CUDAL1_CHECK(read_base(*of, type, sizes, where + ", of", draw));
  CUDAL1_CHECK(check_draw(draw, type, where));
  return draw;
}

expected<void> read_base(const json& v, dtype type, const size_names& sizes, const std::string& where,
                         draw_spec& draw) {
  CUDAL1_TRY(draw_spec base, read_draw(&v, type, sizes, where));
  if ((base.kind != distribution::uniform && base.kind != distribution::normal) || base.min || base.max)
    return fail(errc::parse_error, "{}: should be uniform or normal, without min and max", where);
  base.of = base.kind;
  base.kind = draw.kind;
  draw = base;
  return {};
}

expected<void> check_fact(fact f, const tensor_type& type, const draw_spec& draw, const std::string& where) {
  const auto name = enum_name(f);
  if (draw.kind == distribution::simplex && f != fact::non_negative)
    return fail(errc::parse_error, "{}: rows of a simplex are not {}", where, name);
  const auto rank = type.shape.size();
  const bool of_matrix =
      f == fact::diagonal || f == fact::upper_triangular || f == fact::lower_triangular || f == fact::symmetric;
  if (of_matrix && rank < 2)
    return fail(errc::parse_error, "{}: {} needs two dimensions, but the tensor has {}", where, name, rank);
  if (f == fact::symmetric && type.shape[rank - 1] != type.shape[rank - 2])
    return fail(errc::parse_error, "{}: symmetric needs a square matrix, but the last two dimensions are {} and {}",
                where, type.shape[rank - 2], type.shape[rank - 1]);
  if (f == fact::one_hot && rank < 1)
    return fail(errc::parse_error, "{}: one_hot needs a dimension, but the tensor has none", where);
  if (f == fact::non_negative && (type.type == dtype::bool_ || type.type == dtype::uint8))
    return fail(errc::parse_error, "{}: every {} is non_negative", where, name_of(type.type));
  return {};
}

expected<tensor_content> read_content(const json& v, const std::string& where) {
  if (!v.is_object()) return wrong_json_kind(where, "an object", v);
  CUDAL1_CHECK(known_keys(v, where, {"file", "tensor", "fixed", "draws"}));
  tensor_content content;
  CUDAL1_TRY(const json* file, required_key(v, "file", where));
  CUDAL1_TRY(content.file, read_string(*file, where + ", file"));
  if (!is_blob_name(content.file, ".safetensors"))
    return fail(errc::parse_error, "{}, file: {} should be 64 hexadecimal digits and \".safetensors\"", where,
                json(content.file).text());
  CUDAL1_TRY(const json* tensor, required_key(v, "tensor", where));
  CUDAL1_TRY(content.tensor, read_string(*tensor, where + ", tensor"));
  constexpr std::size_t longest = 500;
  if (content.tensor.empty() || content.tensor.size() > longest || !is_valid_utf8(content.tensor))
    return fail(errc::parse_error, "{}, tensor: should be a name of 1 to {} bytes", where, longest);
  if (const auto* fixed = v.find("fixed")) {
    if (!fixed->is_bool()) return wrong_json_kind(where + ", fixed", "a boolean", *fixed);
    content.fixed = fixed->as_bool();
  }
  if (const auto* draws = v.find("draws")) {
    constexpr int64_t most = 1024;
    CUDAL1_TRY(content.draws, read_integer(*draws, where + ", draws"));
    if (content.draws < 1 || content.draws > most)
      return fail(errc::parse_error, "{}, draws: should be 1 to {}", where, most);
  }
  return content;
}

expected<void> check_quantiles_fit(const input_spec& spec, const tensor_type& type, const std::string& where) {
  if (is_floating(type.type) && !spec.content &&
      (spec.draw.kind == distribution::uniform || spec.draw.kind == distribution::normal))
    return {};
  return fail(errc::parse_error, "{}: need a floating tensor without content, whose draw is uniform or normal", where);
}

}  // namespace

expected<input_spec> read_input_spec(const json& declaration, const tensor_type& type, const size_names& sizes,
                                     const std::string& where) {
  input_spec spec;
  if (const auto* content = declaration.find("content")) {
    CUDAL1_TRY(spec.content, read_content(*content, where + ", content"));
  }
  const auto* draw = declaration.find("draw");
  if (draw || !spec.content || !spec.content->fixed) {
    CUDAL1_TRY(spec.draw, read_draw(draw, type.type, sizes, where + ", draw"));
  } else {
    spec.draw.kind = default_distribution(type.type);  // nothing is drawn
  }
  if (const auto* quantiles = declaration.find("quantiles")) {
    CUDAL1_TRY(spec.quantiles, read_quantiles(*quantiles, where + ", quantiles"));
    CUDAL1_CHECK(check_quantiles_fit(spec, type, where + ", quantiles"));
  }
  if (spec.draw.kind == distribution::simplex && type.shape.empty())
    return fail(errc::parse_error, "{}, draw: simplex needs a dimension, but the tensor has none", where);
  const auto* facts = declaration.find("facts");
  if (!facts) return spec;
  if (!facts->is_array()) return wrong_json_kind(where + ", facts", "an array of facts", *facts);
  for (const auto& item : facts->as_array()) {
    const auto at = fmt::format("{}, facts[{}]", where, spec.facts.size());
    CUDAL1_TRY(const auto f, read_enum<fact>(item, at));
    CUDAL1_CHECK(check_fact(f, type, spec.draw, at));
    if (std::find(spec.facts.begin(), spec.facts.end(), f) != spec.facts.end())
      return fail(errc::parse_error, "{}: {} appears twice", at, enum_name(f));
    spec.facts.push_back(f);
  }
  std::sort(spec.facts.begin(), spec.facts.end());  // their order has no meaning and must not affect the id
  return spec;
}

std::string draw_text(const draw_spec& d) {
  const auto factor = d.factor ? fmt::format(" times one number in [{}, {})", d.factor->low, d.factor->high) : "";
  switch (d.kind) {
    case distribution::uniform:
      return fmt::format("uniform on [{}, {}){}", d.low, d.high, factor);
    case distribution::integer:
      return fmt::format("integers {} to {}", d.low, d.high - 1);
    case distribution::bernoulli:
      return fmt::format("1 with probability {}", d.probability);
    case distribution::normal:
      return fmt::format("normal, mean {}, standard deviation {}{}", d.mean, d.std, factor);
    case distribution::signs:
      return "1 or -1";
    case distribution::simplex:
      if (d.of) {
        draw_spec base = d;
        base.kind = *d.of;
        return "rows of softmax of values " + draw_text(base);
      }
      return "rows of softmax";
    case distribution::constant:
      return fmt::format("{} everywhere", d.value);
  }
  return "";
}

json draw_json(const draw_spec& draw) {
  json object = json::make_object();
  object.set("distribution", enum_name(draw.kind));
  if (draw.of) {
    draw_spec base = draw;
    base.kind = *draw.of;
    base.of.reset();
    object.set("of", draw_json(base));
    return object;
  }
  const auto parameters = parameters_of(draw.kind);
  const std::pair<std::string_view, double> numbers[] = {{"low", draw.low},
                                                         {"high", draw.high},
                                                         {"mean", draw.mean},
                                                         {"std", draw.std},
                                                         {"probability", draw.probability},
                                                         {"value", draw.value}};
  for (const auto& [key, value] : numbers)
    if (std::find(parameters.begin(), parameters.end(), key) != parameters.end()) object.set(std::string(key), value);
  if (draw.factor) {
    json factor = json::make_object();
    factor.set("low", draw.factor->low);
    factor.set("high", draw.factor->high);
    object.set("factor", std::move(factor));
  }
  if (draw.min) object.set("min", *draw.min);
  if (draw.max) object.set("max", *draw.max);
  return object;
}

json facts_json(const std::vector<fact>& facts) {
  json::array items;
  for (const auto f : facts)
    items.emplace_back(enum_name(f));
  return items;
}

json content_json(const tensor_content& content) {
  json object = json::make_object();
  object.set("file", content.file);
  object.set("tensor", content.tensor);
  if (content.fixed) object.set("fixed", true);
  if (content.draws > 0) object.set("draws", content.draws);
  return object;
}

}  // namespace cudal1
