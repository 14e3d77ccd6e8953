#include "policy/codegen/cuda/convolution_writer.hpp"

#include <algorithm>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/window_layout.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most_rounds = 48;  // of a thread's elements of the input, all before it waits for them
constexpr const char* k_inside = "inside";

}  // namespace

convolution_writer::convolution_writer(const emit_request& request, const convolution_parts& parts,
                                       const cut_convolution* cut, int64_t channels, int64_t threads)
    : w_(request),
      body_(w_.body()),
      p_(parts),
      cut_(cut),
      channels_(channels),
      index_(index_type(body_, body_.rows() * body_.columns())),
      plan_(body_),
      b_(threads, parts.blocks_of(body_, channels)),
      thread_(index_expr::variable("threadIdx.x", threads)) {
  reach(p_.input, front_);
  for (const auto& r : body_.results)
    reach(r.node, behind_);
}

void convolution_writer::reach(int n, std::set<int>& into) {
  if (!into.insert(n).second || n == p_.sum) return;
  for (const int o : w_.node(n).operands)
    reach(o, into);
}

// ---- which tile a block has ----------------------------------------------------------------------------------------

void convolution_writer::write_tile() {
  std::vector<int64_t> extents;
  std::vector<std::string> names;
  const auto add = [&](std::string name, int64_t count) {
    extents.push_back(count);
    names.push_back(std::move(name));
  };
  for (const int axis : p_.batch)
    add(fmt::format("i{}", axis), extent(axis));
  for (std::size_t i = p_.dimensions.size(); i-- > 0;)
    add(fmt::format("tile{}", i), p_.dimensions[i].tiles());
  add("group", p_.groups);
  add("part", p_.parts_of_channels(channels_));
  for (std::size_t i = p_.dimensions.size(); i-- > 0;)
    if (p_.phases_of_blocks(i) > 1) add(fmt::format("phase{}", i), p_.phases_of_blocks(i));
  const auto parts = split(index_expr::variable("blockIdx.x", p_.blocks_of(body_, channels_)), extents);
  for (std::size_t i = 0; i < parts.size(); ++i)
    b_.let(i < p_.batch.size() ? index_ : "int", names[i], parts[i].as(i < p_.batch.size() ? index_ : "int"));
  for (std::size_t i = 0; i < p_.dimensions.size(); ++i)
    if (p_.dimensions[i].phases() == p_.phases_of_blocks(i) && !p_.is_in_passes(i)) write_first_element(i);
}

void convolution_writer::write_first_element(std::size_t i, const index_expr& place) {
  const auto& d = p_.dimensions[i];
  b_.let("int", fmt::format("p{}", i),
         tile_of(i) * (d.tile * d.step()) + place * d.step() + of_phase(i, &convolved_dimension::phase::before));
}

// ---- the tile's input ----------------------------------------------------------------------------------------------

void convolution_writer::each_round(const std::string& name, const round_of_threads& r,
                                    const std::function<void(const index_expr&, const index_expr&)>& body) {
  const auto one = [&](const index_expr& round) {
    const index_expr at = b_.let("int", name, r.first + round * r.step);
    b_.guard(below(at, r.count, r.rounds() * r.step), [&] { body(index_expr::variable(name, r.count), round); });
  };
  if (r.rounds() == 1) return b_.scope([&] { one(0); });
  b_.loop(name + "_round", r.rounds(), r.rounds() <= k_most_rounds ? tile::unrolling::whole : tile::unrolling::none,
          one);
}

bool convolution_writer::is_masked(std::size_t i) const {
  const auto& d = p_.dimensions[i];
  return d.is_transposed || d.walk.padding > 0 || (d.tiles() - 1) * d.tile * d.walk.stride + d.reach() > d.walk.size;
}

index_expr convolution_writer::place_in_input(std::size_t i, const index_expr& at) const {
  return index_expr::unknown(fmt::format("p{}", i)) + at * step_of_stage(i);
}

convolution_writer::value convolution_writer::input_element(const index_expr& c, const std::vector<index_expr>& at,
                                                            const std::optional<channel_bound>& exists) {
  std::vector<tile::condition> inside;
  for (std::size_t i = 0; i < at.size(); ++i)
    if (is_masked(i)) inside.push_back({place_in_input(i, at[i]), how::within, p_.dimensions[i].inputs()});
  if (exists) inside.push_back({exists->at, how::within, exists->count});
  if (!inside.empty()) b_.add({tile::test{k_inside, inside}});
  w_.define_nodes(b_, {front_.begin(), front_.end()},
                  [&](int n) { return loaded_input(n, c, at, !inside.empty(), exists.has_value()); });
  value out = w_.named(p_.input);
  // What lies outside is 0, whatever functions make of that.
  if (inside.empty() || w_.node(p_.input).kind == node_kind::load) return out;
  return value::operation(fmt::format("{} ? $0 : 0.0f", k_inside), {out}, dtype::float32, 1);
}

convolution_writer::value convolution_writer::loaded_input(int n, const index_expr& c,
                                                           const std::vector<index_expr>& at, bool masked,
                                                           bool bounded) const {
  const body_access& o = access_of(n);
  index_expr sum = c * stride(o, p_.in_channel);
  tile::mask mask{k_inside, {}};
  for (const int axis : p_.batch)
    sum = sum + row_index(axis) * stride(o, axis);
  for (const auto& d : o.divided)
    sum = sum + group() * d.outer_stride;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const int64_t by = place_stride(o, window_of(i));
    sum = sum + place_in_input(i, at[i]) * by;
    if (is_masked(i)) mask.strides.push_back(by);
  }
  if (bounded) mask.strides.push_back(stride(o, p_.in_channel));
  tile::access from = w_.place_of(n, at_, sum);
  if (masked) from.masked = std::move(mask);
  return value::element(from, w_.node(n).type);
}

// ---- results --------------------------------------------------------------------------------------------------------

index_expr convolution_writer::row_offset(const body_access& o) const {
  index_expr sum = 0;
  for (int d = 0; d < body_.dims(); ++d)
    sum = sum + row_index(d) * o.stride(d);
  return sum;
}

void convolution_writer::with_row(int axis, const index_expr& at, int64_t reached, const std::function<void()>& body) {
  if (axis < 0) return b_.guard(below(at, 1, reached), body);
  const index_expr i = b_.let(index_, fmt::format("i{}", axis), at.as(index_));
  b_.guard(below(i, extent(axis), reached), body);
}

index_expr convolution_writer::result_of(std::size_t i, const index_expr& place) const {
  const int64_t phases = p_.dimensions[i].phases();
  return phases == 1 ? place : place * phases + index_expr::variable(fmt::format("phase{}", i), phases);
}

void convolution_writer::with_outer_rows(const std::function<void()>& body) {
  const auto go = [&](std::size_t i, const auto& self) -> void {
    if (i == p_.dimensions.size()) return body();
    const auto& d = p_.dimensions[i];
    if (d.row < 0) return self(i + 1, self);
    if (p_.pools() && d.pool > 1) return with_row(d.row, tile_of(i), d.tiles(), [&] { self(i + 1, self); });
    with_row(d.row, result_of(i, tile_of(i)), d.tiles() * d.phases(), [&] { self(i + 1, self); });
  };
  if (p_.dimensions.size() <= k_first_outer) return body();
  go(k_first_outer, go);
}

void convolution_writer::write_channel(const index_expr& channel) {
  const index_expr number = group() * p_.out_channels + channel;
  std::vector<int64_t> extents;
  for (const int axis : p_.out_axes)
    extents.push_back(extent(axis));
  const auto at = split(number, extents);
  for (std::size_t i = 0; i < at.size(); ++i)
    b_.let(index_, fmt::format("i{}", p_.out_axes[i]), at[i].as(index_));
}

void convolution_writer::define(const std::vector<int>& nodes, const index_expr& place, const index_expr& channel) {
  for (const int n : nodes) {
    if (n == p_.sum)
      b_.define(w_.variable(n), value::element(sum_at(place, channel), dtype::float32), w_.node(n).value);
    else
      w_.define_nodes(b_, {n}, [&](int load) {
        return value::element(w_.place_of(load, at_, row_offset(access_of(load))), w_.node(load).type);
      });
  }
}

void convolution_writer::store_results(const std::function<bool(int result)>& is_stored) {
  for (int r = 0; r < static_cast<int>(body_.results.size()); ++r)
    if (is_stored(r))
      b_.store(tile::access{at_.results.at(r), {row_offset(body_.results[static_cast<std::size_t>(r)].target)}},
               w_.named(body_.results[static_cast<std::size_t>(r)].node));
}

void convolution_writer::write_element(const index_expr& place, const index_expr& channel) {
  define({behind_.begin(), behind_.end()}, place, channel);
  store_results([](int) { return true; });
}

void convolution_writer::write_row(const index_expr& place) {
  std::set<int> known;
  for (int pass = 0; pass < plan_.passes(); ++pass) {
    const pass_work work = plan_.work_of(pass, {});
    for (const int n : plan_.operands_of(work))
      define_of_row(n, known);
    for (const int n : work.reduced)
      b_.change(w_.variable(n), value::named(neutral(w_.node(n).reduction), w_.node(n).type));
    if (work.empty()) continue;
    b_.loop("q", p_.out_channels, tile::unrolling::whole, [&](const index_expr& q) {
      for (const int axis : p_.out_axes)
        b_.let(index_, fmt::format("i{}", axis), q.as(index_));
      define(work.elements, place, q);
      for (const int n : work.reduced)
        b_.add({tile::combine{w_.variable(n), {}, w_.node(n).reduction, w_.named(w_.node(n).operands[0])}});
      store_results([&](int r) { return std::ranges::count(work.results, r) > 0; });
    });
  }
  const auto is_of_row = [&](int r) { return plan_.is_row_result(body_.results[static_cast<std::size_t>(r)]); };
  for (int r = 0; r < static_cast<int>(body_.results.size()); ++r)
    if (is_of_row(r)) define_of_row(body_.results[static_cast<std::size_t>(r)].node, known);
  store_results(is_of_row);
}

// ---- pools ----------------------------------------------------------------------------------------------------------

void convolution_writer::declare_pooled(int64_t count) {
  const auto nodes = pooled_nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    pooled_.push_back(b_.array(fmt::format("pooled{}", i), dtype::float32, tile::space::registers, {count}));
    b_.loop("n", count, tile::unrolling::whole, [&](const index_expr& n) {
      b_.store(tile::access{pooled_[i], {n}}, value::named(neutral(w_.node(nodes[i]).reduction), dtype::float32));
    });
  }
}

void convolution_writer::each_pass(const std::function<void()>& pass) {
  const auto go = [&](std::size_t i, const auto& self) -> void {
    if (i == 0) return pass();
    if (!p_.is_in_passes(i)) return self(i - 1, self);
    const bool has_phases = p_.dimensions[i].phases() > 1;
    b_.loop(fmt::format("{}{}", has_phases ? "phase" : "place", i), p_.dimensions[i].pool, tile::unrolling::none,
            [&](const index_expr& at) {
              write_first_element(i, has_phases ? 0 : at);
              passes_.insert_or_assign(i, at);
              self(i - 1, self);
            });
  };
  go(p_.dimensions.size() - 1, go);
}

void convolution_writer::write_tap(std::size_t i, const index_expr& at) {
  if (const int axis = p_.dimensions[i].pool_axis; axis >= 0) b_.let(index_, fmt::format("i{}", axis), at.as(index_));
}

void convolution_writer::write_taps_of_pass() {
  for (const auto& [i, at] : passes_)
    write_tap(i, at);
}

void convolution_writer::join_element(const index_expr& place, const index_expr& channel, const index_expr& number) {
  const auto nodes = pooled_nodes();
  std::set<int> elements;
  for (const int n : nodes)
    reach(w_.node(n).operands[0], elements);
  define({elements.begin(), elements.end()}, place, channel);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    b_.add({tile::combine{
        {}, tile::access{pooled_[i], {number}}, w_.node(nodes[i]).reduction, w_.named(w_.node(nodes[i]).operands[0])}});
}

void convolution_writer::write_pooled(const index_expr& number) {
  const auto nodes = pooled_nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i)
    b_.define(w_.variable(nodes[i]), value::element(tile::access{pooled_[i], {number}}, dtype::float32),
              w_.node(nodes[i]).value);
  std::set<int> known;
  for (const auto& r : body_.results)
    define_of_row(r.node, known);
  store_results([](int) { return true; });
}

// ---- partial results ------------------------------------------------------------------------------------------------

void convolution_writer::with_channel_of(const thread_share& own, const index_expr& q,
                                         const std::function<void()>& body) {
  const index_expr of_group = b_.let("int", "channel", own.of_group(q));
  b_.guard(below(of_group, p_.out_channels, p_.parts_of_channels(channels_) * channels_), [&] {
    write_channel(index_expr::variable("channel", p_.out_channels));
    body();
  });
}

void convolution_writer::reduce_over_lanes(const std::string& variable, reduction_kind how, const value& of) {
  b_.change(variable, of);
  b_.add({tile::reduce_lanes{variable, dtype::float32, how, 32}});
}

index_expr convolution_writer::number_of_part(const thread_share& own) const {
  index_expr out = 0;
  for (std::size_t i = p_.dimensions.size(); i-- > 0;) {
    out = out * p_.dimensions[i].tiles() + tile_of(i);
    if (const int64_t phases = p_.phases_of_blocks(i); phases > 1)
      out = out * phases + index_expr::variable(fmt::format("phase{}", i), phases);
  }
  return out * own.warps + own.warp;
}

void convolution_writer::write_partials(const thread_share& own) {
  const auto element = [](tile::buffer_id of, const index_expr& q) {
    return value::element(tile::access{of, {q}}, dtype::float32);
  };
  const auto each_channel = [&](const std::function<void(const index_expr& q)>& body) {
    b_.loop("q", own.channels, tile::unrolling::whole, body);
  };
  const auto array = [&](const std::string& name, reduction_kind how) {
    const auto made = b_.array(name, dtype::float32, tile::space::registers, {own.channels});
    each_channel([&](const index_expr& q) {
      b_.store(tile::access{made, {q}}, value::named(neutral(how), dtype::float32));
    });
    return made;
  };
  const auto add_to = [&](tile::buffer_id of, const index_expr& q, reduction_kind how, const value& v) {
    b_.add({tile::combine{{}, tile::access{of, {q}}, how, v}});
  };
  // Where a block's phase has no results, its parts are those of no places.
  const auto each_place = [&](const std::function<void(const index_expr& place)>& body) {
    b_.scope([&] { with_outer_rows([&] { own.each_place(body); }); });
  };
  std::vector<tile::buffer_id> parts;
  for (const auto& p : cut_->partials)
    parts.push_back(array(fmt::format("part{}", parts.size()), p.how));
  const bool squares = cut_->count >= 0;
  if (squares) b_.change("places", value::named("0.0f", dtype::float32));
  each_place([&](const index_expr& place) {
    if (squares) b_.add({tile::combine{"places", {}, reduction_kind::sum, value::named("1.0f", dtype::float32)}});
    each_channel([&](const index_expr& q) {
      with_channel_of(own, q, [&] {
        define({behind_.begin(), behind_.end()}, place, own.of_sums(q));
        store_results([&](int r) { return r < cut_->first_partial; });
        for (std::size_t i = 0; i < parts.size(); ++i)
          add_to(parts[i], q, cut_->partials[i].how, w_.named(cut_->partials[i].node));
      });
    });
  });
  const index_expr part = b_.let("int", "part_of_places", number_of_part(own)), lane = thread_ % 32;
  const auto place_of = [&](int result, int64_t stride) {
    const body_access& target = body_.results[static_cast<std::size_t>(result)].target;
    return tile::access{at_.results.at(result), {row_offset(target) + part * stride}};
  };
  const value count = value::named("places", dtype::float32), all = value::named("all", dtype::float32);
  if (squares) {
    b_.add({tile::reduce_lanes{"places", dtype::float32, reduction_kind::sum, 32}});
    // Blocks of other channels store the same.
    b_.add({tile::store{place_of(cut_->count, 1), count, {{lane, how::equal, 0}}}});
  }
  // What a channel's places are reduced to is stored by the lane that has the channel's number.
  const auto store_reduced = [&](int result, tile::buffer_id of, reduction_kind how_reduced,
                                 const std::function<void(const index_expr& q)>& use) {
    const std::string name = fmt::format("stored{}", result);
    b_.change(name, value::named("0.0f", dtype::float32));
    each_channel([&](const index_expr& q) {
      reduce_over_lanes("all", how_reduced, element(of, q));
      const value is_own = value::of_index(lane, dtype::int32), number = value::of_index(q, dtype::int32);
      b_.add({tile::assign{
          name, value::operation("$0 == $1 ? $2 : $3", {is_own, number, all, value::named(name, dtype::float32)},
                                 dtype::float32, 2)}});
      if (use) use(q);
    });
    const index_expr q = b_.let("int", "of_lane", lane);
    b_.guard(below(q, own.channels, 32), [&] {
      with_channel_of(own, index_expr::variable("of_lane", own.channels), [&] {
        b_.store(place_of(result, p_.groups * p_.out_channels), value::named(name, dtype::float32));
      });
    });
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& p = cut_->partials[i];
    b_.scope([&] {
      store_reduced(p.result, parts[i], p.how, [&](const index_expr& q) {
        if (p.squares < 0) return;  // else the mean takes the sum's place
        b_.store(tile::access{parts[i], {q}},
                 value::operation("$0 / fmaxf($1, 1.0f)", {all, count}, dtype::float32, 8));
      });
    });
    if (p.squares < 0) continue;
    const auto around = array(fmt::format("around{}", i), reduction_kind::sum);
    std::set<int> of_element;
    reach(p.node, of_element);
    each_place([&](const index_expr& place) {
      each_channel([&](const index_expr& q) {
        with_channel_of(own, q, [&] {
          define({of_element.begin(), of_element.end()}, place, own.of_sums(q));
          b_.define("away", value::operation("$0 - $1", {w_.named(p.node), element(parts[i], q)}, dtype::float32, 1));
          const value away = value::named("away", dtype::float32);
          add_to(around, q, reduction_kind::sum, value::operation("$0 * $0", {away}, dtype::float32, 0));
        });
      });
    });
    b_.scope([&] { store_reduced(p.squares, around, reduction_kind::sum, {}); });
  }
}

void convolution_writer::define_of_row(int n, std::set<int>& known) {
  const body_node& of = w_.node(n);
  if (!of.per_row || of.kind == node_kind::reduce || !known.insert(n).second) return;
  for (const int o : of.operands)
    define_of_row(o, known);
  define({n}, 0, 0);
}

}  // namespace cudal1
