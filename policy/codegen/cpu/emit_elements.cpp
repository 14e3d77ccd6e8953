// One index over all elements: each thread computes one element or a run of consecutive elements.
#include <numeric>

#include "policy/codegen/cpu/cpu_kernels.hpp"
#include "policy/codegen/kernel_writer.hpp"

namespace cudal1 {

namespace {

class elements_writer {
 public:
  explicit elements_writer(const emit_request& request) : w_(request) {
    for (const auto size : w_.body().extents())
      elements_ *= size;
    if (!w_.body().axes.empty()) coordinates_ = {index_expr::variable("i", elements_)};
  }

  expected<emitted_kernel> write() {
    const kernel_options options = with_cpu_defaults(w_.body(), w_.request().options);
    threads_ = options[kernel_tunable::block];
    items_ = options[kernel_tunable::items];
    if (w_.body().dims() > 1) items_ = 1;  // an index over several axes is decomposed per thread
    const int64_t per_block = threads_ * items_;
    w_.open_kernel();
    tile::kernel_builder b(threads_, (elements_ + per_block - 1) / per_block);
    at_ = w_.add_tensors(b);
    items_ == 1 ? write_single(b) : write_run(b);
    return w_.finished(std::move(b).finish(), std::nullopt);
  }

 private:
  void write_single(tile::kernel_builder& b) {
    const index_expr number = b.let("int", "i", b.thread_of_all().as("int"));
    std::vector<tile::condition> exists;
    if (elements_ % threads_ != 0) exists.push_back({number, tile::condition::how::below, elements_});
    b.guard(std::move(exists), [&] {
      if (w_.body().dims() > 1) {
        const auto at = split(index_expr::variable("i", elements_), w_.body().extents());
        for (std::size_t d = at.size(); d-- > 0;)
          b.let("int", fmt::format("i{}", d), at[d]);
        coordinates_ = named_coordinates("i", w_.body().extents());
      }
      write_values(b);
    });
  }

  void write_run(tile::kernel_builder& b) {
    const index_expr first = b.let("int", "first", b.thread_of_all().as("int") * items_);
    index_expr end = first + items_;
    if (elements_ % (threads_ * items_) != 0) end = b.let("int", "last", index_expr::min(end, elements_));
    b.loop(tile::loop{"i", end, tile::unrolling::none, {}, first}, [&] { write_values(b); });
  }

  index_expr offset(const body_access& o) const { return offset_in(o, coordinates_); }

  void write_values(tile::kernel_builder& b) {
    std::vector<int> nodes(w_.body().nodes.size());
    std::iota(nodes.begin(), nodes.end(), 0);
    w_.define_nodes(b, nodes, [&](int n) {
      const auto& o = w_.body().accesses[static_cast<std::size_t>(w_.node(n).access)];
      return tile::value::element(w_.place_of(n, at_, offset(o)), w_.node(n).type);
    });
    for (const auto& [r, tensor] : at_.results) {
      const auto& result = w_.body().results[static_cast<std::size_t>(r)];
      b.store({tensor, {offset(result.target)}}, w_.named(result.node));
    }
  }

  kernel_writer w_;
  kernel_writer::tensors at_;
  int64_t elements_ = 1, threads_ = 0, items_ = 0;
  std::vector<index_expr> coordinates_;  // of an element
};

}  // namespace

expected<emitted_kernel> emit_elements(const emit_request& request) {
  return elements_writer(request).write();
}

}  // namespace cudal1
