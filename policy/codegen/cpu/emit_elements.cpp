// One index over all elements: each thread computes one element or a run of consecutive elements.
#include "policy/codegen/cpu/cpu_kernels.hpp"
#include "policy/codegen/kernel_writer.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

class elements_writer {
 public:
  explicit elements_writer(const emit_request& request) : w_(request) {
    for (const auto size : w_.body().extents())
      elements_ *= size;
    if (!w_.body().axes.empty()) coordinates_ = {index_expr::variable("i", elements_)};
  }

  emitted_kernel write() {
    const kernel_options options = with_cpu_defaults(w_.body(), w_.request().options);
    threads_ = options[kernel_tunable::block];
    items_ = options[kernel_tunable::items];
    if (w_.body().dims() > 1) items_ = 1;  // an index over several axes is decomposed per thread
    w_.open_kernel();
    if (items_ == 1) {
      write_single();
    } else {
      write_run();
    }
    w_.close();
    emitted_kernel out;
    out.source = w_.text();
    out.steps = w_.allocations();
    launch_step launch;
    launch.kernel = w_.request().name;
    const int64_t per_block = threads_ * items_;
    launch.grid = {(elements_ + per_block - 1) / per_block, 1, 1};
    launch.block = {threads_, 1, 1};
    launch.args = w_.arguments();
    out.steps.emplace_back(std::move(launch));
    return out;
  }

 private:
  void write_single() {
    w_.line("int i = blockIdx.x * blockDim.x + threadIdx.x;");
    const bool exact = elements_ % threads_ == 0;
    if (!exact) w_.open(fmt::format("if (i < {})", elements_));
    if (w_.body().dims() > 1)
      coordinates_ = w_.write_coordinates("i", split(index_expr::variable("i", elements_), w_.body().extents()));
    write_values();
    if (!exact) w_.close();
  }

  void write_run() {
    w_.line(fmt::format("const int first = (int)(blockIdx.x * blockDim.x + threadIdx.x) * {};", items_));
    if (elements_ % (threads_ * items_) == 0) {
      w_.open(fmt::format("for (int i = first; i < first + {}; ++i)", items_));
    } else {
      w_.line(fmt::format("const int last = first + {0} < {1} ? first + {0} : {1};", items_, elements_));
      w_.open("for (int i = first; i < last; ++i)");
    }
    write_values();
    w_.close();
  }

  std::string offset(const body_access& o) const { return offset_in(o, coordinates_).text(); }

  void write_values() {
    std::vector<bool> needed(w_.body().nodes.size(), false);
    for (const auto& r : w_.body().results)
      needed[static_cast<std::size_t>(r.node)] = true;
    for (std::size_t n = needed.size(); n-- > 0;) {
      if (!needed[n]) continue;
      for (const int o : w_.body().nodes[n].operands)
        needed[static_cast<std::size_t>(o)] = true;
    }
    for (std::size_t n = 0; n < needed.size(); ++n) {
      const int number = static_cast<int>(n);
      const body_node& from = w_.node(number);
      if (!needed[n] || from.kind == node_kind::constant) continue;
      std::string value;
      if (from.kind == node_kind::load) {
        const auto& o = w_.body().accesses[static_cast<std::size_t>(from.access)];
        value = w_.element(number, w_.pointer(from.access), offset(o));
      } else {
        value = w_.expression(number);
      }
      w_.define(number, value);
    }
    for (std::size_t r = 0; r < w_.body().results.size(); ++r) {
      const auto& result = w_.body().results[r];
      w_.line(fmt::format("{}[{}] = {};", w_.target(static_cast<int>(r)), offset(result.target),
                          stored(result.target.type.type, w_.spelled(result.node))));
    }
  }

  kernel_writer w_;
  int64_t elements_ = 1, threads_ = 0, items_ = 0;
  std::vector<index_expr> coordinates_;  // of an element
};

}  // namespace

expected<emitted_kernel> emit_elements(const emit_request& request) {
  return elements_writer(request).write();
}

}  // namespace cudal1
