// What the forms of a product's kernel share: which tile is a block's, where elements are, and the results.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/codegen/cuda/gemm/product_tiling.hpp"
#include "policy/codegen/kernel_writer.hpp"
#include "policy/codegen/pass_plan.hpp"

namespace cudal1 {

// Which elements of a tile a thread goes over: those that exist in the result, or all.
enum class tile_elements { existing, all };
// How results are stored: from registers, or by whole lines through shared memory.
enum class result_stores { direct, by_lines };

// A variable of which statements before say the range.
inline index_expr var(std::string name) {
  return index_expr::unknown(std::move(name));
}

class product_writer {
 public:
  // `of`: the product of the request's body, or that for which the kernel makes an operand.
  product_writer(const emit_request& request, const product_tiling& tiling, matrix_product of)
      : w_(request), t_(tiling), of_(std::move(of)), threads_(32 * tiling.warps()), b_(0, 0) {}
  product_writer(const emit_request& request, const product_tiling& tiling)
      : product_writer(request, tiling, tiling.of) {}

 protected:
  using value = tile::value;
  using body = std::function<void()>;

  // Begins a kernel of so many threads and blocks; see kernel_writer::open_kernel.
  void open_kernel(int64_t threads, int64_t blocks, int64_t on_processor = 1, int64_t cluster = 1);
  // Ends the kernel of the product.
  expected<emitted_kernel> finished();

  const body_access& operand(int n) const { return w_.body().accesses[static_cast<std::size_t>(n)]; }
  // The launch's shared memory as one array, aligned to so many bytes; 0: as its elements are.
  tile::buffer_id launched(const std::string& name, dtype type, int64_t bytes, int64_t alignment = 0) {
    return b_.launched(name, type, bytes / size_of(type), alignment);
  }
  tile::buffer_id registers(const std::string& name, dtype type, std::vector<int64_t> shape,
                            const std::string& spelled = "") {
    return b_.array(name, type, tile::space::registers, std::move(shape), {}, {}, spelled);
  }
  // The same, of zeros.
  tile::buffer_id zeros(const std::string& name, std::vector<int64_t> shape) {
    const char* const values = shape.empty() ? "0.0f" : "";
    return b_.array(name, dtype::float32, tile::space::registers, std::move(shape), values);
  }
  // A call of a function of the dialect without a value.
  void call(const std::string& text, std::vector<tile::buffer_id> changed = {}, std::vector<tile::region> reads = {}) {
    b_.add({tile::call{value::operation(text, {}, dtype::int32, 0), std::move(changed), std::move(reads)}});
  }
  void unrolled(const std::string& variable, int64_t count, const std::function<void(index_expr)>& each) {
    b_.loop(variable, count, tile::unrolling::whole, each);
  }
  // Index variables, with a remark behind them.
  void let_all(std::vector<std::pair<std::string, index_expr>> names, const std::string& remark) {
    b_.add({tile::let{"int", std::move(names), false, remark}});
  }
  // The body where the condition in C is true, which nothing looks into; just the body for "".
  void where(const std::string& condition, const body& then) {
    condition.empty() ? then() : b_.branch(value::operation(condition, {}, dtype::bool_, 1), then);
  }

  // Declares `first_row`, `first_column`, `batch` of the block's tile, and `begin` to `end` along k that it adds up, a
  // multiple of `stage_k` each unless they are at its end. Where tiles form bands of several rows of tiles, blocks that
  // run at the same time share columns and rows, whose tiles are then in the cache.
  void write_place(int64_t rows_of_band);
  // The place for warpgroups, of which each warp has 16 rows and all columns of the tile, and the lane's place in
  // fragments.
  void write_place_of_warpgroups();
  void write_place_of_fragments();
  // Limits k to what may not be zeros, where the side's operand is a triangle or a band: for its lines of a tile from
  // `first`.
  void limit_k(const product_side& side, const index_expr& first, index_expr& begin, index_expr& end) const;
  // The offset of an index that runs over some axes of the body.
  index_expr offset(const std::vector<int64_t>& strides, const std::vector<int>& dims, const std::string& index) const;
  // What the batch adds to an offset in the operand.
  index_expr in_batch(const body_access& o) const { return t_.batches > 1 ? offset(o.strides, t_.batch, "batch") : 0; }
  // The offset of a line of the side's operand, which another value may choose, without the batch's: `at` is the line's
  // number, among those that exist or not.
  index_expr line_offset(const product_side& side, const std::string& at) const;
  // Whether the kernel computes A from what it reads. write_prologue returns A's element, after the statements that
  // make it of `element`, which was read, at a row that may not exist, and an index along k: from `limit` on A is 0.
  bool has_prologue() const { return !of_.a_nodes.empty(); }
  value write_prologue(const value& element, const std::string& row, const std::string& k, const char* limit = "end");
  // Makes two halves of A that are contiguous in a word, which is overwritten.
  void write_halves_prologue(const tile::access& word, const std::string& row, const std::string& k,
                             const char* limit = "end");
  // The offset of the operand's element at (`row`, that column) of the batch.
  index_expr element(const body_access& o, const char* column) const;
  // Writes the copy of the stage of that number to shared memory.
  using stage_copy = std::function<void(const index_expr&)>;
  // The loop over the block's `steps` stages: the copy of a stage begins `ahead` stages before it is waited for.
  // Everything that it brought is then seen by all threads of the block, also by the products of warpgroups where the
  // main loop has them. Then the next copy begins, unless the body itself writes it (write_next_copy), once, where what
  // it overwrites is no longer read.
  enum class next_copy { first, by_body };
  void each_stage(int64_t ahead, const stage_copy& copy, next_copy when, const body& multiply);
  void write_next_copy(int64_t ahead, const stage_copy& copy);
  // The copies of tiles of operands as they are: first where the elements that this thread copies begin, and whether
  // they exist; then all copies of stage `number` to `tiles` in shared memory.
  void write_copies();
  void write_stage_copy(const index_expr& number);
  // A pointer into the stages of that shared memory, at one of them and `further` elements.
  tile::buffer_id stage_at(const std::string& name, tile::buffer_id stages, dtype type, const index_expr& number,
                           int64_t elements, const index_expr& further, tile::pointee use);
  int64_t a_elements() const { return layout_of(t_, t_.a, t_.rows).elements(); }  // of a stage
  int64_t stage_elements() const { return a_elements() + layout_of(t_, t_.b, t_.columns).elements(); }
  // The epilogue per element, with the stores: a thread has sums_[m_fragments][n_fragments][4] as fragments have them,
  // of its warp's tile at (`warp_row`, `warp_column`) of the block's. `by_lines`: through `tiles` in shared memory,
  // which nothing else uses any more, so that a warp stores whole lines; see stores_lines and bytes_of_lines.
  void write_epilogue(int64_t m_fragments, int64_t n_fragments, result_stores how = result_stores::direct);
  // Whether the results can be stored by lines, and that pays: where storing the results takes longer than the sums.
  bool stores_lines() const;
  int64_t bytes_of_lines() const { return 4 * t_.warps() * 16 * line_of_results(); }
  // The place of the product of that number.
  using product_place = std::function<tile::access(int)>;
  // Elements of an array in registers with one for each product, or its only element where there is one product only;
  // `at`: of arrays of these.
  product_place each_of(tile::buffer_id array, std::vector<index_expr> at = {}) const;
  std::vector<int64_t> shape_of_products(std::vector<int64_t> outer = {}) const;
  static value float_at(const tile::access& at) { return value::element(at, dtype::float32); }
  // The epilogue of the element at (`row`, `column`) of the batch, which the caller knows to exist.
  void write_element(const product_place& product);
  // A tile's columns are those of several Bs in turn for each warp's share: to which column of the result one belongs,
  // counted from the tile's first, and to which B. And where a column of a B is in the tile.
  std::string column_of(const std::string& tile_column) const;
  std::string product_of(const std::string& tile_column) const;
  index_expr tile_column_of(int product, const index_expr& column) const;
  // Whether the side's lines of a tile are of several Bs; then b_matrix_at is the pointer to the one that has a column
  // of the tile.
  bool is_of_several(const product_side& side) const { return t_.products > 1 && !t_.is_a(side); }
  std::string b_matrix_at(const std::string& tile_column) const;
  // The pointers to where the side's lines of a tile begin: NAME_matrix, with offsets from it in an array NAME_from; or
  // an array of pointers, of several Bs.
  struct line_sources {
    tile::buffer_id matrix = 0, from = 0;
  };
  void declare_matrix(const product_side& side, const std::string& name, line_sources& to);
  void declare_from(const product_side& side, const std::string& name, int64_t count, line_sources& to);
  // Its element i, of the line `at` at `place` in the tile.
  void store_source(const product_side& side, const line_sources& to, const index_expr& i, const std::string& place);
  // What begins there, `further` elements on along k, where `term` is below k.
  tile::access source_at(const product_side& side, const std::string& name, const std::string& i,
                         const line_sources& of, const index_expr& further);
  // The loop over the elements of the block's tile, of which each thread has every `threads_`-th one, at (`row`,
  // `column`) or, in the tile, (`tile_row`, `tile_column`): those that exist, or all of them, at the last rows and
  // columns where they do not exist.
  void each_element_of_tile(tile_elements which, const body& each);
  int64_t elements_of_thread() const { return (t_.rows * t_.own_columns() + threads_ - 1) / threads_; }
  // Reads what the epilogue of these elements needs from memory before the product, so that nothing waits for it.
  void prefetch_elements();
  // Writes the sums of the warp's tile, as write_epilogue has them, to `memory`, which then has the block's tile once
  // for each slice.
  void write_tile_to(tile::buffer_id memory, int64_t m_fragments, int64_t n_fragments);
  // The sum of all slices of the products' elements at (`tile_row`, `tile_column`) of `memory`: `total`.
  product_place write_totals(tile::buffer_id memory);
  // The epilogue where it reduces rows, with the stores: neighbouring lanes share a row of the tile in `memory`, and
  // keep their elements' sums of all slices in registers. prefetch_rows, before the product, reads what it needs from
  // memory, so that nothing waits for it.
  void prefetch_rows();
  void write_row_epilogue(tile::buffer_id memory);
  // The row epilogue through the memory of the stages, after the last of them: `write_tile_to` and
  // `write_row_epilogue`.
  void write_row_epilogue_of_stages(int64_t m_fragments, int64_t n_fragments);
  // Before the loop over k: blocks may write to each other's shared memory when all of them have begun.
  void write_start_of_cluster();
  // Loads (kernel_writer::direct_loads) before the product, so that nothing waits for them after it: declares registers
  // for the elements of a thread, or returns false if there are none or too many, and reads element `k` at (`row`,
  // `column`).
  bool declare_prefetched(const std::vector<int>& loads, int64_t elements);
  void write_prefetch(const std::vector<int>& loads);
  // Where the block's tile may have rows or columns that do not exist, the conditions for existing ones. Without a name
  // of the column only rows are looked at.
  std::vector<tile::condition> existence(const char* column) const;
  // The column where the warp's share of the result begins in the tile.
  index_expr warp_own_column() const;
  bool halves() const { return is_half(t_.type); }
  // At the end of the names of functions that multiply a half type.
  std::string half_name() const { return t_.type == dtype::float16 ? "half" : "bfloat16"; }
  // How the dialect multiplies fragments: float32 as two TF32 parts each.
  std::string instruction() const { return halves() ? "mma_" + half_name() : "mma_tf32x3"; }
  // Over all elements of fragments, at r, c and e.
  void each_of_fragments(int64_t m_fragments, int64_t n_fragments,
                         const std::function<void(const std::vector<index_expr>&)>& each);
  tile::access sum_at(const std::vector<index_expr>& at) const { return {sums_, at}; }

  kernel_writer w_;
  const product_tiling& t_;
  matrix_product of_;
  int64_t threads_;
  tile::kernel_builder b_;
  kernel_writer::tensors at_;
  tile::buffer_id stages_ = 0, sums_ = 0;  // the shared memory of stages; the array of the thread's sums

 private:
  index_expr place(const body_access& target, const char* column) const;  // `element`, in the part of k
  void write_values(const std::vector<int>& nodes, const product_place& product);
  std::vector<int> all_nodes() const;
  void write_store(int result, const char* column);
  bool in_pairs(const body_access& o) const { return in_vectors(o, 2); }
  bool in_vectors(const body_access& o, int64_t width) const;
  int64_t line_of_results() const { return t_.warp_own_columns() + 8; }
  void write_copies_of(const product_side& side, int64_t rows, const char* name, const char* first);
  void write_copy_of(const product_side& side, int64_t rows, const char* name, int64_t before, tile::buffer_id stage);
  product_place in_fragment(int64_t n_fragments) const;
  bool stores_eight(int64_t n_fragments) const;
  void write_pair(const body_result& r, std::size_t number, result_stores how, tile::buffer_id lines);
  void write_pair_values(int64_t n_fragments);
  void write_single_values(int64_t n_fragments);
  void write_quads_epilogue(int64_t m_fragments, int64_t n_fragments);
  void write_exchange(std::size_t number);
  void write_lines(const body_result& r, tile::buffer_id lines);
  // How the threads share the rows of the body that the tile holds.
  struct row_shares {
    int64_t rows = 0;         // of the body, in a tile
    int64_t lanes = 0;        // of each row
    int64_t elements = 0;     // of each lane
    int64_t at_once = 0;      // rows in a round
    bool is_partial = false;  // the last elements of some lanes do not exist
    int64_t rounds() const { return (rows + at_once - 1) / at_once; }
  };
  row_shares shares_of_rows() const;
  // Writes each row of a cluster's tiles to the shared memory of the block that computes it.
  void write_exchange_of_rows(tile::buffer_id memory);
  void write_sums_of_row(tile::buffer_id memory, const row_shares& shares);
  void write_place_in_rows(const row_shares& shares);
  void write_loads_of_row(const row_shares& shares);
  void write_pass(const pass_plan& plan, int pass, const row_shares& shares);
  void write_row_results(const pass_plan& plan);
  void write_row_values(const std::vector<int>& nodes);
  void write_column();  // of the element `at` of the thread's row
  void each_element(const row_shares& shares, const body& each);
  value loaded_element(int n, const char* column) const;
  tile::access kept_at(const std::map<int, tile::buffer_id>& arrays, int n) const { return {arrays.at(n), {k_}}; }

  std::map<const product_side*, line_sources> sources_;    // of the copies
  std::map<const product_side*, tile::buffer_id> exists_;  // whether a line does, where some do not
  std::map<int, tile::buffer_id> prefetched_;              // loads whose elements of the thread are in registers: where
  std::map<int, tile::buffer_id> kept_;  // values whose elements of the row earlier passes left in registers: where
  std::set<int> known_rows_;             // values per row that have a variable
  std::vector<tile::buffer_id> pairs_, words_;  // of each result: two neighbouring elements; eight of half types
  tile::buffer_id products_of_row_ = 0, rows_of_block_ = 0;
  index_expr k_ = index_expr::unknown("k");  // which of its elements a thread is at
};

}  // namespace cudal1
