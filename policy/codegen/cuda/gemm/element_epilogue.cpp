// The part of a product's kernel that computes the epilogue per element and stores the results: one by one, two, four
// or eight neighbouring ones at once.
#include <algorithm>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

// Whether so many neighbouring columns are neighbours in the result's memory, too, at a multiple of their number.
bool product_writer::in_vectors(const body_access& o, int64_t width) const {
  const auto even = [&](const std::vector<int>& dims, int but) {
    return std::ranges::all_of(dims,
                               [&](int d) { return d == but || o.strides[static_cast<std::size_t>(d)] % width == 0; });
  };
  const bool has_vectors = o.type.type == dtype::float32 || is_half(o.type.type);
  if (!has_vectors || t_.b.dims.empty() || !o.aligned || o.offset % width != 0) return false;
  const int inner = t_.b.dims.back();
  const int64_t elements = t_.batches * t_.a.size * t_.b.size;  // from one part of k to the next
  return o.strides[static_cast<std::size_t>(inner)] == 1 &&
         w_.body().extent(static_cast<std::size_t>(inner)) % width == 0 && even(t_.a.dims, -1) && even(t_.batch, -1) &&
         even(t_.b.dims, inner) && (t_.parts == 1 || elements % width == 0);
}

bool product_writer::stores_lines() const {
  constexpr int64_t k_least_blocks = 4 * large_gpu_processors, k_most_k = 256;
  const auto& results = w_.body().results;
  return t_.slices == 1 && t_.blocks >= k_least_blocks && t_.part_k <= k_most_k && results.size() == 1 &&
         results[0].target.type.type == dtype::float32 && in_vectors(results[0].target, 4);
}

index_expr product_writer::place(const body_access& target, const char* column) const {
  const index_expr out = element(target, column);
  return t_.parts > 1 ? out + var("part") * (t_.batches * t_.a.size * t_.b.size) : out;
}

void product_writer::write_values(const std::vector<int>& nodes, const product_place& product) {
  for (const int n : nodes) {
    const body_node& from = w_.node(n);
    if (!w_.is_needed(n) || from.kind == node_kind::constant) continue;
    const auto is = [&] {
      if (kept_.contains(n)) return value::element(kept_at(kept_, n), from.type);
      if (prefetched_.contains(n)) return value::element(kept_at(prefetched_, n), from.type);
      if (from.kind == node_kind::load) return loaded_element(n, "column");
      if (from.kind == node_kind::contraction) return value::element(product(of_.number_of(n)), from.type);
      return w_.expression(n, kernel_writer::value_of_node());
    };
    b_.define(w_.variable(n), is(), from.value);
  }
}

void product_writer::write_pair(const body_result& r, std::size_t number, result_stores how, tile::buffer_id lines) {
  tile::access to{at_.results.at(static_cast<int>(number)), {place(r.target, "first")}};
  if (how == result_stores::by_lines)
    to = {lines, {(var("group") + var("below") * 8) * line_of_results() + var("c") * 8 + var("quad") * 2}};
  const bool is_half_pair = size_of(r.target.type.type) == 2;
  to.words = tile::words{is_half_pair ? "unsigned" : "float2", 2};
  const auto of_pair = [&](int64_t i) { return value::element({pairs_[number], {i}}, dtype::float32); };
  b_.store(to, value::operation(is_half_pair ? "$0 | (unsigned)$1 << 16" : "make_float2($0, $1)",
                                {of_pair(0), of_pair(1)}, dtype::int32, 1));
}

// The 16 rows of the warp's tile that are in shared memory.
void product_writer::write_lines(const body_result& r, tile::buffer_id lines) {
  const int64_t in_line = t_.warp_own_columns() / 4;
  b_.add({tile::barrier{tile::barrier::among::warp}});
  const index_expr i = index_expr::variable("i", 16 * in_line);
  b_.loop(tile::loop{"i", 16 * in_line, tile::unrolling::whole, {}, var("lane"), 32}, [&] {
    b_.let("int", "row", var("first_row") + var("warp_row") + var("r") * 16 + i / in_line);
    b_.let("int", "column", var("first_column") + warp_own_column() + i % in_line * 4);
    b_.guard(existence("column"), [&] {
      tile::access to{at_.results.at(0), {place(r.target, "column")}},
          from{lines, {i / in_line * line_of_results() + i % in_line * 4}};
      to.words = from.words = tile::words{"float4", 4};
      b_.store(to, value::element(from, dtype::float32));
    });
  });
  b_.add({tile::barrier{tile::barrier::among::warp}});
}

// Whether the results are of half types, and each lane can store eight neighbouring ones: two are less than the memory
// takes at once, and storing them so takes three times as long.
bool product_writer::stores_eight(int64_t n_fragments) const {
  return n_fragments % 4 == 0 && std::ranges::all_of(w_.body().results, [&](const body_result& r) {
           return is_half(r.target.type.type) && in_vectors(r.target, 8);
         });
}

product_writer::product_place product_writer::in_fragment(int64_t n_fragments) const {
  return [this, n_fragments](int product) {
    return sum_at({var("r"), var("c") + product * n_fragments, var("below") * 2 + var("next")});
  };
}

// The two values of the lane's place in a fragment, for each result.
void product_writer::write_pair_values(int64_t n_fragments) {
  const auto& results = w_.body().results;
  pairs_.clear();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const dtype type = results[i].target.type.type;
    pairs_.push_back(registers(fmt::format("pair{}", i), type, {2}, memory_type(type)));
  }
  unrolled("next", 2, [&](const index_expr& next) {
    b_.let("int", "column", var("first") + next);
    write_values(all_nodes(), in_fragment(n_fragments));
    for (std::size_t i = 0; i < results.size(); ++i)
      b_.store({pairs_[i], {next}}, value::operation(stored(results[i].target.type.type, "$0"),
                                                     {w_.named(results[i].node)}, dtype::float32, 1));
  });
}

// The values of write_pair_values, each stored by itself.
void product_writer::write_single_values(int64_t n_fragments) {
  unrolled("next", 2, [&](const index_expr& next) {
    b_.let("int", "column", var("first") + next);
    std::vector<tile::condition> exists;
    if (has_partial_tile(t_.b, t_.own_columns()))
      exists.push_back({var("column"), tile::condition::how::below, t_.b.size});
    b_.guard(std::move(exists), [&] { write_element(in_fragment(n_fragments)); });
  });
}

// Four neighbouring lanes have two columns each of four fragments; each gets the eight columns of one of them.
void product_writer::write_exchange(std::size_t number) {
  for (const int apart : {1, 2}) {
    unrolled("w", 2, [&](const index_expr& w) {
      const index_expr low = apart == 1 ? w * 2 : w, high = low + apart;
      const auto word = [&](const index_expr& at) { return value::element({words_[number], {at}}, dtype::int32); };
      const auto chosen = [&](const char* c, const value& a, const value& b) {
        return value::operation(c, {a, b}, dtype::int32, 1);
      };
      const value got = value::named("got", dtype::int32);
      b_.add({tile::define{"upper", value::operation(fmt::format("(quad & {}) != 0", apart), {}, dtype::bool_, 2)}});
      b_.add({tile::define{"got",
                           chosen(apart == 1 ? "__shfl_xor_sync(0xffffffffu, upper ? $0 : $1, 1)"
                                             : "__shfl_xor_sync(0xffffffffu, upper ? $0 : $1, 2)",
                                  word(low), word(high)),
                           "", false, "unsigned"}});
      b_.store({words_[number], {low}}, chosen("upper ? $0 : $1", got, word(low)));
      b_.store({words_[number], {high}}, chosen("upper ? $1 : $0", got, word(high)));
    });
  }
}

void product_writer::write_quads_epilogue(int64_t m_fragments, int64_t n_fragments) {
  const auto& results = w_.body().results;
  const auto of_fragments = [&](const index_expr&) {
    b_.let("int", "row", var("first_row") + var("warp_row") + var("r") * 16 + var("group") + var("below") * 8);
    words_.clear();
    for (std::size_t i = 0; i < results.size(); ++i)
      words_.push_back(
          b_.array(fmt::format("words{}", i), dtype::int32, tile::space::registers, {4}, "", "", "unsigned"));
    unrolled("of_four", 4, [&](const index_expr& of_four) {
      b_.let("int", {{"c", var("fragment") + of_four},
                     {"first", var("first_column") + warp_own_column() + var("c") * 8 + var("quad") * 2}});
      b_.guard(existence("first"), [&] {
        write_pair_values(n_fragments);
        for (std::size_t i = 0; i < results.size(); ++i) {
          const auto half = [&](int64_t at) { return value::element({pairs_[i], {at}}, dtype::int32); };
          b_.store({words_[i], {of_four}},
                   value::operation("$0 | (unsigned)$1 << 16", {half(0), half(1)}, dtype::int32, 1));
        }
      });
    });
    for (std::size_t i = 0; i < results.size(); ++i)
      write_exchange(i);
    b_.let("int", "column", var("first_column") + warp_own_column() + (var("fragment") + var("quad")) * 8);
    b_.guard(existence("column"), [&] {
      for (std::size_t i = 0; i < results.size(); ++i) {
        std::vector<value> four;
        for (int64_t w = 0; w < 4; ++w)
          four.push_back(value::element({words_[i], {w}}, dtype::int32));
        tile::access to{at_.results.at(static_cast<int>(i)), {place(results[i].target, "column")}};
        to.words = tile::words{"uint4", 8};
        b_.store(to, value::operation("make_uint4($0, $1, $2, $3)", std::move(four), dtype::int32, 1));
      }
    });
  };
  unrolled("r", m_fragments, [&](const index_expr&) {
    unrolled("below", 2, [&](const index_expr&) {
      b_.loop(tile::loop{"fragment", n_fragments, tile::unrolling::whole, {}, 0, 4}, [&] { of_fragments(0); });
    });
  });
}

void product_writer::write_epilogue(int64_t m_fragments, int64_t of_all, result_stores how) {
  const bool by_lines = how == result_stores::by_lines;
  const int64_t n_fragments = of_all / t_.products;
  if (stores_eight(n_fragments)) return write_quads_epilogue(m_fragments, n_fragments);
  const auto& results = w_.body().results;
  const bool paired = std::ranges::all_of(results, [&](const body_result& r) { return in_pairs(r.target); });
  tile::buffer_id lines = 0;
  if (by_lines) {
    b_.barrier();
    lines = b_.view("own_lines", stages_, dtype::float32, var("warp") * (16 * line_of_results()),
                    tile::pointee::written, tile::space::warp_shared);
  }
  unrolled("r", m_fragments, [&](const index_expr&) {
    unrolled("c", n_fragments, [&](const index_expr&) {
      unrolled("below", 2, [&](const index_expr&) {
        b_.let("int", "row", var("first_row") + var("warp_row") + var("r") * 16 + var("group") + var("below") * 8);
        b_.let("int", "first", var("first_column") + warp_own_column() + var("c") * 8 + var("quad") * 2);
        b_.guard(existence(paired ? "first" : ""), [&] {
          if (!paired) return write_single_values(n_fragments);
          write_pair_values(n_fragments);
          for (std::size_t i = 0; i < results.size(); ++i)
            write_pair(results[i], i, how, lines);
        });
      });
    });
    if (by_lines) write_lines(results[0], lines);
  });
}

}  // namespace cudal1
