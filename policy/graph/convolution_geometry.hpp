// What a convolution's step says, one number a dimension in space.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/graph/graph.hpp"

namespace cudal1 {

struct convolution_geometry {
  std::string input, weight, bias;  // bias: "" for none
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
};

// aten::conv1d, 2d and 3d, and conv_transpose1d, 2d and 3d, of an input with a batch; errc::invalid_argument for
// others.
expected<convolution_geometry> geometry_of(const graph& g, const graph_step& s);

// A list argument, one number a dimension in space; `otherwise` where it is left out.
std::vector<int64_t> by_dimension(const graph_step& s, std::string_view argument, std::size_t dims, int64_t otherwise);
bool geometry_is(const std::vector<int64_t>& values, int64_t wanted);  // all of them
json list_of(const std::vector<int64_t>& values);
// "aten::conv2d" for two dimensions in space.
const char* convolution_name(std::size_t dims);
// A convolution, not a transposed one, in place of the step `own`, with these weights.
aten_step convolution_of(const convolution_geometry& c, const std::string& weight, const aten_step& own);

// Neighbouring weights of a dimension that meet the same elements of the input, whatever the result.
struct met_range {
  int64_t first = 0, last = 0;  // elements
  int64_t first_weight = 0, weights = 1;
  int64_t length() const { return last - first + 1; }
  bool is_whole(int64_t size) const { return first == 0 && last == size - 1; }
};
// Those of a dimension in space; the windows move by one element, or the convolution is transposed. Weights that meet
// no element are in none.
std::vector<met_range> met_ranges(const convolution_geometry& c, std::size_t dim, int64_t inputs, int64_t outputs,
                                  int64_t weights);

}  // namespace cudal1
