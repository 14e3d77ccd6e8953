#include "sandbox/cuda/referee/gpu_draws.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>

#include "sandbox/cuda/referee/without_exceptions.hpp"
#include "sandbox/interpreter/boxed_values.hpp"
#include "sandbox/referee/outliers.hpp"

namespace cudal1 {
namespace {

constexpr int64_t chunk_elements = int64_t{1} << 24;

bool is_continuous(const tensor_type& type, const input_spec& spec) {
  const distribution d = spec.draw.kind;
  return is_floating(type.type) &&
         (d == distribution::uniform || d == distribution::normal || d == distribution::simplex);
}

at::Generator generator_for(at::Device device, uint64_t seed) {
  at::Generator made =
      device.is_cpu() ? at::detail::getDefaultCPUGenerator().clone()
                      : at::globalContext().getAcceleratorHooksInterface(device.type()).getNewGenerator(device.index());
  made.set_current_seed(seed);
  return made;
}

// Makes the elements of one tensor, a chunk at a time in single or double precision.
class element_maker {
 public:
  element_maker(const tensor_type& type, const input_spec& spec, tensor_role role, draw_kind kind, at::Generator random)
      : spec_(spec), role_(role), kind_(kind), continuous_(is_continuous(type, spec)), random_(std::move(random)) {}

  void make(const at::Tensor& values) {
    if (kind_ == draw_kind::declared || kind_ == draw_kind::outliers || !continuous_)
      make_declared(values);
    else if (role_ == tensor_role::weight)
      make_weight(values);
    else
      make_kind(values);
  }

  // Reflected at the domain's ends, so that nothing piles up there.
  void fold(const at::Tensor& values) const {
    const auto& low = spec_.draw.min;
    const auto& high = spec_.draw.max;
    if (!continuous_ || (!low && !high)) return;
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

  // What each row has of its own. `rows`: [rows, width].
  void shape_rows(const at::Tensor& rows) {
    if (!continuous_ || role_ == tensor_role::weight) return;
    if (kind_ == draw_kind::offset_rows) {
      const auto column = at::empty({rows.size(0), 1}, rows.options().dtype(precision_of(rows)));
      rows.mul_(column.normal_(0, 1, random_).exp_());
      rows.add_(column.normal_(0, 5, random_));
    } else if (kind_ == draw_kind::peaked) {
      const auto peaks = at::empty({rows.size(0), 1}, rows.options().dtype(at::kLong));
      peaks.random_(0, rows.size(1), random_);
      rows.scatter_add_(1, peaks, at::full({rows.size(0), 1}, 20, rows.options()));
    }
  }

  at::Generator& random() { return random_; }

  static at::ScalarType precision_of(const at::Tensor& t) {
    return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }

 private:
  void make_declared(const at::Tensor& values) {
    const auto& draw = spec_.draw;
    switch (draw.kind) {
      case distribution::uniform:
        values.uniform_(0, 1, random_).mul_(draw.high - draw.low).add_(draw.low);
        break;
      case distribution::normal:
        values.normal_(0, 1, random_).mul_(draw.std).add_(draw.mean);
        break;
      case distribution::integer: {
        const auto low = static_cast<int64_t>(draw.low), high = static_cast<int64_t>(draw.high);
        if (high > low)
          values.random_(low, high, random_);
        else
          values.fill_(low);
        break;
      }
      case distribution::bernoulli:
        values.bernoulli_(draw.probability, random_);
        break;
      case distribution::signs:
        values.bernoulli_(0.5, random_).mul_(2).sub_(1);
        break;
      case distribution::simplex:  // what its rows are a softmax of
        values.normal_(0, 1, random_);
        break;
      case distribution::constant:
        values.fill_(draw.value);
        break;
    }
  }

  void make_weight(const at::Tensor& values) {
    const auto& draw = spec_.draw;
    const bool uniform = draw.kind == distribution::uniform;
    const double mean = uniform ? (draw.low + draw.high) / 2 : draw.mean;
    double deviation = uniform ? (draw.high - draw.low) / std::sqrt(12.0) : draw.std;
    if (!(deviation > 0)) deviation = 0.5;
    values.normal_(0, 1, random_).mul_(deviation).add_(mean);
  }

  void make_kind(const at::Tensor& values) {
    values.normal_(0, 1, random_);
    switch (kind_) {
      case draw_kind::wide_normal:
        values.mul_(10);
        break;
      case draw_kind::around_one:
        values.mul_(0.01).add_(1);
        break;
      case draw_kind::heavy_tails:  // Student's t, two degrees of freedom
        values.div_(at::empty_like(values).exponential_(1, random_).add_(1e-12).sqrt_());
        break;
      case draw_kind::products: {
        values.mul_(0.05).exp_();
        const auto signs = at::empty_like(values).bernoulli_(0.5, random_);
        values.mul_(signs.mul_(2).sub_(1));
        break;
      }
      default:
        break;
    }
  }

  const input_spec& spec_;
  tensor_role role_;
  draw_kind kind_;
  bool continuous_;
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

void put_outliers(const tensor_type& type, const input_spec& spec, uint64_t seed, const at::Tensor& flat) {
  std::vector<int64_t> places;
  std::vector<double> values;
  for (const auto& one : outliers_of(type, spec, seed)) {
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
    part.copy_(at::softmax(part, 1, element_maker::precision_of(part)).clamp_min_(least));
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

// In the host's memory; nobody writes to it.
at::Tensor tensor_of(const std::byte* content, const tensor_type& type) {
  return wrap({contiguous(type.type, type.shape), const_cast<std::byte*>(content)}, at::kCPU);
}

// `values`: contiguous.
void fill_contiguous(const at::Tensor& values, const tensor_type& type, const input_spec& spec, tensor_role role,
                     draw_kind kind, uint64_t seed, const std::byte* content) {
  if (content != nullptr && keeps_content(type, spec, kind, seed)) {
    values.copy_(tensor_of(content, type));
    return;
  }
  element_maker maker(type, spec, role, kind, generator_for(values.device(), seed));
  const auto flat = values.view({-1});
  const auto rows = values.view({-1, values.dim() == 0 ? 1 : values.size(-1)});
  if (content != nullptr && kind == draw_kind::outliers) {
    values.copy_(tensor_of(content, type));
  } else {
    make_elements(maker, flat);
    maker.shape_rows(rows);
  }
  if (kind == draw_kind::outliers) put_outliers(type, spec, seed, flat);
  if (spec.draw.kind == distribution::simplex) make_simplex(rows, least_of_simplex(type.type));
  fold_elements(maker, flat);
  for (const fact f : spec.facts)
    keep_fact(f, values, maker.random());
}

// A dimension of stride 0 is one element that is seen several times.
at::Tensor without_broadcasts(at::Tensor t) {
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.stride(d) == 0 && t.size(d) > 1) t = t.narrow(d, 0, 1);
  return t;
}

}  // namespace

expected<void> fill_draw(const at::Tensor& target, const tensor_type& type, const input_spec& spec, tensor_role role,
                         draw_kind kind, uint64_t seed, const std::byte* content) {
  if (target.numel() == 0) return {};
  return without_exceptions("a draw", [&]() -> expected<void> {
    if (target.is_contiguous()) {
      fill_contiguous(target, type, spec, role, kind, seed, content);
      return {};
    }
    // The facts hold in the whole of it, so it is made whole; what is seen twice takes the first value.
    const auto whole = at::empty(target.sizes(), target.options());
    fill_contiguous(whole, type, spec, role, kind, seed, content);
    at::Tensor source = whole;
    for (int64_t d = 0; d < target.dim(); ++d)
      if (target.stride(d) == 0 && target.size(d) > 1) source = source.narrow(d, 0, 1);
    without_broadcasts(target).copy_(source);
    return {};
  });
}

}  // namespace cudal1
