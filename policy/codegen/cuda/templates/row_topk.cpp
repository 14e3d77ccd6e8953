#include "policy/codegen/cuda/templates/row_topk.hpp"

#include <algorithm>
#include <cmath>

#include "policy/graph/alignment.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most = 64;     // elements: two a lane
constexpr int64_t k_waiting = 64;  // places of a warp for what keep_ranks gathers
constexpr int64_t k_block = 128;   // threads, where several rows share a block
constexpr int64_t k_most_rows = int64_t{1} << 30, k_most_columns = int64_t{1} << 30;
constexpr int64_t k_looked_at = 32;          // elements of a thread that keep_ranks takes at once
constexpr double k_look = 3, k_merge = 500;  // instructions for an element that is too small, and of a merge of 32

struct row_shape {
  int64_t rows = 1, columns = 0, k = 0;
  bool largest = true;
  dtype type = dtype::float32;
  bool is_aligned = false;  // the first row, to 16 bytes
};

row_shape shape_of(const graph& g, const graph_step& s) {
  const std::string values = g.resolve(*tensor_argument_name(s, "self"));
  const tensor_type& x = g.type_of(values);
  row_shape out;
  out.columns = x.shape.empty() ? 0 : x.shape.back();
  for (std::size_t d = 0; d + 1 < x.shape.size(); ++d)
    out.rows *= x.shape[d];
  out.k = *integer_argument(s, "k");
  out.largest = *boolean_argument(s, "largest");
  out.type = x.type;
  out.is_aligned = starts_aligned(g, values);
  return out;
}

expected<void> fits(const graph& g, const graph_step& s) {
  if (s.task_op() != "aten::topk") return fail(errc::unsupported, "step {} ({}) is no top-k", s.number, s.task_op());
  const tensor_type& x = g.type_of(g.resolve(*tensor_argument_name(s, "self")));
  const row_shape r = shape_of(g, s);
  const int64_t dim = *integer_argument(s, "dim");
  const auto no = [&](std::string_view why) {
    return fail(errc::unsupported, "step {} ({}) stays a library call: {}", s.number, s.task_op(), why);
  };
  if (computed_in(x.type) != dtype::float32) return no(fmt::format("its elements are {}", name_of(x.type)));
  if (!x.is_contiguous() || x.dim() == 0 || (dim != -1 && dim != x.dim() - 1)) return no("its rows are not contiguous");
  if (r.rows == 0 || r.rows > k_most_rows || r.columns > k_most_columns)
    return no("it has no rows, or too many or too long ones");
  if (r.k < 1 || r.k > k_most) return no(fmt::format("k is not from 1 to {}", k_most));
  if (!*boolean_argument(s, "sorted")) return no("it asks for an unsorted result, whose order is not defined");
  return {};
}

// How the work is divided: warps that share a row, rows of a block, and what a thread reads in a round.
struct division {
  int64_t warps = 1, rows = 1, width = 1, vectors = 1;
  int64_t round(int64_t threads_of_row) const { return threads_of_row * width * vectors; }
};

division divided(const row_shape& r, const tunable_values& chosen) {
  const auto value = [&](const char* name, int64_t otherwise) {
    const auto found = chosen.find(name);
    return found == chosen.end() ? otherwise : found->second;
  };
  division d;
  const int64_t widest = is_half(r.type) ? 8 : 4;
  for (d.width = widest; d.width > 1 && (!r.is_aligned || r.columns % d.width != 0); d.width /= 2) {
  }
  int64_t warps = 1;  // about a thousand elements a warp
  while (warps < 32 && r.columns > 2048 * warps)
    warps *= 2;
  d.warps = value("warps", warps);
  d.rows = d.warps > 1 ? 1 : k_block / 32;
  d.vectors = value("vectors", std::clamp<int64_t>(16 / d.width, 1, 8));
  return d;
}

class topk_writer {
 public:
  topk_writer(const row_shape& r, const division& d)
      : r_(r),
        d_(d),
        warps_(d.warps * d.rows),
        kept_((r.k + 31) / 32),
        b_(32 * warps_, (r.rows + d.rows - 1) / d.rows) {}

  template_kernel write() {
    using tile::value;
    const auto x = b_.tensor("x", r_.type, r_.rows * r_.columns);
    const auto values = b_.tensor("values", r_.type, r_.rows * r_.k);
    const auto places = b_.tensor("places", dtype::int64, r_.rows * r_.k);
    const auto waiting = b_.array("waiting", dtype::int64, tile::space::warp_shared, {warps_, k_waiting});
    const index_expr thread = index_expr::variable("threadIdx.x", 32 * warps_);
    const auto own = b_.let("int", {{"lane", thread % 32}, {"warp", thread / 32}});
    const index_expr row = write_row(own[1]);
    kept_buffer_ = b_.array("kept", dtype::int64, tile::space::registers, {kept_});
    each_kept([&](const index_expr& q) {
      b_.store({kept_buffer_, {q}}, value::operation("no_rank()", {}, dtype::int64, 1));
    });
    b_.add({tile::define{"limit", value::operation("no_rank()", {}, dtype::int64, 1), {}, true}});
    b_.add({tile::define{"count", value::named("0", dtype::int32), {}, true}});
    read_row(x, waiting, row, d_.warps > 1 ? thread : own[0]);
    b_.add({tile::call{value::operation("merge_waiting_ranks(kept, waiting[warp], count)", {}, dtype::int32, k_merge),
                       {kept_buffer_}}});
    if (d_.warps > 1) {
      const auto found = b_.array("found", dtype::int64, tile::space::shared, {warps_ * 32 * kept_});
      b_.add({tile::call{value::operation(fmt::format("merge_ranks_of_warps(kept, found, {})", warps_), {},
                                          dtype::int32, k_merge * std::log2(static_cast<double>(warps_))),
                         {kept_buffer_, found}}});
    }
    write_results(x, values, places, row, own);
    return {fmt::format("the {} {} of each row of {} elements, with their places", r_.k,
                        r_.largest ? "greatest" : "smallest", r_.columns),
            std::move(b_).finish(),
            {{x, "self"}},
            {values, places}};
  }

 private:
  // Warps beyond the last row take that one, and write nothing.
  index_expr write_row(const index_expr& warp) {
    const index_expr block = index_expr::unknown("blockIdx.x").as("int");
    if (d_.rows == 1) return b_.let("int", "row", block).as("long long");
    row_of_warp_ = b_.let("int", "row_of_warp", block * d_.rows + warp);
    return b_.let("int", "row", index_expr::variable(fmt::format("min(row_of_warp, {})", r_.rows - 1), r_.rows))
        .as("long long");
  }

  void each_kept(const std::function<void(const index_expr& q)>& body) {
    b_.loop("q", kept_, tile::unrolling::whole, body);
  }

  void read_row(tile::buffer_id x, tile::buffer_id waiting, const index_expr& row, const index_expr& thread) {
    using tile::value;
    const int64_t threads = 32 * d_.warps, elements = d_.width * d_.vectors;
    const int64_t rounds = (r_.columns + d_.round(threads) - 1) / d_.round(threads);
    b_.loop("round", rounds, tile::unrolling::none, [&](const index_expr& round) {
      const auto read = b_.array("read", r_.type, tile::space::registers, {elements});
      const int64_t vectors = r_.columns / d_.width;  // of a row
      const index_expr first = b_.let("int", "first", round * (d_.vectors * threads) + thread);
      b_.loop("v", d_.vectors, tile::unrolling::whole, [&](const index_expr& v) {
        const index_expr vector = b_.let("int", "vector", first + v * threads);
        std::vector<tile::condition> inside;
        if (r_.columns % d_.round(threads) != 0) inside.push_back({vector, tile::condition::how::below, vectors});
        b_.guard(std::move(inside), [&] {
          const index_expr at = row * r_.columns + index_expr::variable("vector", vectors) * d_.width;
          b_.load(read, v * d_.width, {x, {at}}, d_.width, 1,
                  d_.width > 1 ? tile::access_form::vector : tile::access_form::scalar);
        });
      });
      const double merges = static_cast<double>(r_.k) *
                            (1 + std::log(1 + static_cast<double>(r_.columns) / static_cast<double>(d_.warps * r_.k))) /
                            32 / static_cast<double>(rounds);
      b_.add({tile::call{
          value::operation(fmt::format("keep_ranks<{}, {}>(kept, limit, waiting[warp], count, read, $0, {}, {}, {})",
                                       r_.largest, d_.width, threads * d_.width, r_.columns, r_.k),
                           {value::of_index(first * d_.width, dtype::int32)}, dtype::int32,
                           k_look * static_cast<double>(elements) + merges * k_merge),
          {kept_buffer_, waiting}}});
    });
  }

  void write_results(tile::buffer_id x, tile::buffer_id values, tile::buffer_id places, const index_expr& row,
                     const std::vector<index_expr>& own) {
    using tile::value;
    using how = tile::condition::how;
    std::vector<tile::condition> writes;
    if (d_.warps > 1) writes.push_back({own[1], how::below, 1});
    if (d_.rows > 1 && r_.rows % d_.rows != 0) writes.push_back({*row_of_warp_, how::below, r_.rows});
    b_.guard(std::move(writes), [&] {
      each_kept([&](const index_expr& q) {
        const index_expr rank = b_.let("int", "rank", q * 32 + own[0]);
        b_.guard({{rank, how::below, r_.k}}, [&] {
          const index_expr at = row * r_.k + index_expr::variable("rank", r_.k);
          b_.define("place", value::operation("place_of_rank($0)", {value::element({kept_buffer_, {q}}, dtype::int64)},
                                              dtype::int32, 2));
          const tile::gather chosen{std::make_shared<value>(value::named("place", dtype::int32)), r_.columns, 1};
          b_.store({values, {at}}, value::element({x, {row * r_.columns}, chosen}, dtype::float32));
          b_.store({places, {at}}, value::named("place", dtype::int64));
        });
      });
    });
  }

  row_shape r_;
  division d_;
  int64_t warps_, kept_;
  tile::kernel_builder b_;
  tile::buffer_id kept_buffer_ = 0;
  std::optional<index_expr> row_of_warp_;
};

expected<template_kernel> write(const graph& g, const graph_step& s, const tunable_values& chosen) {
  const row_shape r = shape_of(g, s);
  const division d = divided(r, chosen);
  if (d.warps > 1 && d.warps * 32 > r.columns)
    return fail(errc::unsupported, "{} warps would share rows of {} elements", d.warps, r.columns);
  if (d.width * d.vectors > k_looked_at)
    return fail(errc::unsupported, "{} vectors of {} elements are more than {}", d.vectors, d.width, k_looked_at);
  return topk_writer(r, d).write();
}

}  // namespace

kernel_template row_topk() {
  return {.name = "row_topk",
          .summary = "the k greatest or smallest of each row, k up to 64: warps keep them sorted in registers",
          .tunables = {{"warps", {1, 2, 4, 8, 16, 32}}, {"vectors", {1, 2, 4, 8}}},
          .fits = fits,
          .write = write};
}

}  // namespace cudal1
