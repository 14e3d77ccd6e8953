#include "policy/graph/separate_statistics.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "policy/graph/convolution_geometry.hpp"
#include "policy/graph/found_steps.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr int k_most_between = 16;  // steps from a convolution to its norm

struct channel_norm {
  std::string input, weight, bias;  // "" for none
  std::vector<int64_t> shape;       // of the input
  double eps = 1e-5;
  bool of_batch = false;  // or else of each sample
  int64_t groups = 0;     // of channels that have one mean; 0: each has its own
};

bool is_norm(const graph_step& s) {
  return s.op() == "aten::group_norm" || s.op() == "aten::instance_norm" ||
         (s.op() == "aten::batch_norm" && boolean_argument(s, "training").value_or(false));
}

// Whether elementwise steps make the value of a convolution's result.
bool is_of_convolution(const graph& g, std::string value) {
  for (int n = 0; n < k_most_between; ++n) {
    const graph_step* made = g.producer(g.resolve(value));
    if (made == nullptr || made->dropped) return false;
    if (made->record().kind == operator_kind::convolution) return true;
    if (made->record().kind != operator_kind::pointwise) return false;
    const auto operands = made->operands();
    const auto same = std::ranges::find_if(operands, [&](const std::string& o) {
      return g.type_of(o).shape == made->result_types[0].shape && g.producer(g.resolve(o)) != nullptr;
    });
    if (same == operands.end()) return false;
    value = *same;
  }
  return false;
}

expected<channel_norm> channel_norm_of(const graph& g, int number) {
  const auto no = [&](const char* why) { return fail(errc::invalid_argument, "step {}: {}", number, why); };
  if (!g.has_step(number)) return fail(errc::invalid_argument, "there is no step {}", number);
  const graph_step& s = g.step_at(number);
  if (!is_norm(s)) return no("it is no batch norm in training mode, instance norm or group norm");
  channel_norm out;
  out.input = *tensor_argument_name(s, "input");
  const tensor_type& type = g.type_of(out.input);
  if (type.type != dtype::float32) return no("its statistics would be rounded to a half type");
  if (type.dim() < 3) return no("its input has no dimensions in space");
  if (!is_of_convolution(g, out.input)) return no("its input is not made of a convolution's result");
  for (const auto& [name, into] : {std::pair("weight", &out.weight), std::pair("bias", &out.bias)})
    if (const auto value = tensor_argument_name(s, name)) {
      if (!g.is_constant(*value)) return no("its weights are computed in each call");
      *into = *value;
    }
  out.shape = type.shape;
  out.eps = number_argument(s, "eps").value_or(1e-5);
  out.of_batch = s.op() == "aten::batch_norm";
  if (s.op() == "aten::group_norm") {
    out.groups = integer_argument(s, "num_groups").value_or(1);
    if (out.weight.empty() || out.bias.empty()) return no("it has no weights");
  }
  return out;
}

class norm_writer {
 public:
  norm_writer(program_changes& out, const channel_norm& what, std::string result)
      : out_(&out), n_(&what), result_(std::move(result)) {}

  void write() {
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < std::ssize(n_->shape); ++d)
      if (d > 1 || (d == 0 && n_->of_batch)) dims.push_back(d);
    const std::string mean = mean_of(n_->input, dims), variance = variance_of(n_->input, dims);
    if (n_->groups > 0) return write_groups(mean, variance);
    std::string scale = inverse_root(variance);
    if (!n_->weight.empty()) scale = both("aten::mul.Tensor", scale, by_channel(n_->weight), "scale");
    const std::string centred = both("aten::sub.Tensor", n_->input, mean, "centred");
    if (n_->bias.empty()) return finish("aten::mul.Tensor", centred, scale);
    finish("aten::add.Tensor", both("aten::mul.Tensor", centred, scale, "scaled"), by_channel(n_->bias));
  }

 private:
  // A group's variance is the mean of its channels' variances, and the variance of their means.
  void write_groups(const std::string& mean, const std::string& variance) {
    const int64_t in_group = n_->shape[1] / n_->groups;
    const std::vector<int64_t> by_group = {n_->shape[0], n_->groups, in_group};
    const std::string means = seen(mean, by_group);
    const std::string of_group = mean_of(means, {2});
    const std::string within = mean_of(seen(variance, by_group), {2});
    const std::string all = both("aten::add.Tensor", within, variance_of(means, {2}), "variance_of_group");
    const auto weights = [&](const std::string& of) { return set_up(of, {1, n_->groups, in_group}, "_by_group"); };
    const std::string scale = both("aten::mul.Tensor", inverse_root(all), weights(n_->weight), "scale");
    const std::string moved = both("aten::mul.Tensor", of_group, scale, "moved");
    const std::string shift = both("aten::sub.Tensor", weights(n_->bias), moved, "shift");
    std::vector<int64_t> along(n_->shape.size(), 1);
    std::copy_n(n_->shape.begin(), 2, along.begin());
    finish("aten::add.Tensor", both("aten::mul.Tensor", n_->input, seen(scale, along), "scaled"), seen(shift, along));
  }

  std::string name(const char* what) { return out_->new_name(result_ + "_" + what); }
  std::string mean_of(const std::string& value, const std::vector<int64_t>& dims) {
    return out_->add("aten::mean.dim", {{"self", json(value)}, {"dim", list_of(dims)}, {"keepdim", json(true)}},
                     name("mean"));
  }
  std::string variance_of(const std::string& value, const std::vector<int64_t>& dims) {
    return out_->add("aten::var.correction",
                     {{"self", json(value)}, {"dim", list_of(dims)}, {"correction", json(0)}, {"keepdim", json(true)}},
                     name("variance"));
  }
  std::string inverse_root(const std::string& variance) {
    const std::string moved =
        out_->add("aten::add.Scalar", {{"self", json(variance)}, {"other", json(n_->eps)}}, name("variance"));
    return out_->add("aten::rsqrt", {{"self", json(moved)}}, name("scale"));
  }
  std::string both(const char* op, const std::string& a, const std::string& b, const char* what) {
    return out_->add(op, {{"self", json(a)}, {"other", json(b)}}, name(what));
  }
  void finish(const char* op, const std::string& a, const std::string& b) {
    out_->add(op, {{"self", json(a)}, {"other", json(b)}}, result_);
  }
  std::string seen(const std::string& value, const std::vector<int64_t>& shape) {
    return out_->add("aten::reshape", {{"self", json(value)}, {"shape", list_of(shape)}},
                     out_->new_name(value + "_seen"));
  }
  std::string set_up(const std::string& weights, const std::vector<int64_t>& shape, const char* suffix) {
    return out_->at_set_up("aten::reshape", {{"self", json(weights)}, {"shape", list_of(shape)}}, weights + suffix);
  }
  std::string by_channel(const std::string& weights) {
    std::vector<int64_t> shape(n_->shape.size() - 1, 1);
    shape[0] = n_->shape[1];
    return set_up(weights, shape, "_by_channel");
  }

  program_changes* out_;
  const channel_norm* n_;
  std::string result_;
};

}  // namespace

std::vector<int> norms_of_convolutions(const graph& g) {
  return found_among<channel_norm>(g, is_norm, channel_norm_of);
}

expected<proved_task> with_separate_statistics(const graph& g, std::span<const int> steps) {
  CUDAL1_TRY(auto found, all_found<channel_norm>(g, steps, channel_norm_of));
  program_changes out(g.origin().reference);
  for (const auto& s : g.steps()) {
    if (const auto now = found.find(s.number); now != found.end())
      norm_writer(out, now->second, s.text->results[0]).write();
    else
      out.add(*s.text);
  }
  CUDAL1_TRY(auto with, with_program(g.origin(), out.take()));
  return proved_task{
      std::move(with),
      fmt::format("the norms {} subtract a mean and multiply by the inverse root of a variance, which are "
                  "steps of their own",
                  print_steps({steps.begin(), steps.end()}))};
}

}  // namespace cudal1
