// Image operators: upsampling, im2col and col2im. Operands whose strides suggest channels-last take other paths in ATen
// and are rejected.
#include <algorithm>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

// The number of positions of a window along one dimension.
expected<int64_t> positions(int64_t size, int64_t kernel, int64_t dilation, int64_t padding, int64_t stride) {
  if (kernel < 1 || dilation < 1 || stride < 1) return refuse("kernel_size, dilation and stride should be positive");
  if (padding < 0) return refuse("padding should not be negative");
  const int64_t room = size + 2 * padding - saturating_multiply(dilation, kernel - 1) - 1;
  if (room < 0) return refuse("the kernel of size {} does not fit a dimension of size {}", kernel, size);
  return room / stride + 1;
}

// The number of windows over an image of `sizes`, and the number of elements of one window.
expected<std::pair<int64_t, int64_t>> patches(const arguments& a, const std::vector<int64_t>& sizes) {
  CUDAL1_TRY(const auto kernel, a.per_dimension("kernel_size", 2));
  CUDAL1_TRY(const auto dilation, a.per_dimension("dilation", 2));
  CUDAL1_TRY(const auto padding, a.per_dimension("padding", 2));
  CUDAL1_TRY(const auto stride, a.per_dimension("stride", 2));
  int64_t count = 1, elements = 1;
  for (std::size_t d = 0; d < 2; ++d) {
    CUDAL1_TRY(const int64_t here, positions(sizes[d], kernel[d], dilation[d], padding[d], stride[d]));
    count = saturating_multiply(count, here);
    elements = saturating_multiply(elements, kernel[d]);
  }
  return std::pair{count, elements};
}

rule upsample(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor("input");
    const auto n = static_cast<std::size_t>(dimensions);
    CUDAL1_CHECK(check_image(t, dimensions + 2, dimensions + 2, "input"));
    if (a.is_null("output_size") == a.is_null("scale_factors"))
      return refuse("one of output_size and scale_factors should be given");
    if (!a.is_null("output_size")) {
      const auto sizes = a.integers("output_size");
      if (sizes.size() != n) return refuse("output_size should have {} numbers, but has {}", n, sizes.size());
      return with_spatial_sizes(t, sizes, "output_size");
    }
    const auto factors = a.reals("scale_factors");
    if (factors.size() != n) return refuse("scale_factors should have {} numbers, but has {}", n, factors.size());
    std::vector<int64_t> sizes;
    for (std::size_t d = 0; d < n; ++d) {
      const double size = static_cast<double>(t.shape[d + 2]) * factors[d];
      if (!(size >= 1 && size < 0x1p31)) return refuse("scale_factors make a size of {}", size);
      sizes.push_back(static_cast<int64_t>(size));
    }
    return with_spatial_sizes(t, sizes, "the size");
  };
}

// The operator with its sizes given. ATen trusts the scales, so that they must be those of the sizes.
rule upsample_to(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    const auto n = static_cast<std::size_t>(dimensions);
    CUDAL1_CHECK(check_image(t, dimensions + 2, dimensions + 2, "self"));
    CUDAL1_TRY(const auto sizes, a.per_dimension("output_size", n));
    const std::vector<std::string_view> names = n == 1
                                                    ? std::vector<std::string_view>{"scales"}
                                                    : std::vector<std::string_view>{"scales_d", "scales_h", "scales_w"};
    for (std::size_t d = 0; d < n; ++d) {
      const auto name = names[names.size() - n + d];
      if (a.is_null(name)) continue;
      const double size = static_cast<double>(t.shape[d + 2]) * a.real(name);
      if (!(size >= 1 && size < 0x1p31) || static_cast<int64_t>(size) != sizes[d])
        return refuse("{} is {}, which scales size {} to {}, but output_size is {}", name, a.real(name), t.shape[d + 2],
                      size, sizes[d]);
    }
    return with_spatial_sizes(t, sizes, "output_size");
  };
}

rule image_to_columns() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_image(t, 3, 4, "self"));
    CUDAL1_TRY(const auto found, patches(a, {t.shape.end() - 2, t.shape.end()}));
    std::vector<int64_t> shape(t.shape.begin(), t.shape.end() - 2);
    shape.back() = saturating_multiply(shape.back(), found.second);
    shape.push_back(found.first);
    return one(contiguous(t.type, std::move(shape)));
  };
}

rule columns_to_image() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_image(t, 2, 3, "self"));
    CUDAL1_TRY(const auto sizes, a.per_dimension("output_size", 2));
    if (std::any_of(sizes.begin(), sizes.end(), [](int64_t s) { return s < 1; }))
      return refuse("output_size {} should be positive", shape_text(sizes));
    CUDAL1_TRY(const auto found, patches(a, sizes));
    auto shape = t.shape;
    if (shape.back() != found.first || shape[shape.size() - 2] % found.second != 0)
      return refuse("self is {}, but should have {} columns of a multiple of {} elements", t.text(), found.first,
                    found.second);
    shape[shape.size() - 2] /= found.second;
    shape.back() = sizes[0];
    shape.push_back(sizes[1]);
    return one(contiguous(t.type, std::move(shape)));
  };
}

// Elements of an image at the points of a grid, between its elements; any point is legal.
rule grid_sampler(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    const auto &t = a.tensor("input"), &grid = a.tensor("grid");
    CUDAL1_CHECK(check_kind(t, floats, "input"));
    CUDAL1_CHECK(check_same_type(t, grid, "input", "grid"));
    CUDAL1_CHECK(check_rank(t, dimensions + 2, dimensions + 2, "input"));
    CUDAL1_CHECK(check_rank(grid, dimensions + 2, dimensions + 2, "grid"));
    if (grid.shape.front() != t.shape.front() || grid.shape.back() != dimensions)
      return refuse("grid is {}, but should have {} images of points with {} coordinates", grid.text(), t.shape.front(),
                    dimensions);
    for (const auto* mode : {"interpolation_mode", "padding_mode"})
      if (a.integer(mode) < 0 || a.integer(mode) > 2)
        return refuse("{} is {}, but should lie in 0 to 2", mode, a.integer(mode));
    if (dimensions == 3 && a.integer("interpolation_mode") == 2)
      return refuse("interpolation_mode should be 0 or 1 in three dimensions");
    std::vector<int64_t> shape{t.shape[0], t.shape[1]};
    shape.insert(shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
    return one(contiguous(t.type, std::move(shape)));
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> resampling_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::resampling, {
      {"aten::upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample(1)},
      {"aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample(2)},
      {"aten::upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample(3)},
      {"aten::upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample(1)},
      {"aten::upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample(2)},
      {"aten::upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample(2)},
      {"aten::upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample(3)},
      {"aten::upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor", upsample_to(1)},
      {"aten::upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_to(2)},
      {"aten::upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_to(3)},
      {"aten::_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor", upsample_to(1)},
      {"aten::_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_to(2)},
      {"aten::_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_to(3)},
      {"aten::upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor", upsample_to(1)},
      {"aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_to(2)},
      {"aten::_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_to(2)},
      {"aten::upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_to(2)},
      {"aten::_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_to(2)},
      {"aten::upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_to(3)},
      {"aten::_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample(1)},
      {"aten::_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample(2)},
      {"aten::_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample(3)},
      {"aten::_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample(2)},
      {"aten::_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample(2)},
      {"aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor", grid_sampler(2)},
      {"aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor", grid_sampler(3)},
      {"aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor", image_to_columns()},
      {"aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor", columns_to_image()},
  });
  // clang-format on
}

}  // namespace cudal1
