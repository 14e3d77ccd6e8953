#include "sandbox/cuda/referee/gpu_draws.hpp"

#include <algorithm>
#include <numbers>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>

#include "sandbox/cuda/referee/without_exceptions.hpp"
#include "sandbox/interpreter/boxed_values.hpp"

namespace cudal1 {
namespace {

constexpr int64_t chunk_elements = int64_t{1} << 24;

at::Generator generator_for(at::Device device, uint64_t seed) {
  at::Generator made =
      device.is_cpu() ? at::detail::getDefaultCPUGenerator().clone()
                      : at::globalContext().getAcceleratorHooksInterface(device.type()).getNewGenerator(device.index());
  made.set_current_seed(seed);
  return made;
}

at::ScalarType precision_of(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Integer tensors do not accept floating-point factors.
at::Scalar scalar_for(const at::Tensor& values, double v) {
  return values.is_floating_point() ? at::Scalar(v) : at::Scalar(static_cast<int64_t>(v));
}

// What quantile() of quantiles.hpp is of each, in its place.
void take_quantiles(const at::Tensor& values, std::span<const double> quantiles) {
  const auto last = static_cast<double>(quantiles.size() - 1);
  values.mul_(-2).add_(1).acos_().mul_(last / std::numbers::pi);
  const auto below = values.floor().clamp_(0, last - 1);
  const auto place = below.to(at::kLong);
  const auto table =
      at::tensor(at::ArrayRef<double>(quantiles.data(), quantiles.size()), values.options().dtype(at::kDouble));
  const auto known = table.to(values.scalar_type());
  values.sub_(below);
  const auto low = known.index_select(0, place);
  values.mul_(known.index_select(0, place.add(1)).sub_(low)).add_(low);
}

// Makes the elements of one tensor, a chunk at a time in single or double precision.
class element_maker {
 public:
  element_maker(const draw_recipe& recipe, at::Generator random) : recipe_(recipe), random_(std::move(random)) {}

  void make(const at::Tensor& values) {
    if (recipe_.from == draw_recipe::source::constant) {
      values.fill_(recipe_.offset);
      return;
    }
    start(values);
    if (recipe_.scale != 1) values.mul_(scalar_for(values, recipe_.scale));
    if (recipe_.offset != 0) values.add_(scalar_for(values, recipe_.offset));
    change(values);
  }

  void fold(const at::Tensor& values) const {
    const auto& low = recipe_.least;
    const auto& high = recipe_.most;
    if (!low && !high) return;
    if (low && high) {
      const double span = *high - *low;
      if (!(span > 0)) {
        values.fill_(*low);
        return;
      }
      values.sub_(*low).abs_().fmod_(2 * span).sub_(span).abs_().neg_().add_(span).add_(*low);
    } else if (low) {
      values.sub_(*low).abs_().add_(*low);
    } else {
      values.sub_(*high).abs_().neg_().add_(*high);
    }
    values.clamp_(low ? std::optional<at::Scalar>(*low) : std::nullopt,
                  high ? std::optional<at::Scalar>(*high) : std::nullopt);
  }

  // `rows`: [rows, width].
  void shape_rows(const at::Tensor& rows) {
    switch (recipe_.each_row) {
      case draw_recipe::rows::alike:
        break;
      case draw_recipe::rows::rescaled: {
        const auto column = at::empty({rows.size(0), 1}, rows.options().dtype(precision_of(rows)));
        rows.mul_(column.normal_(0, 1, random_).exp_());
        rows.add_(column.normal_(0, draw_recipe::row_offset, random_));
        break;
      }
      case draw_recipe::rows::peaked: {
        const auto peaks = at::empty({rows.size(0), 1}, rows.options().dtype(at::kLong));
        peaks.random_(0, rows.size(1), random_);
        rows.scatter_add_(1, peaks, at::full({rows.size(0), 1}, draw_recipe::peak, rows.options()));
      }
    }
  }

  at::Generator& random() { return random_; }

 private:
  void start(const at::Tensor& values) {
    switch (recipe_.from) {
      case draw_recipe::source::copy:
      case draw_recipe::source::content:
        break;  // copied in one piece
      case draw_recipe::source::uniform:
        values.uniform_(0, 1, random_);
        break;
      case draw_recipe::source::normal:
        values.normal_(0, 1, random_);
        break;
      case draw_recipe::source::quantiles:
        values.uniform_(0, 1, random_);
        take_quantiles(values, recipe_.quantiles);
        break;
      case draw_recipe::source::integer:
        if (recipe_.high > recipe_.low)
          values.random_(recipe_.low, recipe_.high, random_);
        else
          values.fill_(recipe_.low);
        break;
      case draw_recipe::source::bernoulli:
        values.bernoulli_(recipe_.probability, random_);
        break;
      case draw_recipe::source::constant:
        break;  // filled with its offset
    }
  }

  void change(const at::Tensor& values) {
    switch (recipe_.then) {
      case draw_recipe::change::none:
        break;
      case draw_recipe::change::divide_by_root:
        values.div_(at::empty_like(values).exponential_(1, random_).add_(draw_recipe::tiny).sqrt_());
        break;
      case draw_recipe::change::signed_exponential: {
        values.exp_();
        const auto signs = at::empty_like(values).bernoulli_(0.5, random_);
        values.mul_(signs.mul_(2).sub_(1));
      }
    }
  }

  const draw_recipe& recipe_;
  at::Generator random_;
};

// Into `flat`, of one dimension, a chunk at a time: halves are rounded once, at the end, and stay finite.
void make_elements(element_maker& maker, const at::Tensor& flat) {
  const bool direct =
      flat.scalar_type() == at::kFloat || !flat.is_floating_point() || flat.scalar_type() == at::kDouble;
  for (int64_t first = 0; first < flat.numel(); first += chunk_elements) {
    const auto part = flat.narrow(0, first, std::min(chunk_elements, flat.numel() - first));
    if (direct) {
      maker.make(part);
      continue;
    }
    const auto values = at::empty(part.sizes(), part.options().dtype(at::kFloat));
    maker.make(values);
    if (part.scalar_type() == at::kHalf) values.clamp_(-65504, 65504);
    part.copy_(values);
  }
}

void fold_elements(const element_maker& maker, const at::Tensor& flat) {
  for (int64_t first = 0; first < flat.numel(); first += chunk_elements)
    maker.fold(flat.narrow(0, first, std::min(chunk_elements, flat.numel() - first)));
}

void put_outliers(const std::vector<outlier>& outliers, const at::Tensor& flat) {
  std::vector<int64_t> places;
  std::vector<double> values;
  for (const auto& one : outliers) {
    if (!places.empty() && places.back() == one.place) {
      values.back() = one.value;
      continue;
    }
    places.push_back(one.place);
    values.push_back(one.value);
  }
  if (places.empty()) return;
  const auto at_places = at::tensor(places, at::kLong).to(flat.device());
  auto far = at::tensor(values, at::kDouble);
  if (flat.scalar_type() == at::kHalf) far.clamp_(-65504, 65504);
  flat.index_copy_(0, at_places, far.to(flat.options()));
}

// `rows`: [rows, width]. A chunk of rows at a time, in single or double precision.
void make_simplex(const at::Tensor& rows, double least) {
  const int64_t chunk = std::max<int64_t>(chunk_elements / rows.size(1), 1);
  for (int64_t first = 0; first < rows.size(0); first += chunk) {
    const auto part = rows.narrow(0, first, std::min(chunk, rows.size(0) - first));
    part.copy_(at::softmax(part, 1, precision_of(part)).clamp_min_(least));
  }
}

void keep_fact(fact f, const at::Tensor& values, at::Generator& random) {
  const bool is_matrix = values.dim() >= 2;
  switch (f) {
    case fact::diagonal:
      if (is_matrix) values.triu_().tril_();
      break;
    case fact::upper_triangular:
      if (is_matrix) values.triu_();
      break;
    case fact::lower_triangular:
      if (is_matrix) values.tril_();
      break;
    case fact::symmetric:
      if (is_matrix && values.size(-1) == values.size(-2)) {
        values.triu_();
        values.add_(values.triu(1).transpose(-2, -1));
      }
      break;
    case fact::one_hot: {
      const int64_t width = values.dim() == 0 ? 1 : values.size(-1);
      const auto rows = values.view({-1, width});
      const auto places = at::empty({rows.size(0), 1}, rows.options().dtype(at::kLong));
      places.random_(0, width, random);
      rows.zero_();
      rows.scatter_(1, places, 1);
      break;
    }
    case fact::non_negative:
      values.abs_();
      break;
  }
}

// In host memory; must not be written to.
at::Tensor tensor_of(const std::byte* content, const tensor_type& type) {
  return wrap({contiguous(type.type, type.shape), const_cast<std::byte*>(content)}, at::kCPU);
}

// `values`: contiguous.
void fill_contiguous(const at::Tensor& values, const tensor_draw& how) {
  const draw_recipe recipe = recipe_of(how);
  const bool from_content = recipe.from == draw_recipe::source::copy || recipe.from == draw_recipe::source::content;
  if (from_content) values.copy_(tensor_of(how.content, how.type));
  if (recipe.from == draw_recipe::source::copy) return;
  element_maker maker(recipe, generator_for(values.device(), how.seed));
  const auto flat = values.view({-1});
  const auto rows = values.view({-1, values.dim() == 0 ? 1 : values.size(-1)});
  if (!from_content) make_elements(maker, flat);
  maker.shape_rows(rows);
  put_outliers(recipe.outliers, flat);
  fold_elements(maker, flat);
  if (recipe.simplex_least) make_simplex(rows, *recipe.simplex_least);
  for (const fact f : recipe.facts)
    keep_fact(f, values, maker.random());
}

// A dimension of stride 0 repeats one element.
at::Tensor without_broadcasts(at::Tensor t) {
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.stride(d) == 0 && t.size(d) > 1) t = t.narrow(d, 0, 1);
  return t;
}

}  // namespace

expected<void> fill_draw(const at::Tensor& target, const tensor_draw& how) {
  if (target.numel() == 0) return {};
  return without_exceptions("a draw", [&]() -> expected<void> {
    if (target.is_contiguous()) {
      fill_contiguous(target, how);
      return {};
    }
    // The facts must hold for the full tensor, so it is made in full; a repeated element takes the first value.
    const auto whole = at::empty(target.sizes(), target.options());
    fill_contiguous(whole, how);
    at::Tensor source = whole;
    for (int64_t d = 0; d < target.dim(); ++d)
      if (target.stride(d) == 0 && target.size(d) > 1) source = source.narrow(d, 0, 1);
    without_broadcasts(target).copy_(source);
    return {};
  });
}

}  // namespace cudal1
