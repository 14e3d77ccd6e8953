#include "policy/graph/alignment.hpp"

#include <algorithm>
#include <utility>

#include "policy/graph/step_arguments.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_vector_bytes = 16;

bool keeps_start_address(const operator_record& r) {
  return !r.traits.moves_start_address && (r.kind == operator_kind::view || r.kind == operator_kind::copy);
}

// The place of one of several views: behind those that lie before it along their dimension.
std::optional<slice_place> place_in_list(const graph_step& s, const std::string& value, const tensor_type& type) {
  const auto found = std::ranges::find(s.text->results, value);
  if (s.argument("dim") == nullptr || found == s.text->results.end()) return std::nullopt;
  int64_t dim = integer_argument(s, "dim").value_or(0);
  dim += dim < 0 ? type.dim() : 0;
  const auto d = static_cast<std::size_t>(dim);
  int64_t before = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(found - s.text->results.begin()); ++i)
    before += s.result_types[i].dim() == type.dim() ? s.result_types[i].shape[d] : 1;  // unbind removes the dimension
  return slice_place{dim, before};
}

std::optional<slice_place> place_of(const graph& g, const graph_step& s, const std::string& self,
                                    const std::string& value) {
  const tensor_type& type = g.type_of(self);
  if (s.record().kind == operator_kind::list) return place_in_list(s, value, type);
  const char* const first = s.argument("start") != nullptr ? "start" : "index";
  if (!s.record().traits.moves_start_address || s.argument(first) == nullptr) return std::nullopt;
  int64_t dim = integer_argument(s, "dim").value_or(0);
  dim += dim < 0 ? type.dim() : 0;
  const int64_t size = type.shape[static_cast<std::size_t>(dim)];
  int64_t start = integer_argument(s, first).value_or(0);
  start += start < 0 ? size : 0;
  return slice_place{dim, std::clamp<int64_t>(start, 0, size)};
}

// What a step of set-up sees from its first element on; "" where it makes the value otherwise.
std::string seen_at_set_up(const graph& g, const std::string& value) {
  const auto made = std::ranges::find(g.setup(), value, [](const aten_step& s) { return s.results[0]; });
  if (made == g.setup().end() || !keeps_start_address(*find_operator(made->op)->record)) return "";
  const json* self = argument_of(*made, "self");
  return self != nullptr && self->is_string() ? std::string(self->as_string()) : "";
}

}  // namespace

std::optional<slice_place> place_of_slice(const graph& g, const graph_step& s, std::size_t result) {
  const auto self = tensor_argument_name(s, "self");
  if (!self || s.is_replaced() || s.record().kind == operator_kind::copy ||
      integer_argument(s, "step").value_or(1) != 1)
    return std::nullopt;
  return place_of(g, s, g.resolve(*self), s.text->results[result]);
}

bool starts_aligned(const graph& g, const std::string& value) {
  if (!g.origin().reference.view_of.contains(value)) return true;
  const graph_step* made = g.producer(value);
  if (made == nullptr) {
    const std::string whole = seen_at_set_up(g, value);
    return !whole.empty() && starts_aligned(g, whole);
  }
  const auto self = tensor_argument_name(*made, "self");
  if (!self) return false;
  const std::string& from = g.resolve(*self);
  if (keeps_start_address(made->record())) return starts_aligned(g, from);
  const auto place = place_of(g, *made, from, value);
  if (!place) return false;
  const int64_t skipped = place->first * g.type_of(from).strides[static_cast<std::size_t>(place->dim)];
  return skipped * size_of(g.type_of(value).type) % k_vector_bytes == 0 && starts_aligned(g, from);
}

std::string seen_through_views(const graph& g, const std::string& value) {
  std::string at = g.resolve(value);
  while (const graph_step* made = g.producer(at)) {
    const auto self = tensor_argument_name(*made, "self");
    // A view that a kernel computes has memory of its own, and what it shows may have none.
    if (!self || made->group >= 0 || made->is_replaced() || !g.origin().reference.view_of.contains(at) ||
        made->record().kind != operator_kind::view || made->record().traits.moves_start_address)
      break;
    std::string from = g.resolve(*self);
    if (g.type_of(from).type != g.type_of(at).type) break;
    at = std::move(from);
  }
  return at;
}

}  // namespace cudal1
