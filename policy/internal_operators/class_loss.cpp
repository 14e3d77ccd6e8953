#include "policy/internal_operators/class_loss.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "policy/body/body_edits.hpp"
#include "policy/body/operator_values.hpp"
#include "policy/graph/alignment.hpp"
#include "policy/graph/proofs.hpp"
#include "policy/graph/step_arguments.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::class_loss";
constexpr int k_exponential = 12;

int reduce(kernel_body& body, reduction_kind how, int of) {
  body_node n;
  n.kind = node_kind::reduce;
  n.reduction = how;
  n.operands = {of};
  n.per_row = true;
  return add_node(body, std::move(n));
}

// What makes float32 of a half type for this step alone; null for none.
const graph_step* conversion_of(const graph& g, int step, const std::string& value) {
  const graph_step* made = made_for(g, step, value);
  if (made == nullptr || !made->record().traits.kernel || made->record().traits.kernel->form != kernel_form::conversion)
    return nullptr;
  const auto from = tensor_argument_name(*made, "self");
  return from && is_half(g.type_of(g.resolve(*from)).type) ? made : nullptr;
}

// What puts the same rows, in their order, at other places or under other dimensions, for this step alone; null for
// none.
const graph_step* arrangement_of(const graph& g, int step, const std::string& value) {
  constexpr std::array<std::string_view, 5> arrangements = {"aten::view", "aten::reshape", "aten::flatten.using_ints",
                                                            "aten::contiguous", "aten::clone"};
  const graph_step* made = made_for(g, step, value);
  if (made == nullptr || std::ranges::count(arrangements, made->task_op()) == 0) return nullptr;
  const auto from = tensor_argument_name(*made, "self");
  const auto &x = g.type_of(g.resolve(*from)).shape, &y = made->result_types[0].shape;
  return x.size() >= 2 && x.back() == y.back() ? made : nullptr;
}

enum class class_dimension { second, last };

// The log-softmax over the classes, which are the last dimension or the second one, that is made for this step alone;
// null for none.
const graph_step* log_softmax_of(const graph& g, int step, const std::string& value, class_dimension classes) {
  const graph_step* made = made_for(g, step, value);
  if (made == nullptr || !made->record().traits.rows || made->record().traits.rows->form != row_form::log_softmax)
    return nullptr;
  const int64_t dim = integer_argument(*made, "dim").value_or(0);
  const auto from = tensor_argument_name(*made, "self");
  const bool same = from && g.type_of(g.resolve(*from)).type == made->result_types[0].type;
  const int64_t rank = made->result_types[0].dim();
  return same && (dim < 0 ? dim + rank : dim) == (classes == class_dimension::last ? rank - 1 : 1) ? made : nullptr;
}

class loss_writer final : public step_lowering {
 public:
  loss_writer(const graph& g, program_kernels& kernels) : graph_(&g), kernels_(&kernels) {}

  expected<void> add(const graph_step& s, const aten_step& call) override {
    const class_loss_operands operands{graph_->resolve(*tensor_argument_name(s, "self")),
                                       graph_->resolve(*tensor_argument_name(s, "target")),
                                       *integer_argument(s, "classes")};
    // The names that the values have in the lowered program.
    const std::string target = argument_of(call, "target")->as_string(), result = call.results.at(0);
    const std::string values = argument_of(call, "self")->as_string();
    const std::string rows = graph_->fresh_name(result + "_rows");
    const kernel_body each = rows_of(s, operands, values, target, rows);
    const kernel_body all = sum_of(s, operands, target, rows, result);
    CUDAL1_CHECK(write(each, fmt::format("loss{}", written_++), "the loss of each row"));
    return write(all, fmt::format("loss{}", written_++), "the sum of the rows' losses");
  }

 private:
  expected<void> write(const kernel_body& body, const std::string& name, const std::string& comment) {
    CUDAL1_TRY(const auto steps, kernels_->add({&body, {}, name, comment}));
    auto& all = kernels_->into().steps;
    all.insert(all.end(), steps.begin(), steps.end());
    return {};
  }

  // The sizes of rows and classes, or what goes with them, in the order of a kernel's axes: the classes last.
  static std::vector<int64_t> classes_last(std::vector<int64_t> v, int64_t classes) {
    std::rotate(v.begin() + classes, v.begin() + classes + 1, v.end());
    return v;
  }
  // Strides of a tensor with an element for each row, in the order of the rows: it may have one dimension for all.
  static std::vector<int64_t> row_strides(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
    std::vector<int64_t> out = strides;
    out.push_back(0);
    if (out.size() == extents.size()) return out;
    out.assign(extents.size(), 0);
    int64_t step = strides.at(0);
    for (std::size_t d = extents.size() - 1; d-- > 0; step *= extents[d])
      out[d] = step;
    return out;
  }

  // max, sum of exponentials, and the element of the target's class. A class that does not exist gives NaN.
  kernel_body rows_of(const graph_step& s, const class_loss_operands& of, const std::string& values,
                      const std::string& target, const std::string& rows) const {
    const tensor_type &x = graph_->type_of(of.values), &t = graph_->type_of(of.target);
    kernel_body body;
    const std::vector<int64_t> extents = classes_last(x.shape, of.classes);
    body.axes = parallel_axes(extents);
    body.axes.back().role = axis_role::reduced;
    const auto strides = classes_last(x.strides, of.classes);
    const int element = add_load(body, {values, x, strides, starts_aligned(*graph_, of.values)}, values_per::element);
    const int top = reduce(body, reduction_kind::max, element);
    const int power =
        add_pointwise(body, exponential_of_difference, {element, top}, values_per::element, k_exponential);
    const int total = reduce(body, reduction_kind::sum, power);
    const int log_sum = add_pointwise(body, "logf($0)", {total}, values_per::row);
    const int index = add_load(body, {target, t, row_strides(extents, t.strides)}, values_per::row);
    body_access of_class{values, x, strides};
    of_class.strides.back() = 0;
    of_class.gather_stride = strides.back();
    of_class.gather_count = extents.back();
    const int chosen = add_load(body, std::move(of_class), values_per::row, {index});
    const std::string ignored = fmt::format("$0 == {}ll", integer_argument(s, "ignore_index").value_or(-100));
    const std::string expression =
        fmt::format("{} ? 0.0f : ($0 < 0ll || $0 >= {}ll ? {} : $1 - ($2 - $3))", ignored, extents.back(),
                    c_literal(std::numeric_limits<double>::quiet_NaN(), dtype::float32));
    const int loss = add_pointwise(body, expression, {index, log_sum, chosen, top}, values_per::row);
    const tensor_type of_rows = contiguous(dtype::float32, t.shape);
    body.results.push_back({loss, {rows, of_rows, row_strides(extents, of_rows.strides)}});
    return body;
  }

  // The mean is over the rows that are not ignored; without any it is NaN, as ATen's is.
  kernel_body sum_of(const graph_step& s, const class_loss_operands& of, const std::string& target,
                     const std::string& rows, const std::string& result) const {
    const tensor_type& t = graph_->type_of(of.target);
    kernel_body body;
    for (const auto extent : t.shape)
      body.axes.push_back({extent, axis_role::reduced});
    const tensor_type of_rows = contiguous(dtype::float32, t.shape);
    int sum = reduce(body, reduction_kind::sum, add_load(body, {rows, of_rows, of_rows.strides}, values_per::element));
    if (integer_argument(s, "reduction").value_or(1) == 1) {
      const int index = add_load(body, {target, t, t.strides}, values_per::element);
      const int counts = add_pointwise(
          body, fmt::format("$0 == {}ll ? 0.0f : 1.0f", integer_argument(s, "ignore_index").value_or(-100)), {index});
      sum = add_pointwise(body, "$0 / $1", {sum, reduce(body, reduction_kind::sum, counts)}, values_per::row);
    }
    const tensor_type& type = s.result_types[0];
    body.results.push_back({sum, {result, type, std::vector<int64_t>(t.shape.size(), 0)}});
    return body;
  }

  const graph* graph_;
  program_kernels* kernels_;
  int written_ = 0;
};

// Why it is not a sum or mean over rows of classes with one index each; nothing if it is.
std::optional<std::string_view> why_not_rows(const graph_step& loss, const tensor_type& values,
                                             const tensor_type& target) {
  if (computed_in(values.type) != dtype::float32 || target.type != dtype::int64) return "it has no class indices";
  if (values.dim() < 2 || values.numel() == 0) return "it has no rows of classes";
  if (tensor_argument_name(loss, "weight")) return "its classes have weights";
  if (number_argument(loss, "label_smoothing").value_or(0) != 0) return "its labels are smoothed";
  if (integer_argument(loss, "reduction").value_or(1) == 0) return "it is not summed";
  return std::nullopt;
}

}  // namespace

expected<class_loss_operands> operands_of_class_loss(const graph& g, const graph_step& s) {
  const auto no = [&](std::string_view why) {
    return fail(errc::invalid_argument, "step {} ({}): {}", s.number, s.task_op(), why);
  };
  const graph_step& defined = g.definition(s.number);
  const bool takes_logarithms = s.task_op() == "aten::nll_loss" || s.task_op() == "aten::nll_loss_nd";
  if (!takes_logarithms && s.task_op() != "aten::cross_entropy_loss") return no("it is not a cross-entropy");
  class_loss_operands out;
  out.values = g.resolve(tensor_argument_name(defined, "self").value_or(""));
  out.target = g.resolve(tensor_argument_name(defined, "target").value_or(""));
  const tensor_type &x = g.type_of(out.values), &t = g.type_of(out.target);
  if (const auto why = why_not_rows(defined, x, t)) return no(*why);
  int reader = s.number;
  const auto leave_out = [&](const graph_step* made) {
    if (made == nullptr) return false;
    reader = made->number;
    out.left_out.push_back(reader);
    out.values = g.resolve(*tensor_argument_name(*made, "self"));
    return true;
  };
  const auto leave_out_arrangements = [&] {
    while (leave_out(arrangement_of(g, reader, out.values)))
      ;
  };
  // With the classes last, the rows may be reached through views; else they are as the loss has them.
  const bool are_last = x.dim() == 2;
  if (are_last) leave_out_arrangements();
  if (takes_logarithms &&
      !leave_out(log_softmax_of(g, reader, out.values, are_last ? class_dimension::last : class_dimension::second)))
    return no("its input is not a log-softmax over the classes that nothing else reads");
  if (are_last) leave_out_arrangements();
  if (leave_out(conversion_of(g, reader, out.values)) && are_last) leave_out_arrangements();
  const tensor_type& from = g.type_of(out.values);
  out.classes = are_last ? from.dim() - 1 : 1;
  // The classes of an image are not contiguous, and ATen's kernel reads them better than one that takes row after row.
  if (!are_last && from.strides[1] != 1) return no("the classes of a row are not contiguous");
  return out;
}

operator_use class_loss(const graph& g, const graph_step& s, const class_loss_operands& of) {
  operator_use out{k_name, s.use->arguments};
  out.arguments.emplace_back("classes", scalar_value(of.classes));
  for (auto& [name, value] : out.arguments)
    if (name == "self") value = tensor_argument{of.values, g.type_of(of.values)};
  return out;
}

internal_operator class_loss_operator() {
  return {k_name, [](const graph& g, program_kernels& kernels) { return std::make_unique<loss_writer>(g, kernels); }};
}

}  // namespace cudal1
