// What the forms of a product's kernel share: which tile is a block's, where elements are, and the results.
#pragma once

#include <functional>
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

class product_writer {
 public:
  // `of`: the product of the request's body, or that for which the kernel makes an operand.
  product_writer(const emit_request& request, const product_tiling& tiling, matrix_product of)
      : w_(request), t_(tiling), of_(std::move(of)), threads_(32 * tiling.warps()) {}
  product_writer(const emit_request& request, const product_tiling& tiling)
      : product_writer(request, tiling, tiling.of) {}

 protected:
  // Ends the kernel, which has so many bytes of dynamic shared memory.
  emitted_kernel finished(int64_t shared_bytes);

  const body_access& operand(int n) const { return w_.body().accesses[static_cast<std::size_t>(n)]; }

  // Declares `first_row`, `first_column`, `batch` of the block's tile, and `begin` to `end` along k that it adds up, a
  // multiple of `stage_k` each unless they are at its end. Where tiles form bands of several rows of tiles, blocks that
  // run at the same time share columns and rows, whose tiles are then in the cache.
  void write_place(int64_t rows_of_band);
  // The place for warpgroups, of which each warp has 16 rows and all columns of the tile, and the lane's place in
  // fragments.
  void write_place_of_warpgroups();
  // Limits k to what may not be zeros, where the side's operand is a triangle or a band: for its lines of a tile from
  // `first`.
  void limit_k(const product_side& side, const std::string& first, std::string& begin, std::string& end) const;
  // The offset of an index that runs over some axes of the body.
  std::string offset(const std::vector<int64_t>& strides, const std::vector<int>& dims, const std::string& index) const;
  // What the batch adds to an offset in the operand: " + ...", or "" where there is one matrix.
  std::string in_batch(const body_access& o) const {
    return t_.batches > 1 ? " + " + offset(o.strides, t_.batch, "batch") : "";
  }
  // The offset of a line of the side's operand, which another value may choose, without the batch's: `at` is the line's
  // number, among those that exist or not.
  std::string line_offset(const product_side& side, const std::string& at) const;
  // Whether the kernel computes A from what it reads. write_prologue returns the expression of A's element, after the
  // lines that make it of `element`, which was read, at a row that may not exist, and an index along k: from `limit` on
  // A is 0.
  bool has_prologue() const { return !of_.a_nodes.empty(); }
  std::string write_prologue(const std::string& element, const std::string& row, const std::string& k,
                             const char* limit = "end");
  // Makes two halves of A that are contiguous in `word`, which is overwritten.
  void write_halves_prologue(const std::string& word, const std::string& row, const std::string& k,
                             const char* limit = "end");
  // The offset of the operand's element at (`row`, that column) of the batch.
  std::string element(const body_access& o, const char* column) const;
  // Writes the copy of the stage of that number to shared memory.
  using stage_copy = std::function<void(const std::string&)>;
  // Opens the loop over the block's `steps` stages: the copy of a stage begins `ahead` stages before it is waited for.
  // Everything that it brought is then seen by all threads of the block, also by the products of warpgroups where the
  // main loop has them. The caller closes the loop over `step`.
  void open_stages(int64_t ahead, const stage_copy& copy);
  // open_stages in two: the caller writes the next copy, once in each step, where what it overwrites is no longer read.
  void begin_stages(int64_t ahead, const stage_copy& copy);
  void write_next_copy(int64_t ahead, const stage_copy& copy);
  // The copies of tiles of operands as they are: first where the elements that this thread copies begin, and whether
  // they exist; then all copies of stage `number` to `tiles` in shared memory.
  void write_copies();
  void write_stage_copy(const std::string& number);
  // A program may have kernels of several forms, and a name of shared memory one type.
  std::string all_stages() const;
  int64_t a_elements() const { return layout_of(t_, t_.a, t_.rows).elements(); }  // of a stage
  int64_t stage_elements() const { return a_elements() + layout_of(t_, t_.b, t_.columns).elements(); }
  // The epilogue per element, with the stores: a thread has sums[m_fragments][n_fragments][4] as fragments have them,
  // of its warp's tile at (`warp_row`, `warp_column`) of the block's. `by_lines`: through `tiles` in shared memory,
  // which nothing else uses any more, so that a warp stores whole lines; see stores_lines and bytes_of_lines.
  void write_epilogue(int64_t m_fragments, int64_t n_fragments, result_stores how = result_stores::direct);
  // Whether the results can be stored by lines, and that pays: where storing the results takes longer than the sums.
  bool stores_lines() const;
  int64_t bytes_of_lines() const { return 4 * t_.warps() * 16 * line_of_results(); }
  // How the value of the product of that number is written.
  using product_spelling = std::function<std::string(int)>;
  // Elements of an array with one for each product, or its name where there is one product only.
  product_spelling each_of(const std::string& array) const;
  std::string size_of_products() const { return t_.products == 1 ? "" : fmt::format("[{}]", t_.products); }
  // The epilogue of the element at (`row`, `column`) of the batch, which the caller knows to exist.
  void write_element(const product_spelling& product);
  // A tile's columns are those of several Bs in turn for each warp's share: to which column of the result one belongs,
  // counted from the tile's first, and to which B. And where a column of a B is in the tile.
  std::string column_of(const std::string& tile_column) const;
  std::string product_of(const std::string& tile_column) const;
  std::string tile_column_of(int product, const std::string& column) const;
  // Whether the side's lines of a tile are of several Bs; then b_matrix_at is the pointer to the one that has a column
  // of the tile.
  bool is_of_several(const product_side& side) const { return t_.products > 1 && !t_.is_a(side); }
  std::string b_matrix_at(const std::string& tile_column) const;
  // Opens the loop over the elements of the block's tile, of which each thread has every `threads_`-th one, at (`row`,
  // `column`) or, in the tile, (`tile_row`, `tile_column`): those that exist, or all of them, at the last rows and
  // columns where they do not exist.
  void open_elements_of_tile(tile_elements which);
  void close_elements_of_tile(tile_elements which);
  int64_t elements_of_thread() const { return (t_.rows * t_.own_columns() + threads_ - 1) / threads_; }
  // Reads what the epilogue of these elements needs from memory before the product, so that nothing waits for it.
  void prefetch_elements();
  // Writes the sums of the warp's tile, as write_epilogue has them, to `memory`, which then has the block's tile once
  // for each slice.
  void write_tile_to(const char* memory, int64_t m_fragments, int64_t n_fragments);
  // Declares the sum of all slices of the products' elements at (`tile_row`, `tile_column`) of `memory`: `total`.
  void write_totals(const char* memory);
  product_spelling totals() const { return each_of("total"); }
  // The epilogue where it reduces rows, with the stores: neighbouring lanes share a row of the tile in `memory`, and
  // keep their elements' sums of all slices in registers. prefetch_rows, before the product, reads what it needs from
  // memory, so that nothing waits for it.
  void prefetch_rows();
  void write_row_epilogue(const char* memory);
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
  // "row < 100 && column < 50", where the block's tile may have rows or columns that do not exist; "" where all do.
  // Without a name of the column only rows are looked at.
  std::string existence(const char* column) const;
  // The column where the warp's share of the result begins in the tile.
  std::string warp_own_column() const;
  bool halves() const { return is_half(t_.type); }
  // At the end of the names of functions that multiply a half type.
  std::string half_name() const { return t_.type == dtype::float16 ? "half" : "bfloat16"; }
  // How the dialect multiplies fragments: float32 as two TF32 parts each.
  std::string instruction() const { return halves() ? "mma_" + half_name() : "mma_tf32x3"; }
  void open_fragments_loop(int64_t m_fragments, int64_t n_fragments);  // over r, c and e
  void close_fragments_loop();

  kernel_writer w_;
  const product_tiling& t_;
  matrix_product of_;
  int64_t threads_;

 private:
  std::string place(const body_access& target,
                    const char* column) const;  // `element`, in the part of k
  void write_values(const std::vector<int>& nodes, const product_spelling& product);
  std::vector<int> all_nodes() const;
  void write_store(int result, const char* column);
  bool in_pairs(const body_access& o) const { return in_vectors(o, 2); }
  bool in_vectors(const body_access& o, int64_t width) const;
  int64_t line_of_results() const { return t_.warp_own_columns() + 8; }
  void write_copies_of(const product_side& side, int64_t rows, const char* name, const char* first);
  void write_copy_of(const product_side& side, int64_t rows, const char* name, int64_t before);
  product_spelling in_fragment(int64_t n_fragments) const;
  bool stores_eight(int64_t n_fragments) const;
  void write_pair(const body_result& r, std::size_t number, result_stores how);
  void write_pair_values(int64_t n_fragments);
  void write_single_values(int64_t n_fragments);
  void write_quads_epilogue(int64_t m_fragments, int64_t n_fragments);
  void write_exchange(std::size_t number);
  void write_lines(const body_result& r);
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
  void write_exchange_of_rows(const char* memory);
  void write_sums_of_row(const char* memory, const row_shares& shares);
  void write_place_in_rows(const row_shares& shares);
  void write_loads_of_row(const row_shares& shares);
  void write_pass(const pass_plan& plan, int pass, const row_shares& shares);
  void write_row_results(const pass_plan& plan);
  void write_row_values(const std::vector<int>& nodes);
  void open_elements(const row_shares& shares);
  void close_elements(const row_shares& shares);
  std::string loaded_element(int n, const char* column) const;

  std::set<int> prefetched_;  // loads whose elements of the row are in registers
  std::set<int> kept_;        // values whose elements of the row earlier passes left in registers
  std::set<int> known_rows_;  // values per row that have a variable
};

}  // namespace cudal1
