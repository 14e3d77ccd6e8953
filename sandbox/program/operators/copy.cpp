// Copies and conversions: the same elements in the same order.
#include <algorithm>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

enum class wanted_format { preserve, contiguous, channels_last };

expected<wanted_format> format_argument(const arguments& a, const tensor_type& t, wanted_format by_default) {
  if (a.is_null("memory_format")) return by_default;
  const auto name = a.text("memory_format");
  if (name == "contiguous_format") return wanted_format::contiguous;
  if (name == "preserve_format") return wanted_format::preserve;
  const int64_t rank = name == "channels_last" ? 4 : 5;
  CUDAL1_CHECK(check_rank(t, rank, rank, "self"));
  return wanted_format::channels_last;
}

tensor_type copied(const tensor_type& t, dtype type, wanted_format how) {
  if (how == wanted_format::preserve) return {type, t.shape, preserved_strides(t)};
  return laid_out(type, t.shape, how == wanted_format::contiguous ? format::contiguous : format::channels_last);
}

bool has_strides_of_channels_last(const tensor_type& t) {
  const auto wanted = channels_last_strides(t.shape);
  for (std::size_t d = 0; d < wanted.size(); ++d)
    if (t.shape[d] != 1 && t.strides[d] != wanted[d]) return false;
  return true;
}

// What becomes of an operand that has the type already.
enum class no_conversion { view, copy };

outcome converted_to(const arguments& a, dtype type, no_conversion otherwise) {
  const auto& t = a.tensor("self");
  CUDAL1_TRY(const auto how, format_argument(a, t, wanted_format::preserve));
  if (how != wanted_format::preserve)
    return not_covered("memory_format in a conversion is not supported: convert, then use contiguous or clone");
  if (type == t.type && otherwise == no_conversion::view) return view_of_first(t);
  return one(copied(t, type, how));
}

rule contiguous_copy() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_TRY(const auto how, format_argument(a, t, wanted_format::contiguous));
    if (how == wanted_format::preserve) return refuse("memory_format should be contiguous_format or channels_last");
    const bool already = how == wanted_format::contiguous ? t.is_contiguous() : has_strides_of_channels_last(t);
    if (already) return view_of_first(t);
    return one(copied(t, t.type, how));
  };
}

rule clone() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_TRY(const auto how, format_argument(a, t, wanted_format::preserve));
    return one(copied(t, t.type, how));
  };
}

rule to_type() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    const dtype type = a.has("other") ? a.tensor("other").type : a.type("dtype").value_or(a.tensor("self").type);
    if (a.has("other")) {
      const auto& t = a.tensor("self");
      return type == t.type ? view_of_first(t) : one(converted(t, type));
    }
    return converted_to(a, type, a.flag("copy") ? no_conversion::copy : no_conversion::view);
  };
}

rule to_copy() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    return converted_to(a, a.type("dtype").value_or(a.tensor("self").type), no_conversion::copy);
  };
}

rule dropout() {
  return [](const arguments& a) -> outcome {
    if (a.flag("train")) return refuse("train is true: results that depend on live randomness cannot be verified");
    if (!(a.real("p") >= 0 && a.real("p") <= 1)) return refuse("p is {}, but should lie in 0 to 1", a.real("p"));
    return view_of_first(a.tensor("input"));
  };
}

rule lift() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    if (!is_plain(t)) return not_covered("self should be contiguous, but is {}", t.text());
    return one(t);
  };
}

// The argument of that name: by how much the shuffles scale height and width of the image `self`.
expected<int64_t> scale_factor(const arguments& a, std::string_view name) {
  CUDAL1_CHECK(check_image(a.tensor("self"), 3, 64, "self"));
  const int64_t factor = a.integer(name);
  if (factor < 1) return refuse("{} is {}, but should be positive", name, factor);
  return factor;
}

rule pixel_shuffle() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(const int64_t factor, scale_factor(a, "upscale_factor"));
    const int64_t square = saturating_multiply(factor, factor);
    auto shape = a.tensor("self").shape;
    const auto last = shape.size() - 1;
    if (shape[last - 2] % square != 0)
      return refuse("the {} channels of self should be divisible by {}, the square of upscale_factor", shape[last - 2],
                    square);
    shape[last - 2] /= square;
    shape[last - 1] = saturating_multiply(shape[last - 1], factor);
    shape[last] = saturating_multiply(shape[last], factor);
    return one(contiguous(a.tensor("self").type, std::move(shape)));
  };
}

rule pixel_unshuffle() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(const int64_t factor, scale_factor(a, "downscale_factor"));
    const auto& t = a.tensor("self");
    auto shape = t.shape;
    const auto last = shape.size() - 1;
    if (shape[last] % factor != 0 || shape[last - 1] % factor != 0)
      return refuse("downscale_factor {} should divide height and width of self, which is {}", factor, t.text());
    shape[last - 2] = saturating_multiply(shape[last - 2], saturating_multiply(factor, factor));
    shape[last - 1] /= factor;
    shape[last] /= factor;
    return one(contiguous(t.type, std::move(shape)));
  };
}

rule channel_shuffle() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_image(t, 3, 64, "self"));
    const int64_t groups = a.integer("groups");
    if (groups < 1 || t.shape[1] % groups != 0)
      return refuse("groups is {}, but should divide the {} channels", groups, t.shape[1]);
    return one(contiguous(t.type, t.shape));
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> copy_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::copy, {
      {"aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)", contiguous_copy(), {.changes = {effect::onto}, .selects = true, .may_copy = true, .idle = "its operand is contiguous already", .keeps_zeros = true, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::identity}}},
      {"aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", clone(), {.changes = {effect::onto}, .selects = true, .keeps_zeros = true, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::identity}}},
      {"aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)", to_type(), {.changes = {effect::onto, effect_condition::floating}, .may_copy = true, .keeps_zeros = true, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::conversion}}},
      {"aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)", to_type(), {.changes = {effect::onto, effect_condition::floating}, .may_copy = true, .keeps_zeros = true, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::conversion}}},
      {"aten::type_as(Tensor self, Tensor other) -> Tensor", to_type(), {.may_copy = true, .reads = reading::values_of_first_only, .kernel = element_kernel{.form = kernel_form::conversion}}},
      {"aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor", to_copy(), {.changes = {effect::onto, effect_condition::floating}, .kernel = element_kernel{.form = kernel_form::conversion}}},
      {"aten::lift_fresh_copy(Tensor self) -> Tensor", lift()},
      {"aten::dropout(Tensor input, float p, bool train) -> Tensor", dropout(), {.changes = {effect::onto}, .idle = "dropout outside of training is the identity", .linear = linearity::each_operand}},
      {"aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor", dropout()},
      {"aten::feature_dropout(Tensor input, float p, bool train) -> Tensor", dropout()},
      {"aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", pixel_shuffle()},
      {"aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", pixel_unshuffle()},
      {"aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor", channel_shuffle()},
  });
  // clang-format on
}

}  // namespace cudal1
