// Operators whose result is a list of tensors: views of the parts of one tensor.
#include <algorithm>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

constexpr int64_t most_items = 1024;

expected<void> check_items(int64_t count) {
  if (count <= most_items) return {};
  return not_covered("{} results are above our limit of {}", count, most_items);
}

// Parts of the given sizes, one after the other along `dim`.
outcome parts(const tensor_type& t, int64_t dim, const std::vector<int64_t>& sizes) {
  std::vector<operator_result> results;
  for (const auto size : sizes) {
    auto part = t;
    part.shape[static_cast<std::size_t>(dim)] = size;
    results.push_back({std::move(part), 0});
  }
  return results;
}

struct parted {
  const tensor_type& t;
  int64_t dim, size;
};

expected<parted> read_parted(const arguments& a) {
  const auto& t = a.tensor("self");
  CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
  CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
  return parted{t, dim, t.shape[static_cast<std::size_t>(dim)]};
}

// Parts of the same size, except for the last, which has the rest.
outcome equal_parts(const parted& p, int64_t size) {
  const int64_t count = (p.size - 1) / size + 1;
  CUDAL1_CHECK(check_items(count));
  std::vector<int64_t> sizes(static_cast<std::size_t>(count), size);
  sizes.back() = p.size - size * (count - 1);
  return parts(p.t, p.dim, sizes);
}

rule split() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(const auto p, read_parted(a));
    const int64_t size = a.integer("split_size");
    if (size < 1) return refuse("split_size is {}, but should be positive", size);
    return equal_parts(p, size);
  };
}

rule split_with_sizes() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(const auto p, read_parted(a));
    const auto sizes = a.integers("split_sizes");
    CUDAL1_CHECK(check_items(static_cast<int64_t>(sizes.size())));
    int64_t sum = 0;
    for (const auto size : sizes) {
      if (size < 1) return refuse("split_sizes {} should be positive", shape_text(sizes));
      sum = saturating_add(sum, size);
    }
    if (sum != p.size) return refuse("split_sizes {} should add up to {}", shape_text(sizes), p.size);
    return parts(p.t, p.dim, sizes);
  };
}

rule chunk() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(const auto p, read_parted(a));
    const int64_t chunks = a.integer("chunks");
    if (chunks < 1) return refuse("chunks is {}, but should be positive", chunks);
    return equal_parts(p, (p.size - 1) / chunks + 1);
  };
}

rule tensor_split() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(const auto p, read_parted(a));
    const int64_t sections = a.integer("sections");
    if (sections < 1 || sections > p.size) return refuse("sections is {}, but should lie in 1 to {}", sections, p.size);
    CUDAL1_CHECK(check_items(sections));
    std::vector<int64_t> sizes(static_cast<std::size_t>(sections), p.size / sections);
    for (int64_t i = 0; i < p.size % sections; ++i)
      ++sizes[static_cast<std::size_t>(i)];
    return parts(p.t, p.dim, sizes);
  };
}

rule unbind() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(const auto p, read_parted(a));
    CUDAL1_CHECK(check_items(p.size));
    auto item = p.t;
    item.shape.erase(item.shape.begin() + p.dim);
    item.strides.erase(item.strides.begin() + p.dim);
    return std::vector<operator_result>(static_cast<std::size_t>(p.size), {item, 0});
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> list_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::list, {
      {"aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", split()},
      {"aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", split_with_sizes()},
      {"aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", chunk()},
      {"aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]", tensor_split()},
      {"aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", unbind()},
  });
  // clang-format on
}

}  // namespace cudal1
