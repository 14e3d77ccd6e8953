#include "sandbox/program/operators/batch_rules.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string_view>

#include "sandbox/program/operators/einsum.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

using work_parts::argument;
using work_parts::integer_of;
using work_parts::tensor_of;
using int_list = std::vector<int64_t>;

int64_t elements_between(const int_list& shape, std::size_t first, std::size_t last) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(first),
                         shape.begin() + static_cast<std::ptrdiff_t>(last), int64_t{1}, std::multiplies<>());
}

class rule_of_step {
 public:
  rule_of_step(const operator_call& call, const std::vector<operator_result>& results,
               const std::map<std::string, batch_place>& places, int64_t batch)
      : call_(call), results_(results), places_(places), batch_(batch), name_(call.op->schema.name) {
    name_ = name_.substr(0, name_.find('.'));
  }

  expected<batched_step> find() {
    const bool known = by_kind();
    if (!known) return fail(errc::unsupported, "{} may mix the elements of the batch", call_.op->schema.name);
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const auto& shape = results_[i].type.shape;
      const batch_place& at = found_.results[std::min(i, found_.results.size() - 1)];
      if (at.dim >= shape.size() || shape[at.dim] != at.outer * batch_ * at.inner)
        return fail(errc::unsupported, "{}: the batch does not lie along one dimension", call_.op->schema.name);
    }
    found_.results.resize(results_.size(), found_.results.front());
    return std::move(found_);
  }

 private:
  // ---- operands -----------------------------------------------------------------------------------------------------

  const tensor_argument* operand(std::string_view name) const { return argument<tensor_argument>(call_, name); }
  const batch_place* place(std::string_view name) const {
    const auto* t = operand(name);
    const auto found = t == nullptr ? places_.end() : places_.find(t->name);
    return found == places_.end() ? nullptr : &found->second;
  }
  // Whether none but these operands depend on the batch.
  bool only(std::initializer_list<std::string_view> names) const {
    const auto& schema = call_.op->schema.arguments;
    for (std::size_t i = 0; i < schema.size(); ++i) {
      const bool may = std::ranges::find(names, schema[i].name) != names.end();
      if (may) continue;
      if (const auto* one = std::get_if<tensor_argument>(&call_.arguments[i]); one && places_.contains(one->name))
        return false;
      const auto* several = std::get_if<std::vector<tensor_argument>>(&call_.arguments[i]);
      if (several != nullptr && std::ranges::any_of(*several, [&](const auto& t) { return places_.contains(t.name); }))
        return false;
    }
    return true;
  }
  bool is(std::initializer_list<std::string_view> names) const {
    return std::ranges::any_of(names, [&](std::string_view n) { return name_ == "aten::" + std::string(n); });
  }

  bool at(batch_place where) {
    found_.results.push_back(where);
    return true;
  }
  bool at(batch_place like, std::size_t dim) { return at({dim, like.outer, like.inner}); }

  // The dimension that an argument names, counted from the front.
  static std::size_t wrapped(int64_t dim, std::size_t rank) {
    return static_cast<std::size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
  }
  // Whether the argument `dim`, a number or a list, is there and names another dimension than the batch's, and how many
  // of the named dimensions are before it.
  std::optional<std::size_t> other_dims(std::string_view name, std::size_t batch_dim, std::size_t rank) const {
    int_list dims;
    if (const auto* list = argument<int_list>(call_, name)) dims = *list;
    if (const auto* number = argument<scalar_value>(call_, name))
      if (const auto* dim = std::get_if<int64_t>(number)) dims = {*dim};
    if (dims.empty()) return std::nullopt;
    std::size_t before = 0;
    for (const int64_t d : dims) {
      if (wrapped(d, rank) == batch_dim) return std::nullopt;
      before += wrapped(d, rank) < batch_dim ? 1 : 0;
    }
    return before;
  }

  // ---- families -----------------------------------------------------------------------------------------------------

  bool by_kind() {
    switch (work_parts::record_of(call_).kind) {
      case operator_kind::pointwise:
        return broadcast();
      case operator_kind::view:
        return view();
      case operator_kind::copy:
        return copy();
      case operator_kind::list:
        return list();
      case operator_kind::join:
        return join();
      case operator_kind::reduction:
        return reduction();
      case operator_kind::scan:
      case operator_kind::sort:
        return along_another("self");
      case operator_kind::normalization:
        return normalization();
      case operator_kind::convolution:
        return convolution();
      case operator_kind::pool:
        return images("self");
      case operator_kind::resampling:
        return resampling();
      case operator_kind::product:
        return matrix_product();
      case operator_kind::contraction:
        return einsum();
      case operator_kind::attention:
        return attention();
      case operator_kind::rearrangement:
        return rearrangement();
      case operator_kind::creation:  // like another tensor
        return name_.ends_with("_like") && at(*place("self"));
      case operator_kind::index:
        return is({"embedding"}) && only({"indices"}) && at(*place("indices"));
      default:
        return false;
    }
  }

  // An operand of an elementwise step with a result of that rank, where the batch is at `where` of the result.
  bool take_aligned(const tensor_argument& t, batch_place where, std::size_t rank) {
    const std::size_t missing = rank - t.type.shape.size();
    const auto own = places_.find(t.name);
    if (own != places_.end()) {
      const batch_place& p = own->second;
      return p.dim + missing == where.dim && p.outer == where.outer && p.inner == where.inner;
    }
    if (where.dim < missing || t.type.shape[where.dim - missing] == 1) return true;
    const batch_place read{where.dim - missing, where.outer, where.inner};
    const auto [known, added] = found_.read_in_parts.try_emplace(t.name, read);
    return added || known->second == read;
  }

  std::vector<tensor_argument> tensors() const {
    std::vector<tensor_argument> all;
    for (const auto& value : call_.arguments) {
      if (const auto* one = std::get_if<tensor_argument>(&value)) all.push_back(*one);
      if (const auto* several = std::get_if<std::vector<tensor_argument>>(&value))
        std::ranges::copy_if(*several, std::back_inserter(all), [](const auto& t) { return !t.name.empty(); });
    }
    return all;
  }

  // Where the batch lies in the result of an elementwise step, by the first operand that depends on it.
  batch_place aligned_place(std::size_t rank) const {
    for (const auto& t : tensors())
      if (const auto own = places_.find(t.name); own != places_.end())
        return {own->second.dim + rank - t.type.shape.size(), own->second.outer, own->second.inner};
    return {};
  }

  bool broadcast() {
    const std::size_t rank = results_.front().type.shape.size();
    const batch_place where = aligned_place(rank);
    return std::ranges::all_of(tensors(), [&](const auto& t) { return take_aligned(t, where, rank); }) && at(where);
  }

  bool copy() {
    const auto first = tensors().front();
    const auto own = places_.find(first.name);
    if (own == places_.end()) return false;
    if (is({"pixel_shuffle", "pixel_unshuffle"}))
      return own->second.dim + 3 < first.type.shape.size() && at(own->second);
    if (is({"channel_shuffle"})) return own->second.dim == 0 && at(own->second);
    return results_.front().type.shape == first.type.shape && at(own->second);
  }

  // The same elements in the same order: the batch lies where so many elements follow each of its own.
  bool reshaped(const int_list& from, const int_list& to, batch_place was) {
    const int64_t after = was.inner * elements_between(from, was.dim + 1, from.size());
    int64_t behind = 1;  // elements behind one of dimension d
    for (std::size_t d = to.size(); d-- > 0; behind *= to[d]) {
      if (after % behind != 0) return false;
      const int64_t inner = after / behind;
      if (to[d] % (batch_ * inner) == 0) return at({d, to[d] / (batch_ * inner), inner});
    }
    return false;
  }

  bool view() {
    const auto* self = operand("self");
    const auto* was = place("self");
    if (was == nullptr || !only({"self"})) return false;
    const auto& shape = self->type.shape;
    const std::size_t rank = shape.size();
    const auto& result = results_.front().type.shape;
    if (is_reshape(call_)) return reshaped(shape, result, *was);
    if (is({"alias", "detach"})) return at(*was);
    if (is({"expand", "broadcast_to"})) return at(*was, was->dim + result.size() - rank);
    if (is({"slice", "narrow"})) return other_dims("dim", was->dim, rank) && at(*was);
    if (is({"select"})) {
      const auto before = other_dims("dim", was->dim, rank);
      return before && at(*was, was->dim - *before);
    }
    const auto order = permutation(rank);
    const auto found = std::ranges::find(order, was->dim);
    return found != order.end() && at(*was, static_cast<std::size_t>(found - order.begin()));
  }

  // For each dimension of the result, the operand's; empty where the step is no permutation that is known here.
  std::vector<std::size_t> permutation(std::size_t rank) const {
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (is({"permute"})) {
      const auto* dims = argument<int_list>(call_, "dims");
      if (dims == nullptr || dims->size() != rank) return {};
      for (std::size_t i = 0; i < rank; ++i)
        order[i] = wrapped((*dims)[i], rank);
    } else if (is({"transpose"})) {
      std::swap(order[wrapped(integer_of(call_, "dim0", 0), rank)], order[wrapped(integer_of(call_, "dim1", 0), rank)]);
    } else if (is({"t", "mT"}) && rank >= 2) {
      std::swap(order[rank - 1], order[rank - 2]);
    } else if (is({"numpy_T"})) {
      std::ranges::reverse(order);
    } else {
      return {};
    }
    return order;
  }

  bool list() {
    const auto* was = place("self");
    const std::size_t rank = operand("self")->type.shape.size();
    const auto before = other_dims("dim", was->dim, rank);
    return before && at(*was, was->dim - (is({"unbind"}) ? *before : 0));
  }

  bool join() {
    if (!is({"cat", "stack", "concat"})) return false;
    const std::size_t rank = results_.front().type.shape.size();
    const std::size_t dim = wrapped(integer_of(call_, "dim", 0), rank);
    std::optional<batch_place> where;
    for (const auto& t : tensors())
      if (const auto own = places_.find(t.name); own != places_.end() && !where) where = own->second;
    if (is({"cat", "concat"}) && dim == where->dim) return false;
    for (const auto& t : tensors())
      if (!take_aligned(t, *where, t.type.shape.size())) return false;
    return at(*where, where->dim + (is({"stack"}) && dim <= where->dim ? 1 : 0));
  }

  bool reduction() {
    const auto* was = place("self");
    if (was == nullptr || !only({"self"})) return false;
    const std::size_t rank = operand("self")->type.shape.size();
    const auto before = other_dims("dim", was->dim, rank);
    if (!before) return false;
    return at(*was, was->dim - (results_.front().type.shape.size() == rank ? 0 : *before));
  }

  bool along_another(std::string_view name) {
    const auto* was = place(name);
    return was != nullptr && only({name}) && other_dims("dim", was->dim, operand(name)->type.shape.size()) && at(*was);
  }

  bool normalization() {
    const std::string_view name = operand("input") != nullptr ? "input" : "self";
    const auto* was = place(name);
    if (was == nullptr || !only({name}) || results_.size() != 1) return false;
    const std::size_t rank = operand(name)->type.shape.size();
    if (is({"layer_norm", "rms_norm"})) {
      const auto* normalized = argument<int_list>(call_, "normalized_shape");
      return normalized != nullptr && was->dim + normalized->size() < rank && at(*was);
    }
    if (is({"batch_norm"})) {
      const auto* training = argument<scalar_value>(call_, "training");
      return training != nullptr && *training == scalar_value(false) && was->dim != 1 && at(*was);
    }
    if (is({"group_norm", "instance_norm"})) return was->dim == 0 && at(*was);
    return along_another(name);  // softmax
  }

  bool convolution() {
    const auto* was = place("input");
    const auto* weight = operand("weight");
    return was != nullptr && weight != nullptr && only({"input"}) && was->dim == 0 &&
           operand("input")->type.shape.size() == weight->type.shape.size() && at(*was);
  }

  // Images or volumes, with or without a batch in front of their channels: each of these dimensions by itself.
  bool images(std::string_view name) {
    const auto* was = place(name);
    if (was == nullptr || !only({name})) return false;
    const auto digit = name_.find_first_of("123");
    const auto over = digit == std::string::npos ? 0 : static_cast<std::size_t>(name_[digit] - '0');
    return over > 0 && was->dim + over < operand(name)->type.shape.size() && at(*was);
  }

  bool resampling() {
    if (is({"grid_sampler_2d", "grid_sampler_3d"})) {
      const auto *image = place("input"), *grid = place("grid");
      return image != nullptr && grid != nullptr && image->dim == 0 && *image == *grid && at(*image);
    }
    const std::string_view name = operand("input") != nullptr ? "input" : "self";
    const auto* was = place(name);
    return name_.starts_with("aten::upsample") && was != nullptr && was->dim == 0 && only({name}) && at(*was);
  }

  bool rearrangement() {
    const auto* was = place("self");
    if (was == nullptr || !only({"self"})) return false;
    const std::size_t rank = operand("self")->type.shape.size();
    if (is({"tril", "triu"})) return was->dim + 2 < rank && at(*was);
    const auto* pads = argument<int_list>(call_, is({"constant_pad_nd", "pad"}) ? "pad" : "padding");
    return pads != nullptr && name_.find("pad") != std::string::npos && was->dim + pads->size() / 2 < rank && at(*was);
  }

  // ---- products -----------------------------------------------------------------------------------------------------

  bool matrix_product() {
    if (is({"linear"})) {
      const auto* was = place("input");
      return was != nullptr && only({"input"}) && was->dim + 1 < operand("input")->type.shape.size() && at(*was);
    }
    if (is({"mm", "bmm"})) return product_of("self", "mat2", "");
    if (is({"addmm"})) return product_of("mat1", "mat2", "self");
    if (is({"baddbmm"})) return product_of("batch1", "batch2", "self");
    return is({"matmul"}) && product_of("self", "other", "");
  }

  // Rows of the left factor, columns of the right one, or the dimensions in front of both.
  bool product_of(std::string_view left, std::string_view right, std::string_view added) {
    const auto *a = operand(left), *b = operand(right);
    const std::size_t rows = a->type.shape.size(), columns = b->type.shape.size();
    const std::size_t rank = results_.front().type.shape.size();
    const auto *of_a = place(left), *of_b = place(right);
    if (of_a == nullptr && of_b == nullptr) return false;  // what is added alone
    if (rows < 2 || columns < 2) return of_b == nullptr && of_a->dim + 1 < rows && columns == 1 && at(*of_a);
    std::optional<batch_place> where;
    if (of_a != nullptr && of_a->dim + 1 < rows)
      where = batch_place{of_a->dim + rank - rows, of_a->outer, of_a->inner};
    else if (of_a == nullptr && of_b->dim + 2 != columns)
      where = batch_place{of_b->dim + rank - columns, of_b->outer, of_b->inner};
    if (!where) return false;
    const bool of_rows = where->dim + 2 == rank, of_columns = where->dim + 1 == rank;
    if (of_rows && of_b != nullptr) return false;
    if (!of_rows && !of_columns && !(take_aligned(*a, *where, rank) && take_aligned(*b, *where, rank))) return false;
    if (const auto* c = added.empty() ? nullptr : operand(added); c != nullptr && !take_aligned(*c, *where, rank))
      return false;
    return at(*where);
  }

  bool einsum() {
    const auto* text = argument<std::string>(call_, "equation");
    if (!is({"einsum"}) || text == nullptr) return false;
    const auto all = tensors();
    int_list ranks;
    for (const auto& t : all)
      ranks.push_back(t.type.dim());
    const auto equation = parse_einsum(*text, ranks);
    if (!equation) return false;
    std::optional<int> label;
    std::optional<batch_place> like;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto own = places_.find(all[i].name);
      if (own == places_.end()) continue;
      const int here = equation->operands[i][own->second.dim];
      if (label && (*label != here || like->outer != own->second.outer || like->inner != own->second.inner))
        return false;
      label = here;
      like = own->second;
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& labels = equation->operands[i];
      const auto uses = std::ranges::count(labels, *label);
      if (uses > 1 || (uses == 1 && !places_.contains(all[i].name))) return false;
    }
    const auto& out = equation->output;
    const auto found = std::ranges::find(out, *label);
    return found != out.end() && at(*like, static_cast<std::size_t>(found - out.begin()));
  }

  bool attention() {
    if (!is({"scaled_dot_product_attention"})) return false;
    const auto* query = operand("query");
    const auto* was = place("query");
    const std::size_t rank = query->type.shape.size();
    if (was == nullptr || was->dim + 2 >= rank) return false;
    // Heads of the keys may be fewer than those of the queries.
    if (was->dim + 3 == rank && rank > 3) return false;
    return std::ranges::all_of(tensors(), [&](const auto& t) { return take_aligned(t, *was, rank); }) && at(*was);
  }

  const operator_call& call_;
  const std::vector<operator_result>& results_;
  const std::map<std::string, batch_place>& places_;
  int64_t batch_;
  std::string name_;
  batched_step found_;
};

}  // namespace

bool is_reshape(const operator_call& call) {
  constexpr std::array names{"aten::view",      "aten::reshape",       "aten::_unsafe_view",
                             "aten::squeeze",   "aten::squeeze.dim",   "aten::squeeze.dims",
                             "aten::unsqueeze", "aten::unflatten.int", "aten::flatten.using_ints"};
  return call.op != nullptr && std::ranges::find(names, call.op->schema.name) != names.end();
}

expected<batched_step> batch_of_step(const aten_step&, const operator_call& call,
                                     const std::vector<operator_result>& results,
                                     const std::map<std::string, batch_place>& places, int64_t batch) {
  if (call.op == nullptr || results.empty()) return fail(errc::unsupported, "it is no operator with a result");
  return rule_of_step(call, results, places, batch).find();
}

}  // namespace cudal1
