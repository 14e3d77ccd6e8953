// What a kernel's threads do, as data: index variables, values, loads and stores of buffers, loops, guards, barriers.
// One function prints it (statement_print), one finds accesses out of bounds and missing barriers (statement_check),
// and one counts what it does (statement_work). Kernels are written with a kernel_builder.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "policy/tile/index_expr.hpp"
#include "policy/tile/reduction_kind.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1::tile {

// global: a tensor, of which the kernel has a pointer. shared: of a block's threads; warp_shared: the same, whose first
// index is the warp that has it. registers: of one thread.
enum class space { global, shared, warp_shared, registers };

struct buffer {
  std::string name;  // in C
  // The type in memory; registers and shared memory hold elements in the type that kernels compute in.
  dtype type = dtype::float32;
  space where = space::global;
  // The extents of the array in C: of a tensor one, the elements from the pointer to its last one; of arrays as
  // declared.
  std::vector<int64_t> shape;
  int64_t first = 0;  // elements of the tensor before the pointer
  // A pointer into another tensor of the kernel or into shared memory, `offset` from its beginning in its own elements,
  // which a statement declares (point), or known to begin within this range.
  std::optional<std::size_t> into = {};
  index_expr offset = 0;
  std::optional<index_range> known_offset = {};
  bool writes = false;
  bool aligned = false;  // of shared memory: the array begins at a multiple of 16 bytes, as tensors do
  // An array in the shared memory whose size the launch says, so many bytes from its beginning. Arrays may overlap
  // where a barrier is between their uses.
  std::optional<int64_t> dynamic_at = {};
  // An array that is all of that memory, aligned to so many bytes; 0: as its elements are.
  std::optional<int64_t> launched = {};
  // The type of an array's elements in C, where it is not the one that kernels compute in.
  std::string spelled = {};
  int64_t elements() const;
};
using buffer_id = std::size_t;  // in the order of a kernel's buffers

class value;

// Where another value chooses the row that is read: that one of `count` rows with this stride, kept within them.
struct gather {
  std::shared_ptr<const value> row;
  int64_t count = 0, stride = 0;
};

// Only where the place lies within 0 to count - 1: elsewhere 0 is read, and nothing written.
struct bounds {
  index_expr place = 0;
  int64_t count = 0;
};

// Only where a test that bounds places is true (`test`): elsewhere 0 is read. `strides`: how far elements of
// neighbouring places are apart, for each of the test's conditions.
struct mask {
  std::string test;
  std::vector<int64_t> strides;
};

// So many neighbouring elements as one value of a C type, at a multiple of their number: as the check can show, or as
// is known of how operands lie in memory.
struct words {
  enum class alignment { shown, known };
  std::string type;
  int64_t elements = 1;
  alignment aligned = alignment::shown;
};

struct access {
  buffer_id of = 0;
  std::vector<index_expr> at;  // one for each extent
  std::optional<gather> row = {};
  std::optional<bounds> within = {};
  std::optional<mask> masked = {};
  std::optional<tile::words> words = {};
};

// So many elements from a place on.
struct region {
  access from;
  int64_t width = 1;
};

// What a thread computes in one expression.
class value {
 public:
  // A variable that a statement before has defined, or a literal.
  static value named(std::string c, dtype type);
  // A C expression in which $0, $1, ... stand for the operands; `instructions`: of itself, roughly.
  static value operation(std::string c, std::vector<value> operands, dtype type, double instructions);
  static value element(access from, dtype type);
  static value of_index(const index_expr& i, dtype type);

  dtype type() const { return type_; }
  const std::string& c() const { return c_; }
  const std::vector<value>& operands() const { return operands_; }
  double instructions() const { return instructions_; }
  const std::optional<access>& from() const { return from_; }
  const std::optional<index_expr>& index() const { return index_; }

 private:
  dtype type_ = dtype::float32;
  std::string c_;  // of named values and operations
  std::vector<value> operands_;
  double instructions_ = 0;
  std::optional<access> from_;
  std::optional<index_expr> index_;
};

struct statement;
using block = std::vector<statement>;

struct declare {  // of an array in registers or shared memory
  buffer_id of = 0;
  std::optional<std::string> values = {};  // in C, that its first elements have, and 0 the others
  std::string remark = {};                 // behind it
};
enum class pointer_is { variable, constant };
struct point {  // declares a pointer into a tensor or shared memory
  buffer_id of = 0;
  pointer_is is = pointer_is::variable;
  std::string remark = {};
};
struct let {  // index variables, of one C type; with `changes`, one that later statements divide
  std::string type;
  std::vector<std::pair<std::string, index_expr>> names;
  bool changes = false;
  std::string remark = {};
};
struct divide {  // an index variable that changes
  std::string name;
  int64_t by = 1;
};
// Says of an index variable, without a trace in the text, that it is below `count` here where anything depends on it:
// what cannot be shown, because data or an earlier test decides it.
struct assume {
  std::string name;
  int64_t count = 1;
};
struct define {  // a value's variable; with `changes`, one that later statements assign or pass to be changed
  std::string name;
  value is;
  std::string remark = {};  // behind it
  bool changes = false;
  std::string spelled = {};  // its type in C, where that is not the value's
};
struct assign {
  std::string name;
  value is;
};
struct condition {
  // within: from 0 to below `right`; asked in 32 bits.
  enum class how { below, at_most, least, equal, within };
  index_expr left;
  how is = how::below;
  int64_t right = 0;
};
struct test {  // a variable that says whether all are true, by which guards may ask
  std::string name;
  std::vector<condition> all;
};
struct store {
  access to;
  value is;
  std::vector<condition> only = {};  // where these are true
};
// A value joins what a variable, or an element, has been reduced to.
struct combine {
  std::string name;               // or
  std::optional<access> element;  // of registers
  reduction_kind how = reduction_kind::sum;
  value is;
};
// Groups of so many neighbouring lanes, a power of two, get the reduction of their variables.
struct reduce_lanes {
  std::string name;
  dtype type = dtype::float32;
  reduction_kind how = reduction_kind::sum;
  int64_t lanes = 1;
};
// How elements of a tensor are moved: one by one, or contiguous ones as vectors of up to 16 bytes.
enum class access_form { scalar, vector };
// Elements of a tensor, with a stride of `step`, to and from neighbouring ones of an array in registers.
struct load_vector {
  buffer_id into = 0;
  index_expr at = 0;
  access from;
  int64_t width = 1, step = 1;
  access_form form = access_form::scalar;
};
// Whether vectors that are stored stay in the last-level cache like others, or are the first to leave it.
enum class caching { usual, streaming };
struct store_vector {
  access to;
  buffer_id from = 0;
  int64_t width = 1, step = 1;
  access_form form = access_form::scalar;
  caching cached = caching::usual;
};
enum class unrolling { none, whole, some };
struct loop {
  std::string variable;  // from `first` to below `count`
  index_expr count = 0;
  unrolling unroll = unrolling::none;
  block body;
  index_expr first = 0;
  int64_t step = 1;
  bool whole_steps = false;    // only while a whole step is left
  int64_t unrolled_steps = 0;  // of unrolling::some
  std::string asks = {};       // the condition in C, where it is another one; it is false from `count` on all the same
};
struct guard {
  std::vector<condition> all;
  std::vector<std::string> tests = {};  // that are true, too
  block body;
  block otherwise;
};
struct scope {
  block body;
};
struct branch {  // where a value is true, which data decides
  value when;
  block body;
  block otherwise;
};
// Ends the kernel for threads where this is true.
struct leave {
  condition when;
};
struct barrier {
  enum class among { block, warp, cluster };
  among of = among::block;
};
// An asynchronous copy of `width` elements to shared memory; zeros, where `real` (in C) is false. Those up to a commit
// are a group.
struct copy {
  access to, from;
  int64_t width = 1;
  std::string real;
};
struct commit_copies {};
// Until all groups are there but the last ones.
struct wait_for_copies {
  int64_t but = 0;
};
// A function of the dialect. `changed`: buffers that it writes, and reads; of shared ones it leaves nothing that needs
// a barrier. `reads`: what else it reads.
struct call {
  value what;
  std::vector<buffer_id> changed = {};
  std::vector<region> reads = {};
};

// Lines that are no other statement, such as a running sum's over lanes. Nothing looks into them.
struct raw {
  std::string line;
  std::vector<std::string> defines = {};
};

struct statement {
  std::variant<declare, point, let, divide, assume, define, assign, test, store, combine, reduce_lanes, load_vector,
               store_vector, loop, guard, scope, branch, leave, barrier, copy, commit_copies, wait_for_copies, call,
               raw>
      is;
};

// What the statements of a kernel are about.
struct kernel {
  int64_t threads = 0;  // of a block
  int64_t blocks = 0;   // in one dimension
  std::vector<buffer> buffers;
  block body;
};

// Bytes of shared memory that the launch must say.
int64_t dynamic_bytes(const kernel& k);

// Whether a kernel only reads what a pointer of it leads to.
enum class pointee { read, written };

class kernel_builder {
 public:
  kernel_builder(int64_t threads, int64_t blocks) : made_{threads, blocks, {}, {}} {}

  buffer_id tensor(std::string name, dtype type, int64_t elements, int64_t first = 0);
  // Declares it, too.
  buffer_id array(std::string name, dtype type, space where, std::vector<int64_t> shape,
                  std::optional<std::string> values = {}, std::string remark = {}, std::string spelled = {});
  // An array in shared memory whose elements are read as vectors.
  buffer_id vectors(std::string name, dtype type, std::vector<int64_t> shape);
  // So many elements in the launch's shared memory, `at` bytes (a multiple of 16) from its beginning: see
  // buffer::dynamic_at.
  buffer_id dynamic(std::string name, dtype type, int64_t at, int64_t elements);
  // All of that memory as one array; see buffer::launched.
  buffer_id launched(std::string name, dtype type, int64_t elements, int64_t alignment);
  buffer_id pointer(std::string name, buffer_id into, const index_expr& offset, pointee use,
                    pointer_is is = pointer_is::variable);
  // A pointer that C declares otherwise, such as an element of an array of pointers.
  buffer_id known_pointer(std::string name, buffer_id into, index_range offset);
  // A pointer into shared memory, whose elements it may take as another type. `where`: warp_shared, if each warp has
  // its own part.
  buffer_id view(std::string name, buffer_id into, dtype type, const index_expr& offset, pointee use,
                 space where = space::shared, std::string remark = {});

  // The thread's number among those of all blocks.
  index_expr thread_of_all() const;

  index_expr let(const std::string& type, const std::string& name, const index_expr& i);
  std::vector<index_expr> let(const std::string& type, std::vector<std::pair<std::string, index_expr>> names);
  void add(statement s) { here().push_back(std::move(s)); }
  void define(std::string name, value v, std::string remark = {}) {
    add({tile::define{std::move(name), std::move(v), std::move(remark)}});
  }
  void change(std::string name, value v) { add({tile::define{std::move(name), std::move(v), {}, true}}); }
  void store(access to, value v) { add({tile::store{std::move(to), std::move(v)}}); }
  void load(buffer_id into, const index_expr& at, const access& from, int64_t width, int64_t step, access_form form);
  void store(const access& to, buffer_id from, int64_t width, int64_t step, access_form form,
             caching cached = caching::usual);
  void loop(const std::string& variable, int64_t count, unrolling unroll, const std::function<void(index_expr)>& body);
  void loop(tile::loop of, const std::function<void()>& body);
  void guard(std::vector<condition> all, const std::function<void()>& body);  // without conditions: just the body
  void guard(std::vector<condition> all, std::vector<std::string> tests, const std::function<void()>& body,
             const std::function<void()>& otherwise = {});
  void scope(const std::function<void()>& body);
  void branch(value when, const std::function<void()>& body, const std::function<void()>& otherwise = {});
  void barrier() { add({tile::barrier{}}); }

  kernel finish() && { return std::move(made_); }

 private:
  block& here() { return open_.empty() ? made_.body : open_.back(); }
  block inside(const std::function<void()>& body);

  kernel made_;
  std::vector<block> open_;
};

}  // namespace cudal1::tile
