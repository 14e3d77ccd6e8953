#include "policy/codegen/cuda/cuda_row_group.hpp"

#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

const index_expr thread = index_expr::unknown("threadIdx.x");

}  // namespace

void cuda_row_group::write_row(const kernel_writer::tensors& tensors) {
  using how = tile::condition::how;
  const int64_t rows_of_body = w_->body().rows();
  const index_expr own = thread.as("int");
  const index_expr block = index_expr::unknown("blockIdx.x").as("int");
  index_expr lane = l_->lanes_over_rows ? own / l_->rows : own % l_->row_threads;
  if (l_->blocks > 1) lane = block % l_->blocks * l_->row_threads + lane;
  lane_ = b_->let("int", "lane", lane);
  index_expr row = block / l_->blocks;
  if (l_->rows > 1) row = row * l_->rows + (l_->lanes_over_rows ? own % l_->rows : own / l_->row_threads);
  if (guarded()) {
    const index_expr wanted = b_->let("int", "wanted", row);
    b_->add({tile::test{"live", {{wanted, how::below, rows_of_body}}}});
    row = index_expr::variable(fmt::format("live ? wanted : {}", rows_of_body - 1), rows_of_body);
  }
  b_->let("int", "row", row);
  write_row_indices();
  rows = w_->row_pointers(*b_, tensors, [this](const body_access& o) { return row_offset(o); });
}

// Where consecutive rows have a constant distance, the row number alone gives the offset: simple enough for the
// compiler to see alignment.
index_expr cuda_row_group::row_offset(const body_access& o) const {
  const auto& strides = o.strides;
  const auto dims = static_cast<std::size_t>(w_->body().row_dims());
  bool linear = dims > 0 && o.divided.empty();
  for (std::size_t d = 1; d < dims; ++d)
    linear = linear && strides[d - 1] == strides[d] * w_->body().extent(d);
  if (linear) return index_expr::variable("row", w_->body().rows()).as("long long") * strides[dims - 1];
  return offset_in(o, row_);
}

void cuda_row_group::live(const std::function<void()>& body) {
  if (guarded())
    b_->guard({}, {"live"}, body);
  else
    body();
}

void cuda_row_group::first(const std::function<void()>& body) {
  std::vector<tile::condition> all;
  if (l_->lanes() > 1) all.push_back({index_expr::unknown("lane"), tile::condition::how::equal, 0});
  b_->guard(std::move(all), guarded() ? std::vector<std::string>{"live"} : std::vector<std::string>{}, body);
}

// Combines the elements of a vector pairwise.
void cuda_row_group::combine_vector(const group_value& v) {
  for (int64_t half = l_->width / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i)
      b_->add({tile::combine{"", tile::access{v.parts, {i}}, v.how,
                             tile::value::element({v.parts, {i + half}}, v.accumulator)}});
}

void cuda_row_group::combine_warp(const group_value& v, int64_t lanes) {
  b_->add({tile::reduce_lanes{"sum_" + v.name, v.accumulator, v.how, lanes}});
}

void cuda_row_group::write_reductions(const std::vector<group_value>& values) {
  for (const auto& v : values) {
    combine_vector(v);
    b_->change("sum_" + v.name, tile::value::element({v.parts, {0}}, v.accumulator));
    if (!l_->lanes_over_rows) combine_warp(v, std::min<int64_t>(l_->row_threads, 32));
  }
  if (!values.empty() && l_->row_threads > (l_->lanes_over_rows ? 1 : 32)) combine_shared(values);
  if (!values.empty() && l_->blocks > 1) combine_cluster(values);
  for (const auto& v : values) {
    const auto sum = tile::value::named("sum_" + v.name, v.accumulator);
    b_->define(v.name, v.type == v.accumulator
                           ? sum
                           : tile::value::operation(fmt::format("({})$0", c_type(v.type)), {sum}, v.type, 1));
  }
}

void cuda_row_group::combine_shared(const std::vector<group_value>& values) {
  std::vector<tile::buffer_id> shared;
  for (const auto& v : values) {
    shared.push_back(b_->array("shared_" + v.name, v.accumulator, tile::space::shared,
                               {l_->lanes_over_rows ? l_->threads() : l_->threads() / 32}));
    const auto sum = tile::value::named("sum_" + v.name, v.accumulator);
    if (l_->lanes_over_rows)
      b_->store({shared.back(), {thread}}, sum);
    else
      b_->add({tile::store{{shared.back(), {thread / 32}}, sum, {{thread % 32, tile::condition::how::equal, 0}}}});
  }
  b_->barrier();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const group_value& v = values[i];
    const auto of_other = [&](const index_expr& at) { return tile::value::element({shared[i], {at}}, v.accumulator); };
    if (l_->lanes_over_rows) {
      b_->add({tile::assign{"sum_" + v.name, of_other(thread % l_->rows)}});
      tile::block body;
      body.push_back(
          {tile::define{"other", of_other(index_expr::variable("k", l_->row_threads) * l_->rows + thread % l_->rows)}});
      body.push_back({tile::combine{"sum_" + v.name, {}, v.how, tile::value::named("other", v.accumulator)}});
      b_->add({tile::loop{"k", l_->row_threads, tile::unrolling::whole, std::move(body), 1}});
    } else {
      index_expr at = thread % warps();
      if (l_->rows > 1) at = thread / l_->row_threads * warps() + at;
      b_->add({tile::assign{"sum_" + v.name, of_other(at)}});
      combine_warp(v, warps());
    }
  }
}

// Each block's sum lies in its shared memory, for one lane of every warp of the cluster.
void cuda_row_group::combine_cluster(const std::vector<group_value>& values) {
  std::vector<std::string> shared;
  for (const auto& v : values) {
    shared.push_back("block_" + v.name);
    const auto own = b_->array(shared.back(), dtype::float32, tile::space::shared, {1});
    b_->add({tile::store{
        {own, {0}}, tile::value::named("sum_" + v.name, dtype::float32), {{thread, tile::condition::how::equal, 0}}}});
  }
  b_->add({tile::barrier{tile::barrier::among::cluster}});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const group_value& v = values[i];
    b_->add({tile::assign{"sum_" + v.name, tile::value::operation(fmt::format("load_cluster(&{}[0], {})", shared[i],
                                                                              (thread % l_->blocks).text()),
                                                                  {}, dtype::float32, 1)}});
    combine_warp(v, l_->blocks);
  }
}

void cuda_row_group::end() {
  if (l_->blocks > 1) b_->add({tile::barrier{tile::barrier::among::cluster}});
}

void cuda_row_group::declare_scan(int node) {
  const std::string& name = w_->variable(node);
  b_->change("before_" + name, tile::value::named("0.0", dtype::float64));
  if (!l_->lanes_over_rows && warps() > 1) {
    // Double-buffered: a warp may write the next round's totals while another still reads this round's.
    line(fmt::format("__shared__ float totals_{}[2][{}];", name, l_->threads() / 32));
    b_->change("turn_" + name, tile::value::named("0", dtype::int32));
  }
}

tile::buffer_id cuda_row_group::open_scan(int node) {
  const auto run = b_->array("run_" + w_->variable(node), dtype::float32, tile::space::registers, {l_->width});
  for (int64_t l = 0; l < l_->width; ++l)
    b_->store({run, {l}}, tile::value::named("0.0f", dtype::float32));
  return run;
}

void cuda_row_group::close_scan(int node) {
  const std::string& name = w_->variable(node);
  for (int64_t l = 1; l < l_->width; ++l)
    line(fmt::format("run_{0}[{1}] = run_{0}[{2}] + run_{0}[{1}];", name, l, l - 1));
  const std::string own = fmt::format("run_{}[{}]", name, l_->width - 1), ahead = "ahead_" + name;
  if (l_->row_threads == 1) {
    line(fmt::format("const float ahead_{0} = (float)before_{0};", name), {ahead});
    line(fmt::format("before_{} += (double){};", name, own));
    return;
  }
  const int64_t lanes = std::min<int64_t>(l_->row_threads, 32);
  line(fmt::format("const int at_{} = lane % {};", name, lanes));
  line(fmt::format("float up_{} = {};", name, own));
  line("#pragma unroll");
  line(fmt::format("for (int d = 1; d < {}; d *= 2) {{", lanes));
  line(fmt::format("  const float other = __shfl_up_sync(0xffffffffu, up_{}, d, {});", name, lanes));
  line(fmt::format("  if (at_{0} >= d) up_{0} = other + up_{0};", name));
  line("}");
  line(fmt::format("float left_{0} = __shfl_up_sync(0xffffffffu, up_{0}, 1, {1});", name, lanes));
  line(fmt::format("if (at_{0} == 0) left_{0} = 0.0f;", name));
  if (l_->row_threads <= 32) {
    line(fmt::format("const float total_{0} = __shfl_sync(0xffffffffu, up_{0}, {1}, {2});", name, lanes - 1, lanes));
    line(fmt::format("const float warp_{} = 0.0f;", name));
  } else {
    const std::string first = l_->rows == 1 ? "" : fmt::format("threadIdx.x / {} * {} + ", l_->row_threads, warps());
    line(fmt::format("if (at_{0} == 31) totals_{0}[turn_{0}][threadIdx.x / 32] = up_{0};", name));
    b_->barrier();
    line(fmt::format("float total_{0} = 0.0f, warp_{0} = 0.0f;", name));
    line("#pragma unroll");
    line(fmt::format("for (int k = 0; k < {}; ++k) {{", warps()));
    line(fmt::format("  if (k == lane / 32) warp_{0} = total_{0};", name));
    line(fmt::format("  total_{0} += totals_{0}[turn_{0}][{1}k];", name, first));
    line("}");
    line(fmt::format("turn_{0} ^= 1;", name));
  }
  line(fmt::format("const float ahead_{0} = (float)(before_{0} + (double)(warp_{0} + left_{0}));", name), {ahead});
  line(fmt::format("before_{0} += (double)total_{0};", name));
}

}  // namespace cudal1
