#include "policy/codegen/cuda/packed_weights.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "policy/body/body_edits.hpp"
#include "policy/codegen/kernel_writer.hpp"

namespace cudal1 {

namespace {

using tile::value;

// [group, {phase of each dimension}, chunk, part, {element of its windows of each dimension}, quad, channel, 4], with
// the last dimension last.
std::vector<int64_t> extents_of_weights(const warpgroup_convolution& l) {
  std::vector<int64_t> out = {l.groups};
  for (std::size_t i = l.dimensions.size(); i-- > 0;)
    out.push_back(l.dimensions[i].phases());
  out.insert(out.end(), {l.chunks(), l.parts});
  for (std::size_t i = l.dimensions.size(); i-- > 0;)
    out.push_back(l.dimensions[i].most_taps());
  out.insert(out.end(), {l.quads, l.padded_channels(), l.quad});
  return out;
}

}  // namespace

body_access packed_weights(const kernel_body& body, const warpgroup_convolution& l, const std::string& name) {
  body_access out;
  out.value = name;
  out.type = contiguous(dtype::float32, {l.packed_weights()});
  out.strides.assign(body.axes.size(), 0);
  return out;
}

expected<emitted_kernel> emit_packed_weights(const emit_request& request, const warpgroup_convolution& l,
                                             const body_access& packed) {
  constexpr int64_t threads = 256;
  kernel_body body = *request.body;
  make_elementwise(body);
  body.results = {{l.weight, packed}};
  emit_request own = request;
  own.body = &body;
  own.options = {};
  own.name = request.name + "_weights";
  own.comment = request.comment + ": the weights in the order in which blocks copy them";
  kernel_writer w(own);
  const int64_t count = l.packed_weights(), blocks = (count + threads - 1) / threads;
  tile::kernel_builder b(threads, blocks);
  w.open_kernel(threads);
  const auto at = w.add_tensors(b);
  const index_expr number = b.let("int", "number",
                                  index_expr::variable("blockIdx.x", blocks).as("int") * threads +
                                      index_expr::variable("threadIdx.x", threads).as("int"));
  const auto write = [&] {
    const auto place = split(index_expr::variable("number", count), extents_of_weights(l));
    const std::size_t space = l.dimensions.size(), behind = 3 + 2 * space;
    const auto of = b.let("int", {{"group", place[0]},
                                  {"c", place[1 + space] * l.chunk + place[behind] * l.quad + place[behind + 2]},
                                  {"part", place[2 + space]},
                                  {"o", place[behind + 1]}});
    const body_access& from = body.accesses[static_cast<std::size_t>(w.node(l.weight).access)];
    index_expr weight =
        of[1] * from.stride(l.in_channel) + (of[0] * l.out_channels + of[3]) * l.stride_of_channels(body);
    std::vector<tile::condition> in_phase;
    for (std::size_t i = 0; i < space; ++i) {
      const auto& d = l.dimensions[i];
      const std::string phase = fmt::format("phase{}", i), tap = fmt::format("tap{}", i);
      b.let("int", {{phase, place[space - i]}, {tap, place[2 + 2 * space - i]}});
      const index_expr t = index_expr::variable(tap, d.most_taps());
      const index_expr taps = d.of_phase(phase, &convolved_dimension::phase::taps);
      if (!taps.is(d.most_taps())) in_phase.push_back({t - taps, tile::condition::how::below, 0});
      if (d.column < 0) continue;
      const index_expr k = d.of_phase(phase, &convolved_dimension::phase::first) + t * d.tap_step();
      weight = weight + index_expr::variable(fmt::format("min({}, {})", k.text(), d.walk.kernel - 1), d.walk.kernel) *
                            from.stride(d.column);
    }
    b.add({tile::test{"exists",
                      {{of[1], tile::condition::how::within, l.in_channels},
                       {of[3], tile::condition::how::within, l.out_channels}}}});
    tile::access read = w.place_of(l.weight, at, weight);
    read.masked = tile::mask{"exists", {from.stride(l.in_channel), l.stride_of_channels(body)}};
    value element = value::element(read, w.node(l.weight).type);
    if (!in_phase.empty()) {
      b.add({tile::test{"in_phase", in_phase}});
      element = value::operation("in_phase ? $0 : 0.0f", {element}, dtype::float32, 1);
    }
    b.define("weight", element);
    const value named = value::named("weight", dtype::float32);
    b.define("high", value::operation(rounded_to_tf32, {named}, dtype::float32, 1));
    const value high = value::named("high", dtype::float32);
    const value low =
        value::operation(fmt::format("part == 0 ? $1 : {}", rest_as_tf32), {named, high}, dtype::float32, 3);
    b.store(tile::access{at.results.at(0), {index_expr::variable("number", count)}}, l.parts == 1 ? high : low);
  };
  if (blocks * threads == count)
    write();
  else
    b.guard({{number, tile::condition::how::below, count}}, write);
  CUDAL1_TRY(emitted_kernel out, w.finished(std::move(b).finish()));
  if (body.accesses[static_cast<std::size_t>(w.node(l.weight).access)].constant) std::swap(out.steps, out.setup);
  return out;
}

}  // namespace cudal1
