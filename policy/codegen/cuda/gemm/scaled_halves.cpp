#include "policy/codegen/cuda/gemm/scaled_halves.hpp"

#include <algorithm>

#include "policy/body/body_edits.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

halves_of_side halves_of(const kernel_body& body, const product_tiling& t, const product_side& side,
                         const std::string& name) {
  const int64_t padded = t.padded_lines(side);
  halves_of_side out;
  out.halves.value = name + "_halves";
  out.halves.type = contiguous(dtype::float16, {padded * t.stages_of(t.k) * halves_of_row});
  out.exponents.value = name + "_exponents";
  out.exponents.type = contiguous(dtype::int32, {padded});
  out.halves.strides.assign(body.axes.size(), 0);
  out.exponents.strides.assign(body.axes.size(), 0);
  for (const auto& [dims, first] : {std::pair{&side.dims, int64_t{1}}, {&t.batch, padded / t.batches}}) {
    int64_t below = first;
    for (std::size_t i = dims->size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>((*dims)[i]);
      out.exponents.strides[d] = body.extent(d) == 1 ? 0 : below;
      below *= body.extent(d);
    }
  }
  return out;
}

namespace {

constexpr int64_t k_kept = 32;  // elements that a thread keeps in registers while it splits them

// The kernel that splits an operand. A thread takes 8 neighbouring elements at a time, and keeps up to 32 in registers,
// so that memory is read once; of longer rows it reads them again.
class split_writer final : product_writer {
 public:
  // `access`: the operand's, or the one that has an element for each of A's.
  split_writer(const emit_request& request, const product_tiling& t, const product_side& side, int access)
      : product_writer(request, t),
        side_(side),
        rows_(t.tile_lines(side)),
        access_(access),
        k_in_stages_(t.stages_of(t.k) * t.stage_k) {}

  expected<emitted_kernel> write() { return side_.is_k_major ? write_row_halves() : write_column_halves(); }

 private:
  // A warp or a block splits a row.
  expected<emitted_kernel> write_row_halves() {
    constexpr int64_t threads = 256;
    const int64_t of_row = k_in_stages_ <= 32 * k_kept ? 32 : threads, rows = threads / of_row;
    const int64_t count = t_.batches * side_.size;
    open_kernel(threads, (count + rows - 1) / rows);
    tile::buffer_id of_warps = 0;
    if (of_row == threads) of_warps = b_.array("of_warps", dtype::float32, tile::space::shared, {threads / 32});
    b_.let("int", {{"thread", var("threadIdx.x").as("int")}, {"lane", var("thread") % of_row}});
    const index_expr block = var("blockIdx.x").as("int");
    b_.let("int", "number", rows == 1 ? block : block * rows + var("thread") / 32);
    if (count % rows != 0) b_.add({tile::leave{{var("number"), tile::condition::how::least, count}}});
    choose_turns("lane", of_row);
    write_place_of_row();
    write_largest();
    write_largest_of_lanes(1);
    if (of_row == threads) {
      b_.add({tile::store{
          {of_warps, {var("thread") / 32}}, largest(), {{var("thread") % 32, tile::condition::how::equal, 0}}}});
      b_.barrier();
      write_largest_of(threads / 32, [&](const index_expr& other) { return float_at({of_warps, {other}}); });
    }
    write_scale("lane");
    write_all_halves();
    return w_.finished(std::move(b_).finish(), std::nullopt);
  }

  // Neighbouring threads split neighbouring columns: as many as leave no processor without work and let their elements
  // be kept.
  expected<emitted_kernel> write_column_halves() {
    constexpr int64_t most_threads = 1024;
    int64_t columns = 32;
    while (columns > 8 && (columns * k_in_stages_ > most_threads * k_kept ||
                           t_.batches * ((side_.size + columns - 1) / columns) < large_gpu_processors))
      columns /= 2;
    const int64_t in_warp = 32 / columns, whole_warps = (k_in_stages_ / 8 + in_warp - 1) / in_warp * in_warp;
    const int64_t groups = std::min(whole_warps, most_threads / columns);
    const int64_t threads = groups * columns, blocks = (side_.size + columns - 1) / columns;
    open_kernel(threads, blocks * t_.batches);
    const auto of_warps = b_.array("of_warps", dtype::float32, tile::space::shared, {threads / 32, columns});
    b_.let("int", {{"thread", var("threadIdx.x").as("int")},
                   {"lane", var("thread") % columns},
                   {"group", var("thread") / columns}});
    const index_expr block = var("blockIdx.x").as("int");
    const auto own = [&](const index_expr& of_blocks) {
      return index_expr::min(of_blocks * columns + var("lane"), side_.size - 1);
    };
    b_.let("int", "number", t_.batches == 1 ? own(block) : block / blocks * side_.size + own(block % blocks));
    choose_turns("group", groups);
    write_place_of_row();
    write_largest();
    if (columns < 32) write_largest_of_lanes(columns);
    b_.add({tile::store{{of_warps, {var("thread") / 32, var("lane")}},
                        largest(),
                        {{var("thread") % 32, tile::condition::how::below, columns}}}});
    b_.barrier();
    write_largest_of(threads / 32, [&](const index_expr& other) { return float_at({of_warps, {other, var("lane")}}); });
    write_scale("group");
    write_all_halves();
    return w_.finished(std::move(b_).finish(), std::nullopt);
  }

  // Where the row (or column) `number` begins, and where its halves go.
  void write_place_of_row() {
    if (t_.batches > 1)
      b_.let("int", {{"batch", var("number") / side_.size}, {"row", var("number") % side_.size}});
    else
      b_.let("int", {{"batch", 0}, {"row", var("number")}});
    const body_access& o = operand(access_);
    from_ =
        b_.pointer("from", at_.operands.at(access_), offset(o.strides, t_.batch, "batch") + line_offset(side_, "row"),
                   tile::pointee::read, tile::pointer_is::constant);
    const int64_t tiles = (side_.size + rows_ - 1) / rows_, stages = t_.stages_of(t_.k);
    index_expr begin = 0, end = stages * t_.stage_k;
    limit_k(side_, var("row") / rows_ * rows_, begin, end);
    b_.let("int", {{"begin", begin}, {"end", end}});
    b_.let("int", {{"place", var("row") % rows_}, {"tile", var("batch") * tiles + var("row") / rows_}});
    const index_expr line = var("tile").as("long long") * (stages * rows_) + var("place");
    to_ = b_.pointer("to", at_.results.at(0), line * halves_of_row, tile::pointee::written, tile::pointer_is::constant);
  }

  value largest() const { return value::named("largest", dtype::float32); }
  void join_largest(const std::string& c, std::vector<value> of) {
    b_.add({tile::assign{"largest", value::operation(c, std::move(of), dtype::float32, 2)}});
  }

  // The largest magnitude of a thread's elements, which may be kept in `v`.
  void write_largest() {
    b_.change("largest", value::named("0.0f", dtype::float32));
    if (is_kept()) v_ = registers("v", dtype::float32, {turns(), 8});
    each_turn([&](const index_expr& turn) {
      write_eight(turn);
      unrolled("i", 8, [&](const index_expr& i) {
        join_largest("fmaxf($0, fabsf($1))", {largest(), float_at(element_at(turn, i))});
      });
    });
  }

  // The largest of the lanes of a warp that are multiples of `apart` from this one.
  void write_largest_of_lanes(int64_t apart) {
    for (const std::string& line :
         {std::string("#pragma unroll"), fmt::format("for (int lanes = 16; lanes >= {}; lanes /= 2) {{", apart),
          std::string("  largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));"), std::string("}")})
      b_.add({tile::raw{line}});
  }

  void write_largest_of(int64_t count, const std::function<value(const index_expr&)>& of) {
    tile::loop over{"other", count, tile::unrolling::some, {}};
    over.unrolled_steps = 8;
    const index_expr other = count > 1 ? index_expr::variable("other", count) : var("other");
    b_.loop(std::move(over), [&] { join_largest("fmaxf($0, $1)", {largest(), of(other)}); });
  }

  void write_all_halves() {
    each_turn([&](const index_expr& turn) {
      if (!is_kept()) write_eight(turn);
      where("term < end", [&] {
        const auto high = registers("high", dtype::int32, {4}, "unsigned"),
                   low = registers("low", dtype::int32, {4}, "unsigned");
        unrolled("i", 4, [&](const index_expr& i) { write_two_halves(turn, i, high, low); });
        // Stored through a pointer to vectors: a vector at an offset in halves becomes four stores.
        b_.add({tile::raw{
            fmt::format("uint4* const terms = (uint4*)to + term / {} * {};", t_.stage_k, rows_ * halves_of_row / 8)}});
        b_.add({tile::raw{"const int piece = term / 8 % 4 ^ place % 8;"}});
        for (const auto& [name, of, at] : {std::tuple{"high", high, "piece"}, {"low", low, "piece ^ 4"}}) {
          std::vector<value> four;
          for (int64_t w = 0; w < 4; ++w)
            four.push_back(value::element({of, {w}}, dtype::int32));
          call(fmt::format("terms[{}] = make_uint4({})", at, fmt::format("{0}[0], {0}[1], {0}[2], {0}[3]", name)), {},
               {{{of, {0}}, 4}});
        }
      });
    });
  }

  void write_two_halves(const index_expr& turn, const index_expr& i, tile::buffer_id high, tile::buffer_id low) {
    const auto define = [&](const char* name, const std::string& type, const char* c, std::vector<value> of) {
      b_.add({tile::define{name, value::operation(c, std::move(of), dtype::float32, 1), "", false, type}});
    };
    define("x", "", "$0 * scale", {float_at(element_at(turn, i * 2))});
    define("y", "", "$0 * scale", {float_at(element_at(turn, i * 2 + 1))});
    const value x = value::named("x", dtype::float32), y = value::named("y", dtype::float32);
    define("high_x", "unsigned short", "half_of_float($0)", {x});
    define("high_y", "unsigned short", "half_of_float($0)", {y});
    const value high_x = value::named("high_x", dtype::int32), high_y = value::named("high_y", dtype::int32);
    const auto bits = [](const char* c, std::vector<value> of) {
      return value::operation(c, std::move(of), dtype::int32, 2);
    };
    b_.store({high, {i}}, bits("$0 | (unsigned)$1 << 16", {high_x, high_y}));
    b_.store({low, {i}}, bits("half_of_float($0 - float_of_half($1)) | (unsigned)half_of_float($2 - "
                              "float_of_half($3)) << 16",
                              {x, high_x, y, high_y}));
  }

  // So many threads share a row; which one a thread is.
  void choose_turns(std::string index, int64_t threads) {
    index_ = std::move(index);
    sharing_ = threads;
  }
  int64_t turns() const { return (k_in_stages_ + sharing_ * 8 - 1) / (sharing_ * 8); }
  bool is_kept() const { return turns() * 8 <= k_kept; }

  // The loop over the thread's elements, 8 from `term` along k at a time; some may be behind `end`.
  void each_turn(const std::function<void(const index_expr&)>& body) {
    b_.loop("turn", turns(), is_kept() ? tile::unrolling::whole : tile::unrolling::none, [&](const index_expr& turn) {
      b_.let("int", "term", var("begin") + (turn * sharing_ + var(index_)) * 8);
      body(turn);
    });
  }
  tile::access element_at(const index_expr& turn, const index_expr& i) const {
    return is_kept() ? tile::access{v_, {turn, i}} : tile::access{v_, {i}};
  }

  // Reads the eight elements from `term` along k, zeros behind the last.
  void write_eight(const index_expr& turn) {
    if (!is_kept()) v_ = registers("v", dtype::float32, {8});
    const auto where_exists = [&](const index_expr& i) { return fmt::format("term + {} < {}", i.text(), limit()); };
    if (side_.is_k_major && side_.step == 1 && side_.width == 4) {
      const index_expr i = index_expr::variable("i", 5);
      b_.loop(tile::loop{"i", 8, tile::unrolling::whole, {}, 0, 4}, [&] {
        b_.add({tile::define{"four", value::named("{0.0f, 0.0f, 0.0f, 0.0f}", dtype::float32), "", true, "float4"}});
        where(where_exists(i), [&] {
          tile::access of{from_, {known_term(i, 4)}};
          of.words = tile::words{"float4", 4, tile::words::alignment::known};
          b_.add({tile::assign{"four", float_at(of)}});
        });
        for (const auto& [at, member] : {std::pair{0, "four.x"}, {1, "four.y"}, {2, "four.z"}, {3, "four.w"}})
          b_.store(element_at(turn, i + at), value::operation(member, {}, dtype::float32, 0));
      });
    } else {
      unrolled("i", 8, [&](const index_expr& i) {
        b_.store(element_at(turn, i),
                 value::operation(where_exists(i) + " ? $0 : 0.0f",
                                  {float_at({from_, {known_term(i, 1) * side_.step}})}, dtype::float32, 1));
      });
    }
    if (!t_.is_a(side_) || !has_prologue()) return;
    unrolled("i", 8, [&](const index_expr& i) {
      const value made = write_prologue(float_at(element_at(turn, i)), "row", "term + i");
      b_.store(element_at(turn, i), value::operation(where_exists(i) + " ? $0 : 0.0f", {made}, dtype::float32, 1));
    });
  }
  // term + i, which is below k where anything is read.
  index_expr known_term(const index_expr& i, int64_t width) const {
    const std::string sum = (var("term") + i).text();
    return index_expr::variable(side_.step == 1 ? sum : "(" + sum + ")", t_.k - width + 1);
  }
  std::string limit() const { return t_.k % t_.stage_k == 0 ? "end" : fmt::format("min(end, {})", t_.k); }

  // The scale makes the largest at least 2^14 and less than 2^15: half the largest half. A row with an infinity is not
  // scaled; its sums become NaN, as those of two TF32 parts do.
  void write_scale(const char* of_row) {
    const auto number = [&](const char* name, const char* c, dtype type, std::vector<value> of) {
      b_.define(name, value::operation(c, std::move(of), type, 2));
    };
    number("biased", "__float_as_int($0) >> 23", dtype::int32, {largest()});
    number("exponent", "$0 == 255 ? 0 : min(141 - $0, 126)", dtype::int32, {value::named("biased", dtype::int32)});
    const value exponent = value::named("exponent", dtype::int32);
    number("scale", "__int_as_float(($0 + 127) << 23)", dtype::float32, {exponent});
    b_.add({tile::store{{at_.results.at(1), {var("tile") * rows_ + var("place")}},
                        value::operation("-$0", {exponent}, dtype::int32, 1),
                        {{var(of_row), tile::condition::how::equal, 0}}}});
  }

  const product_side& side_;
  int64_t rows_;  // of a tile
  int access_;
  int64_t k_in_stages_;  // k, up to the end of a stage
  std::string index_;
  int64_t sharing_ = 1;
  tile::buffer_id from_ = 0, to_ = 0, v_ = 0;
};

}  // namespace

expected<emitted_kernel> split_operand(const emit_request& request, const product_tiling& t, const product_side& side,
                                       int node, const std::string& which, const halves_of_side& into) {
  kernel_body body = *request.body;
  make_elementwise(body);
  body.results = {{node, into.halves}, {node, into.exponents}};
  emit_request own = request;
  own.body = &body;
  own.options = {};
  own.name = request.name + "_" + which;
  own.comment = request.comment + ": the " + which + " factors as scaled halves";
  const int from = t.is_a(side) ? t.of.a : body.nodes[static_cast<std::size_t>(node)].access;
  CUDAL1_TRY(emitted_kernel out, split_writer(own, t, side, from).write());
  const bool is_alone = !t.is_a(side) || t.of.accesses_of_a(body).size() == 1;
  if (is_alone && body.accesses[static_cast<std::size_t>(from)].constant) std::swap(out.steps, out.setup);
  return out;
}

}  // namespace cudal1
