// The part of a product's kernel that computes whole rows of its tile, or of those of a cluster: softmax, norms,
// reductions.
#include <algorithm>
#include <bit>

#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"

namespace cudal1 {

void product_writer::write_tile_to(tile::buffer_id memory, int64_t m_fragments, int64_t n_fragments) {
  const index_expr first_row = t_.slices == 1 ? var("warp_row") : var("slice") * t_.rows + var("warp_row");
  each_of_fragments(m_fragments, n_fragments, [&](const std::vector<index_expr>& at) {
    const index_expr &r = at[0], &c = at[1], &e = at[2];
    const index_expr row = first_row + r * 16 + var("group") + e / 2 * 8;
    b_.store({memory, {row * line_of_sums(t_) + var("warp_column") + c * 8 + var("quad") * 2 + e % 2}},
             float_at(sum_at(at)));
  });
  b_.barrier();
}

product_writer::row_shares product_writer::shares_of_rows() const {
  const int64_t columns = w_.body().columns();
  row_shares out;
  out.rows = t_.shares_rows() ? t_.rows_of_block() : t_.rows * std::min(t_.own_columns(), t_.b.size) / columns;
  constexpr int64_t k_most_elements = 32;  // of a lane: they are in registers
  const auto power_of_two = [](int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); };
  const int64_t most = std::min<int64_t>(32, power_of_two(columns));
  const int64_t least = std::min(most, power_of_two((columns + k_most_elements - 1) / k_most_elements));
  const int64_t of_all_rows = power_of_two(threads_ / out.rows + 1) / 2;
  out.lanes = std::clamp(of_all_rows, least, most);
  out.elements = (columns + out.lanes - 1) / out.lanes;
  out.at_once = threads_ / out.lanes;
  out.is_partial = columns % out.lanes != 0;
  return out;
}

// Over the elements of its row that the thread has.
void product_writer::each_element(const row_shares& shares, const body& each) {
  unrolled("k", shares.elements, [&](const index_expr& k) {
    b_.let("int", "at", var("row_lane") + k * shares.lanes);
    std::vector<tile::condition> exists;
    if (shares.is_partial) exists.push_back({var("at"), tile::condition::how::below, w_.body().columns()});
    k_ = k;
    b_.guard(std::move(exists), each);
  });
}

// The thread's row. Rows and columns that do not exist are computed as the last ones, and not stored.
void product_writer::write_place_in_rows(const row_shares& shares) {
  const int64_t columns = w_.body().columns(), in_line = t_.shares_rows() ? 1 : shares.rows / t_.rows;
  index_expr of_tile = var("next") + var("thread") / shares.lanes;
  std::vector<tile::condition> live;
  const auto require = [&](const index_expr& what, int64_t count) {
    live.push_back({what, tile::condition::how::below, count});
  };
  if (shares.rows % shares.at_once != 0) {
    require(of_tile, shares.rows);
    of_tile = index_expr::min(of_tile, shares.rows - 1);
  }
  b_.let("int", "of_tile", of_tile);
  b_.let("int", {{"tile_row", var("of_tile") / in_line},
                 {"tile_column", in_line == 1 ? index_expr(0) : var("of_tile") % in_line * columns}});
  index_expr row = var("first_row") + var("tile_row");
  index_expr begin = t_.shares_rows() ? index_expr(0) : var("first_column") + var("tile_column");
  if (t_.shares_rows()) {
    const index_expr in_cluster = var("rank") * t_.rows_of_block() + var("tile_row");
    if (t_.rows % t_.row_blocks != 0) require(in_cluster, t_.rows);
    row = var("first_row") + in_cluster;
  }
  if (has_partial_tile(t_.a, t_.rows)) require(row, t_.a.size);
  // The last block of a cluster may have fewer rows than the others.
  if (has_partial_tile(t_.a, t_.rows) || (t_.shares_rows() && t_.rows % t_.row_blocks != 0))
    row = index_expr::min(row, t_.a.size - 1);
  if (t_.b.size > columns && has_partial_tile(t_.b, t_.own_columns())) {
    require(begin, t_.b.size);
    begin = index_expr::min(begin, t_.b.size - columns);
  }
  b_.add({tile::test{"live", live}});
  b_.let("int", {{"row", row}, {"begin_of_row", begin}});
}

// Reads what the row needs from memory at once: each pass would wait for its own.
void product_writer::write_loads_of_row(const row_shares& shares) {
  const auto loads = w_.direct_loads();
  write_row_values(loads.by_row);
  if (!declare_prefetched(loads.by_element, shares.elements)) return;
  each_element(shares, [&] {
    write_column();
    write_prefetch(loads.by_element);
  });
}

void product_writer::write_column() {
  b_.let("int", "column", var("begin_of_row") + var("at"));
}

void product_writer::write_sums_of_row(tile::buffer_id memory, const row_shares& shares) {
  products_of_row_ = registers("product", dtype::float32, shape_of_products({shares.elements}));
  each_element(shares, [&] {
    for (int p = 0; p < t_.products; ++p) {
      const tile::access sum = each_of(products_of_row_, {k_})(p);
      if (t_.shares_rows()) {
        const index_expr row = var("tile_row") + p * t_.rows_of_block();
        b_.store(sum, float_at({rows_of_block_, {row * w_.body().columns() + var("at")}}));
        continue;
      }
      b_.store(sum, value::named("0.0f", dtype::float32));
      unrolled("s", t_.slices, [&](const index_expr& s) {
        const index_expr at =
            (s * t_.rows + var("tile_row")) * line_of_sums(t_) + tile_column_of(p, var("tile_column") + var("at"));
        b_.add({tile::combine{"", sum, reduction_kind::sum, float_at({memory, {at}})}});
      });
    }
  });
}

product_writer::product_place product_writer::write_totals(tile::buffer_id memory) {
  product_place total = each_of(registers("total", dtype::float32, shape_of_products()));
  const auto of_slice = [&](const index_expr& row, int p) {
    const index_expr column = tile_column_of(p, var("tile_column"));
    return float_at({memory, {row * line_of_sums(t_) + column}});
  };
  for (int p = 0; p < t_.products; ++p) {
    b_.store(total(p), of_slice(var("tile_row"), p));
    const index_expr s = t_.slices > 2 ? index_expr::variable("s", t_.slices) : var("s");
    b_.loop(tile::loop{"s", t_.slices, tile::unrolling::whole, {}, 1}, [&] {
      b_.add({tile::combine{"", total(p), reduction_kind::sum, of_slice(s * t_.rows + var("tile_row"), p)}});
    });
  }
  return total;
}

void product_writer::write_start_of_cluster() {
  if (t_.shares_rows()) b_.add({tile::barrier{tile::barrier::among::cluster}});
}

void product_writer::write_exchange_of_rows(tile::buffer_id memory) {
  constexpr int64_t k_most_unrolled = 8;
  const int64_t columns = w_.body().columns(), elements = t_.rows * t_.own_columns();
  rows_of_block_ = b_.view("rows_of_block", memory, dtype::float32, place_of_shared_rows(t_) / 4,
                           tile::pointee::written, tile::space::shared, "as a whole");
  const index_expr i = index_expr::variable("i", elements);
  tile::loop over{"i", elements, tile::unrolling::some, {}, var("thread"), threads_};
  over.unrolled_steps = std::min(k_most_unrolled, elements_of_thread());
  b_.loop(std::move(over), [&] {
    b_.let("int", {{"tile_row", i / t_.own_columns()}, {"tile_column", i % t_.own_columns()}});
    const bool partial = has_partial_tile(t_.b, t_.own_columns());
    where(partial ? fmt::format("first_column + tile_column < {}", columns) : "", [&] {
      const product_place total = write_totals(memory);
      for (int p = 0; p < t_.products; ++p) {
        const index_expr row = var("tile_row") % t_.rows_of_block() + p * t_.rows_of_block();
        const index_expr place = row * columns + var("first_column") + var("tile_column");
        b_.add({tile::call{value::operation(
            fmt::format("store_cluster(&rows_of_block[{}], tile_row / {}, $0)", place.text(), t_.rows_of_block()),
            {float_at(total(p))}, dtype::int32, 1)}});
      }
    });
  });
  b_.add({tile::barrier{tile::barrier::among::cluster}});
}

void product_writer::write_row_values(const std::vector<int>& nodes) {
  for (const int n : nodes)
    w_.define_row_value(b_, n, known_rows_, [this](int load) { return loaded_element(load, "begin_of_row"); });
}

void product_writer::write_pass(const pass_plan& plan, int pass, const row_shares& shares) {
  std::set<int> kept;
  for (const auto& [n, array] : kept_)
    kept.insert(n);
  const pass_work work = plan.work_of(pass, kept);
  if (work.empty()) return;
  std::map<int, tile::buffer_id> stored_now;
  for (const int n : plan.worth_keeping(work, pass, kept, keeping::costly_or_joined))
    stored_now[n] = registers(w_.variable(n) + "_k", w_.node(n).type, {shares.elements});
  write_row_values(plan.operands_of(work));
  const auto part = [&](int n) { return "part_" + w_.variable(n); };
  for (const int n : work.reduced)
    b_.change(part(n), value::named(neutral(w_.node(n).reduction), w_.node(n).type));
  each_element(shares, [&] {
    write_column();
    write_values(work.elements, each_of(products_of_row_, {k_}));
    for (const auto& [n, array] : stored_now)
      b_.store({array, {k_}}, w_.named(n));
    for (const int n : work.reduced)
      b_.add({tile::combine{part(n), {}, w_.node(n).reduction, w_.named(w_.node(n).operands[0])}});
    if (work.results.empty()) return;
    b_.guard({}, {"live"}, [&] {
      for (const int r : work.results)
        write_store(r, "column");
    });
  });
  for (const int n : work.reduced) {
    b_.add({tile::reduce_lanes{part(n), w_.node(n).type, w_.node(n).reduction, shares.lanes}});
    b_.define(w_.variable(n), value::named(part(n), w_.node(n).type), w_.node(n).value);
  }
  kept_.insert(stored_now.begin(), stored_now.end());
}

void product_writer::write_row_results(const pass_plan& plan) {
  const auto& results = w_.body().results;
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (!plan.is_row_result(results[r])) continue;
    write_row_values({results[r].node});
    b_.guard({{var("row_lane"), tile::condition::how::equal, 0}}, {"live"},
             [&] { write_store(static_cast<int>(r), "begin_of_row"); });
  }
}

void product_writer::prefetch_rows() {
  const row_shares shares = shares_of_rows();
  let_all({{"row_lane", var("thread") % shares.lanes}}, "first element of a row");
  if (shares.rounds() > 1) return;
  b_.let("int", "next", 0);
  write_place_in_rows(shares);
  write_loads_of_row(shares);
}

void product_writer::write_row_epilogue_of_stages(int64_t m_fragments, int64_t n_fragments) {
  b_.add({tile::wait_for_copies{0}});
  b_.barrier();
  const tile::buffer_id memory =
      t_.loop->stages_of_floats ? stages_ : b_.view("results", stages_, dtype::float32, 0, tile::pointee::written);
  write_tile_to(memory, m_fragments, n_fragments);
  write_row_epilogue(memory);
}

void product_writer::write_row_epilogue(tile::buffer_id memory) {
  const pass_plan plan(w_.body());
  if (t_.shares_rows()) write_exchange_of_rows(memory);
  const row_shares shares = shares_of_rows();
  const auto one_round = [&] {
    write_sums_of_row(memory, shares);
    for (int pass = 0; pass < plan.passes(); ++pass)
      write_pass(plan, pass, shares);
    write_row_results(plan);
  };
  if (shares.rounds() == 1) return one_round();
  b_.loop(tile::loop{"next", shares.rows, tile::unrolling::none, {}, 0, shares.at_once}, [&] {
    write_place_in_rows(shares);
    write_loads_of_row(shares);
    one_round();
  });
}

}  // namespace cudal1
