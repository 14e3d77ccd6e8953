#include "sandbox/referee/draw_recipe.hpp"

#include <cmath>

#include "sandbox/referee/random_blocks.hpp"

namespace cudal1 {
namespace {

using source = draw_recipe::source;

constexpr uint64_t factor_stream = 0xbb67ae8584caa73b;  // apart from the elements' own numbers

// Uniform or normal values, all times the number that the draw has.
void draw_continuous(const draw_spec& spec, distribution kind, uint64_t seed, draw_recipe& r) {
  const bool uniform = kind == distribution::uniform;
  if (uniform) r.from = source::uniform;
  r.scale = uniform ? spec.high - spec.low : spec.std;
  r.offset = uniform ? spec.low : spec.mean;
  if (!spec.factor) return;
  const auto& [low, high] = *spec.factor;
  const double factor = low + (high - low) * random_blocks(seed ^ factor_stream).uniform();
  r.scale *= factor;
  r.offset *= factor;
}

void draw_declared(const input_spec& how, uint64_t seed, draw_recipe& r) {
  const draw_spec& spec = how.draw;
  if (!how.quantiles.empty()) {
    r.from = source::quantiles;
    r.quantiles = how.quantiles;
    return;
  }
  switch (spec.kind) {
    case distribution::uniform:
    case distribution::normal:
      draw_continuous(spec, spec.kind, seed, r);
      break;
    case distribution::integer:
      r.from = source::integer;
      r.low = static_cast<int64_t>(spec.low);
      r.high = static_cast<int64_t>(spec.high);
      break;
    case distribution::bernoulli:
      r.from = source::bernoulli;
      r.probability = spec.probability;
      break;
    case distribution::signs:
      r.from = source::bernoulli;
      r.probability = 0.5;
      r.scale = -2;
      r.offset = 1;
      break;
    case distribution::simplex:  // of which the rows' softmax is taken later; N(0,1) by default
      if (spec.of) draw_continuous(spec, *spec.of, seed, r);
      break;
    case distribution::constant:
      r.from = source::constant;
      r.offset = spec.value;
      break;
  }
}

void draw_integers(draw_recipe& r) {
  constexpr int64_t largest = 2;
  r.from = source::integer;
  r.low = -largest;
  r.high = largest + 1;
}

void draw_weight(const draw_spec& spec, draw_recipe& r) {
  const bool uniform = spec.kind == distribution::uniform;
  r.offset = uniform ? (spec.low + spec.high) / 2 : spec.mean;
  r.scale = uniform ? (spec.high - spec.low) / std::sqrt(12.0) : spec.std;
  if (!(r.scale > 0)) r.scale = 0.5;
}

void draw_input(draw_kind kind, draw_recipe& r) {
  switch (kind) {
    case draw_kind::wide_normal:
      r.scale = 10;
      break;
    case draw_kind::around_one:
      r.scale = 0.01;
      r.offset = 1;
      break;
    case draw_kind::heavy_tails:
      r.then = draw_recipe::change::divide_by_root;
      break;
    case draw_kind::products:
      r.scale = 0.05;
      r.then = draw_recipe::change::signed_exponential;
      break;
    case draw_kind::peaked:
      r.each_row = draw_recipe::rows::peaked;
      break;
    case draw_kind::offset_rows:
      r.each_row = draw_recipe::rows::rescaled;
      break;
    case draw_kind::standard_normal:
    case draw_kind::declared:
    case draw_kind::outliers:
    case draw_kind::outlier_above:
    case draw_kind::outlier_below:
    case draw_kind::small_integers:
    case draw_kind::impulses:
      break;
  }
}

}  // namespace

bool has_outliers(draw_kind kind) {
  return kind == draw_kind::outliers || kind == draw_kind::outlier_above || kind == draw_kind::outlier_below;
}

draw_recipe recipe_of(const tensor_draw& how) {
  draw_recipe r;
  const auto& [type, spec, role, kind, seed, content, has_impulses] = how;
  if (content != nullptr && keeps_content(type, spec, kind, seed)) {
    r.from = source::copy;
    return r;
  }
  const distribution d = spec.draw.kind;
  const bool continuous =
      is_floating(type.type) && (d == distribution::uniform || d == distribution::normal || d == distribution::simplex);
  const bool declared = kind == draw_kind::declared || has_outliers(kind);
  if (declared && content != nullptr)
    r.from = source::content;
  else if (declared || !continuous)
    draw_declared(spec, seed, r);
  else if (has_impulses)
    r.from = source::constant;
  else if (kind == draw_kind::small_integers || kind == draw_kind::impulses)
    draw_integers(r);
  else if (role == tensor_role::weight)
    draw_weight(spec.draw, r);
  else
    draw_input(kind, r);
  if (has_outliers(kind)) r.outliers = outliers_of(type, spec, kind, seed);
  if (has_impulses && continuous) r.outliers = impulses_of(type, spec.facts, seed);
  if (continuous) {
    r.least = spec.draw.min;
    r.most = spec.draw.max;
  }
  if (d == distribution::simplex) r.simplex_least = least_of_simplex(type.type);
  r.facts = spec.facts;
  return r;
}

double least_of_simplex(dtype type) {
  return type == dtype::float16 ? 0x1p-14 : 0x1p-100;
}

bool keeps_content(const tensor_type& type, const input_spec& spec, draw_kind kind, uint64_t seed) {
  if (!spec.content) return false;
  if (spec.content->fixed || kind == draw_kind::declared) return true;
  // (A simplex that has an outlier is none.)
  return has_outliers(kind) && (spec.draw.kind == distribution::simplex || outliers_of(type, spec, kind, seed).empty());
}

}  // namespace cudal1
