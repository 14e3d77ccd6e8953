#include "policy/codegen/program_kernels.hpp"

#include <fmt/format.h>

#include "policy/codegen/kernel_template.hpp"
#include "policy/tile/c_text.hpp"
#include "policy/tile/statement_check.hpp"
#include "policy/tile/statement_print.hpp"
#include "policy/tile/statement_work.hpp"

namespace cudal1 {

namespace {

// The request with neutral names: of the kernel, and of the values in the order of the body.
class neutral_request {
 public:
  explicit neutral_request(const emit_request& from) : body_(*from.body) {
    for (auto& o : body_.accesses)
      o.value = neutral(o.value);
    for (auto& r : body_.results)
      r.target.value = neutral(r.target.value);
    for (auto& n : body_.nodes)
      if (!n.value.empty()) n.value = neutral(n.value);
    request_ = {&body_, from.options, "k", ""};
    if (!from.options.in_place.empty()) request_.options.in_place = neutral(from.options.in_place);
  }
  neutral_request(const neutral_request&) = delete;
  neutral_request& operator=(const neutral_request&) = delete;

  const emit_request& get() const { return request_; }

 private:
  std::string neutral(const std::string& value) {
    return names_.try_emplace(value, fmt::format("v{}", names_.size())).first->second;
  }

  kernel_body body_;
  emit_request request_;
  std::map<std::string, std::string> names_;
};

}  // namespace

// The parameters' order follows from the body's operands and results, so that launches of equal texts agree.
expected<std::vector<step>> program_kernels::add(const emit_request& request) {
  const neutral_request nameless(request);
  CUDAL1_TRY(const emitted_kernel same, target_->emit(nameless.get()));
  const auto [known, is_new] = names_.try_emplace(same.source, request.name);
  emit_request named = request;
  named.name = known->second;  // its values keep the prefix of the request
  CUDAL1_TRY(emitted_kernel kernel, target_->emit(named));
  if (is_new) {
    if (!out_->source.empty()) out_->source += "\n";
    out_->source += kernel.source;
  }
  work_.merge(kernel.work);
  for (auto& s : kernel.setup)
    out_->setup.push_back(std::move(s));
  return std::move(kernel.steps);
}

// The parameters are the tensors in their order, those that are written without const.
expected<launch_step> program_kernels::add(const template_kernel& kernel, const std::string& name) {
  if (!target_->writes_templates())
    return fail(errc::unsupported, "kernel templates are for GPUs, and this is for {}", target_->name());
  const tile::kernel& k = kernel.statements;
  if (auto checked = tile::check(k); !checked) return fail_in(kernel.comment, checked.error());
  std::string parameters;
  const auto add_parameter = [&](tile::buffer_id id, const char* access) {
    const tile::buffer& b = k.buffers[id];
    parameters +=
        fmt::format("{}{}{}* __restrict__ {}", parameters.empty() ? "" : ", ", access, memory_type(b.type), b.name);
  };
  for (const auto& [id, argument] : kernel.reads)
    add_parameter(id, "const ");
  for (const auto* written : {&kernel.writes, &kernel.scratch})
    for (const tile::buffer_id id : *written)
      add_parameter(id, "");
  const auto text = [&](const std::string& called) {
    return fmt::format("// {}\n__global__ void __launch_bounds__({}) {}({}) {{\n{}}}\n", kernel.comment, k.threads,
                       called, parameters, tile::print(k));
  };
  const auto [known, is_new] = names_.try_emplace(text("k"), name);
  if (is_new) {
    if (!out_->source.empty()) out_->source += "\n";
    out_->source += text(name);
    work_[name] = tile::work_of(k);
  }
  launch_step launch;
  launch.kernel = known->second;
  launch.grid = {k.blocks, 1, 1};
  launch.block = {k.threads, 1, 1};
  launch.shared_bytes = tile::dynamic_bytes(k);
  launch.cooperative = kernel.cooperative;
  return launch;
}

}  // namespace cudal1
