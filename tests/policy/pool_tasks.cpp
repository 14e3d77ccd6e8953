#include "tests/policy/pool_tasks.hpp"

#include <fmt/format.h>

#include "tests/policy/network_text.hpp"

namespace cudal1::test {

namespace {

// Odd sizes, all kinds of windows, what the last ones lack, and every way in which kernels read them.
constexpr pool_text k_windows[] = {
    {"max_2x2", "2, 3, 9, 7", R"(y = max_pool2d {"self": "x", "kernel_size": 2})"},
    {"max_pieces", "2, 3, 8, 16", R"(y = max_pool2d {"self": "x", "kernel_size": [2, 2]})"},
    {"max_overlapping", "2, 3, 17, 19", R"(y = max_pool2d {"self": "x", "kernel_size": 3, "stride": 1, "padding": 1})"},
    {"max_stride_2", "1, 4, 15, 14", R"(y = max_pool2d {"self": "x", "kernel_size": 3, "stride": 2, "padding": 1})"},
    {"max_dilated", "1, 2, 14, 15",
     R"(y = max_pool2d {"self": "x", "kernel_size": 3, "stride": 2, "padding": 1, "dilation": [3, 2]})"},
    {"max_ceil", "2, 2, 8, 10", R"(y = max_pool2d {"self": "x", "kernel_size": 3, "stride": 2, "ceil_mode": true})"},
    {"max_ceil_padded", "1, 3, 6, 7",
     R"(y = max_pool2d {"self": "x", "kernel_size": [2, 4], "stride": [3, 3], "padding": [1, 2], "ceil_mode": true})"},
    {"max_nothing_inside", "1, 2, 1, 6",
     R"(y = max_pool2d {"self": "x", "kernel_size": 2, "stride": 1, "padding": 1, "dilation": 2})"},
    {"max_of_rows", "2, 2, 5, 12", R"(y = max_pool2d {"self": "x", "kernel_size": [1, 3], "stride": [1, 2]})"},
    {"max_of_columns", "2, 2, 9, 6", R"(y = max_pool2d {"self": "x", "kernel_size": [3, 1], "stride": [1, 1]})"},
    {"max_of_single_elements", "2, 2, 9, 7", R"(y = max_pool2d {"self": "x", "kernel_size": 1, "stride": [2, 3]})"},
    {"max_one_window", "1, 1, 5, 5", R"(y = max_pool2d {"self": "x", "kernel_size": 5})"},
    {"max_one_image", "3, 9, 11", R"(y = max_pool2d {"self": "x", "kernel_size": 3, "stride": 2, "padding": 1})"},
    {"max_masked_pieces", "1, 3, 9, 32",
     R"(y = max_pool2d {"self": "x", "kernel_size": [3, 4], "stride": [1, 4], "padding": [1, 0]})"},
    {"max_padded_pieces", "2, 3, 8, 16",
     R"(y = max_pool2d {"self": "x", "kernel_size": 4, "stride": 4, "padding": 2})"},
    {"max_ceil_pieces", "2, 3, 8, 14",
     R"(y = max_pool2d {"self": "x", "kernel_size": 4, "stride": 4, "ceil_mode": true})"},
    {"avg_1d_padded_pieces", "2, 3, 32",
     R"(y = avg_pool1d {"self": "x", "kernel_size": 8, "stride": 4, "padding": 4})"},
    {"avg_of_repeated_rows", "2, 1, 16, 8", R"(v = expand {"self": "x", "size": [2, 6, 16, 8]}
                                     y = avg_pool2d {"self": "v", "kernel_size": [3, 4], "stride": [4, 2]})",
     "1", "row_kernel(steps=1); items(group=0, elements=2)"},
    {"max_large", "1, 2, 14, 13", R"(y = max_pool2d {"self": "x", "kernel_size": 11, "stride": 1, "padding": 5})"},
    {"max_1d", "2, 5, 23",
     R"(y = max_pool1d {"self": "x", "kernel_size": 4, "stride": 2, "padding": 2, "dilation": 3})"},
    {"max_3d", "1, 2, 7, 8, 9", R"(y = max_pool3d {"self": "x", "kernel_size": 3, "stride": 2, "padding": 1})"},
    {"max_3d_overlapping", "1, 2, 4, 6, 5",
     R"(y = max_pool3d {"self": "x", "kernel_size": [2, 3, 2], "stride": 1, "padding": 1, "dilation": [2, 1, 1]})"},
    {"max_unread_indices", "2, 2, 9, 8",
     "y i = max_pool2d_with_indices {\"self\": \"x\", \"kernel_size\": 2, \"stride\": 2}"},
    {"avg_2x2", "2, 3, 8, 10", R"(y = avg_pool2d {"self": "x", "kernel_size": 2})"},
    {"avg_3x3", "2, 3, 9, 10", R"(y = avg_pool2d {"self": "x", "kernel_size": 3})"},
    {"avg_overlapping", "2, 3, 11, 10", R"(y = avg_pool2d {"self": "x", "kernel_size": 3, "stride": 1, "padding": 1})"},
    {"avg_without_padding", "2, 3, 11, 10",
     R"(y = avg_pool2d {"self": "x", "kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": false})"},
    {"avg_ceil", "2, 2, 8, 10",
     R"(y = avg_pool2d {"self": "x", "kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": true})"},
    {"avg_ceil_without_padding", "1, 2, 7, 10",
     R"(y = avg_pool2d {"self": "x", "kernel_size": [2, 4], "stride": [2, 3], "padding": [0, 2], "ceil_mode": true, "count_include_pad": false})"},
    {"avg_by_5", "1, 2, 6, 10",
     R"(y = avg_pool2d {"self": "x", "kernel_size": 2, "stride": 1, "padding": 1, "divisor_override": 5})"},
    {"avg_by_minus_4", "1, 2, 6, 10", R"(y = avg_pool2d {"self": "x", "kernel_size": 2, "divisor_override": -4})"},
    {"avg_1d", "2, 6, 32", R"(y = avg_pool1d {"self": "x", "kernel_size": 4})"},
    {"avg_1d_overlapping", "2, 3, 21", R"(y = avg_pool1d {"self": "x", "kernel_size": 4, "stride": 1, "padding": 1})"},
    {"avg_3d", "1, 2, 5, 6, 7",
     R"(y = avg_pool3d {"self": "x", "kernel_size": 2, "stride": 1, "padding": 1, "count_include_pad": false})"},
    {"of_a_slice", "2, 3, 9, 13", R"(v = slice.Tensor {"self": "x", "dim": 3, "start": 1, "end": 12}
                                     y = max_pool2d {"self": "v", "kernel_size": 2, "stride": 2})",
     "1", "row_kernel(steps=1)"},
};

// With pointwise steps in front and behind.
constexpr pool_text k_fused[] = {
    {"relu_max_scale", "2, 3, 9, 12", R"(r = relu {"self": "x"}
                                         p = max_pool2d {"self": "r", "kernel_size": 2, "padding": 1}
                                         y = mul.Scalar {"self": "p", "other": -2.0})",
     "1", "row_kernel(steps=0..2)"},
    {"values_outside_are_not_computed", "2, 3, 9, 12", R"(r = add.Scalar {"self": "x", "other": 3.0}
        p = avg_pool2d {"self": "r", "kernel_size": 3, "stride": 2, "padding": 1}
        y = sub.Scalar {"self": "p", "other": 1.0})",
     "1", "row_kernel(steps=0..2)"},
    {"infinities", "2, 2, 12, 12", R"(r = relu {"self": "x"}
                                      l = log {"self": "r"}
                                      y = max_pool2d {"self": "l", "kernel_size": 2})",
     "1", "row_kernel(steps=0..2)"},
    {"sum_of_two", "2, 3, 11, 10", R"(a = add.Tensor {"self": "x", "other": "z"}
                                      p = max_pool2d {"self": "a", "kernel_size": 3, "stride": 1, "padding": 1}
                                      y = add.Tensor {"self": "p", "other": "z"})",
     "2, 3, 11, 10", "row_kernel(steps=0..2)"},
    {"norm_in_front", "2, 4, 10, 12",
     R"(n = batch_norm {"input": "x", "weight": "w", "bias": "b", "running_mean": "m", "running_var": "s", "training": false, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
        r = relu {"self": "n"}
        y = max_pool2d {"self": "r", "kernel_size": 3, "stride": 2, "padding": 1})",
     "1", "row_kernel(steps=0..2)", "4"},
    {"norm_behind", "2, 4, 10, 12", R"(p = avg_pool2d {"self": "x", "kernel_size": 2, "stride": 1}
        n = batch_norm {"input": "p", "weight": "w", "bias": "b", "running_mean": "m", "running_var": "s", "training": false, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
        y = sigmoid {"self": "n"})",
     "1", "row_kernel(steps=0..2)", "4"},
    {"along_the_pooled_dimension", "2, 3, 8, 6", R"(a = mul.Tensor {"self": "x", "other": "z"}
        p = avg_pool2d {"self": "a", "kernel_size": [2, 3], "stride": [1, 2], "padding": [1, 1]}
        y = neg {"self": "p"})",
     "6", "row_kernel(steps=0..2)"},
    {"residual", "2, 3, 8, 8", R"(p = max_pool2d {"self": "x", "kernel_size": 2}
                                  a = add.Tensor {"self": "p", "other": "z"}
                                  y = tanh {"self": "a"})",
     "2, 3, 4, 4", "row_kernel(steps=0..2)", "1", R"(["y", "p"])"},
    {"largest_less_average", "2, 3, 9, 9", R"(p = max_pool2d {"self": "x", "kernel_size": 3, "stride": 2}
                                              a = avg_pool2d {"self": "x", "kernel_size": 3, "stride": 2}
                                              y = sub.Tensor {"self": "p", "other": "a"})",
     "1", "row_kernel(steps=0..2)"},
};

// Convolutions that take each channel alone: k are their weights, c their bias.
constexpr pool_text k_convolutions[] = {
    {"conv_3x3", "2, 3, 9, 10", R"(y = conv2d {"input": "x", "weight": "k", "padding": 1, "groups": 3})", "3, 1, 3, 3"},
    {"conv_with_bias", "2, 4, 11, 9",
     R"(y = conv2d {"input": "x", "weight": "k", "bias": "c", "stride": 2, "padding": 1, "groups": 4})", "4, 1, 3, 3",
     "row_kernel(steps=0)", "4"},
    {"conv_3x1", "2, 3, 12, 8", R"(y = conv2d {"input": "x", "weight": "k", "groups": 3})", "3, 1, 3, 1"},
    {"conv_3x1_padded", "2, 3, 6, 8", R"(y = conv2d {"input": "x", "weight": "k", "padding": 1, "groups": 3})",
     "3, 1, 3, 1"},
    {"conv_1x3_padded", "2, 3, 6, 8",
     R"(y = conv2d {"input": "x", "weight": "k", "padding": [2, 1], "stride": [2, 1], "groups": 3})", "3, 1, 1, 3"},
    {"conv_1x1", "2, 3, 7, 8", R"(y = conv2d {"input": "x", "weight": "k", "stride": 2, "groups": 3})", "3, 1, 1, 1"},
    {"conv_5x5_dilated", "1, 2, 14, 13",
     R"(y = conv2d {"input": "x", "weight": "k", "padding": [4, 2], "dilation": [2, 1], "groups": 2})", "2, 1, 5, 5"},
    {"conv_one_window", "2, 5, 3, 3", R"(y = conv2d {"input": "x", "weight": "k", "groups": 5})", "5, 1, 3, 3"},
    {"conv_one_channel", "2, 1, 8, 8", R"(y = conv2d {"input": "x", "weight": "k", "padding": 1})", "1, 1, 2, 2"},
    {"conv_even", "1, 3, 8, 16", R"(y = conv2d {"input": "x", "weight": "k", "stride": 4, "groups": 3})", "3, 1, 4, 4"},
    {"conv_1d", "2, 6, 23", R"(y = conv1d {"input": "x", "weight": "k", "bias": "c", "padding": 2, "groups": 6})",
     "6, 1, 5", "row_kernel(steps=0)", "6"},
    {"conv_3d", "1, 2, 5, 6, 7", R"(y = conv3d {"input": "x", "weight": "k", "padding": 1, "groups": 2})",
     "2, 1, 3, 3, 3"},
    {"conv_with_itself", "1, 1, 3, 3", R"(y = conv2d {"input": "x", "weight": "x", "padding": 1, "stride": 5})"},
    {"conv_padded_where_it_is_1", "1, 1, 1, 8", R"(v = expand {"self": "x", "size": [1, 1, 9, 8]}
        y = conv2d {"input": "v", "weight": "k", "stride": [1, 7], "padding": [1, 1]})",
     "1, 1, 3, 1", "row_kernel(steps=1)"},
    {"conv_among_others", "2, 4, 10, 12",
     R"(r = relu {"self": "x"}
        d = conv2d {"input": "r", "weight": "k", "padding": 1, "groups": 4}
        n = batch_norm {"input": "d", "weight": "w", "bias": "b", "running_mean": "m", "running_var": "s", "training": false, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
        y = hardswish {"self": "n"})",
     "4, 1, 3, 3", "row_kernel(steps=0..3)", "4"},
};

}  // namespace

task pool_task(const pool_text& text, const std::string& type) {
  const auto tensor = [&](const char* name, const char* shape) {
    return fmt::format(R"({{"name": "{}", "dtype": "{}", "shape": [{}]}})", name, type, shape);
  };
  std::string inputs = tensor("x", text.shape), weights;
  const std::string steps = text.steps;
  if (steps.find("\"z\"") != std::string::npos) inputs += ", " + tensor("z", text.other);
  if (steps.find("\"k\"") != std::string::npos) weights += tensor("k", text.other);
  if (steps.find("\"c\"") != std::string::npos) weights += ", " + tensor("c", text.channels);
  if (steps.find("\"s\"") != std::string::npos) {
    weights += weights.empty() ? "" : ", ";
    for (const char* name : {"w", "b", "m"})
      weights += tensor(name, text.channels) + ", ";
    weights += fmt::format(R"({{"name": "s", "dtype": "{}", "shape": [{}], "draw": {{"distribution": "uniform", )"
                           R"("low": 0.5, "high": 2}}}})",
                           type, text.channels);
  }
  const std::string tensors = fmt::format(R"("inputs": [{}], "weights": [{}])", inputs, weights);
  return task_of({text.name, tensors.c_str(), text.steps, text.outputs});
}

std::vector<pool_case> pool_cases(const std::string& type) {
  std::vector<pool_case> out;
  for (const auto& each : k_windows)
    out.push_back({pool_task(each, type), each.schedule});
  for (const auto& each : k_fused)
    out.push_back({pool_task(each, type), each.schedule});
  for (const auto& each : k_convolutions)
    out.push_back({pool_task(each, type), each.schedule});
  return out;
}

}  // namespace cudal1::test
