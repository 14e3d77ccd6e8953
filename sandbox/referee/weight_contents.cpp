#include "sandbox/referee/weight_contents.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "config/base/blob.hpp"
#include "config/base/describe.hpp"
#include "sandbox/referee/elements.hpp"
#include "sandbox/referee/random_blocks.hpp"

namespace cudal1 {
namespace {

constexpr uint64_t recorded_stream = 0x3c6ef372fe94f82b;  // apart from the elements' own numbers

// Calls visit(flat index, value) for the elements as doubles, until it returns false.
bool every_element(const tensor_type& type, const std::byte* flat, auto&& visit) {
  std::array<double, 1024> values;
  const int64_t count = type.numel();
  for (int64_t first = 0; first < count; first += static_cast<int64_t>(values.size())) {
    const int64_t part = std::min(static_cast<int64_t>(values.size()), count - first);
    load_elements(type.type, flat, first, part, values.data());
    for (int64_t i = 0; i < part; ++i)
      if (!visit(first + i, values[static_cast<std::size_t>(i)])) return false;
  }
  return true;
}

expected<const std::byte*> values_of(const safetensors_file& file, const std::string& tensor,
                                     const tensor_declaration& declared, const input_spec& spec,
                                     std::vector<std::vector<std::byte>>& aligned) {
  CUDAL1_TRY(const stored_tensor* const stored, file.find(tensor));
  const tensor_type have = contiguous(stored->type, stored->shape);
  const tensor_type wanted = contiguous(declared.type.type, declared.type.shape);
  if (have != wanted)
    return fail(errc::invalid_program, "{}: the tensor \"{}\" is {}, but should be {}", spec.content->file, tensor,
                have.text(), wanted.text());
  const std::byte* values = stored->bytes.data();
  if (std::bit_cast<uintptr_t>(values) % static_cast<uintptr_t>(size_of(have.type)) != 0)
    values = aligned.emplace_back(stored->bytes.begin(), stored->bytes.end()).data();
  for (const fact f : spec.facts)
    if (const auto broken = broken_fact(f, wanted, values); !broken.empty())
      return fail(errc::invalid_program, "{}: the tensor \"{}\" is declared {}, but is not: {}", spec.content->file,
                  tensor, enum_name(f), broken);
  return values;
}

std::string name_of_index(const tensor_type& type, int64_t flat) {
  std::string text;
  for (std::size_t d = type.shape.size(); d-- > 0;) {
    text = fmt::format("{}{}{}", flat % type.shape[d], text.empty() ? "" : ", ", text);
    flat /= type.shape[d];
  }
  return "[" + text + "]";
}

// Checks for zeros wherever `open(row, column)` is false.
std::string broken_zeros(const tensor_type& type, const std::byte* flat, auto&& open) {
  std::string broken;
  const int64_t columns = type.shape.back(), rows = type.shape[type.shape.size() - 2];
  every_element(type, flat, [&](int64_t i, double value) {
    if (value != 0 && !open(i / columns % rows, i % columns))
      broken = fmt::format("{} is {}", name_of_index(type, i), value);
    return broken.empty();
  });
  return broken;
}

std::string broken_symmetry(const tensor_type& type, const std::byte* flat) {
  std::string broken;
  const int64_t n = type.shape.back();
  every_element(type, flat, [&](int64_t i, double value) {
    const int64_t row = i / n % n, column = i % n;
    double other = 0;
    load_elements(type.type, flat, i - row * n - column + column * n + row, 1, &other);
    if (value != other)
      broken = fmt::format("{} is {}, but the element across the diagonal is {}", name_of_index(type, i), value, other);
    return broken.empty();
  });
  return broken;
}

std::string broken_one_hot(const tensor_type& type, const std::byte* flat) {
  std::string broken;
  const int64_t width = type.shape.back();
  double ones = 0;
  every_element(type, flat, [&](int64_t i, double value) {
    if (i % width == 0) ones = 0;
    ones += value;
    if ((value != 0 && value != 1) || (i % width == width - 1 && ones != 1))
      broken = fmt::format("the row of {}", name_of_index(type, i));
    return broken.empty();
  });
  return broken;
}

}  // namespace

std::string broken_fact(fact f, const tensor_type& type, const std::byte* flat) {
  if (type.numel() == 0) return "";
  switch (f) {
    case fact::diagonal:
      return broken_zeros(type, flat, [](int64_t r, int64_t c) { return r == c; });
    case fact::upper_triangular:
      return broken_zeros(type, flat, [](int64_t r, int64_t c) { return r <= c; });
    case fact::lower_triangular:
      return broken_zeros(type, flat, [](int64_t r, int64_t c) { return r >= c; });
    case fact::symmetric:
      return broken_symmetry(type, flat);
    case fact::one_hot:
      return broken_one_hot(type, flat);
    case fact::non_negative: {
      std::string broken;
      every_element(type, flat, [&](int64_t i, double value) {
        if (!(value >= 0)) broken = fmt::format("{} is {}", name_of_index(type, i), value);
        return broken.empty();
      });
      return broken;
    }
  }
  return "";
}

expected<weight_contents> weight_contents::map(const task& t, std::span<const unique_fd> files) {
  const auto names = t.content_files();
  if (names.size() != files.size())
    return fail(errc::corrupt, "the weights of {} come from {} files, but {} were given", t.name, names.size(),
                files.size());
  weight_contents result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto file = safetensors_file::map(files[i].get(), names[i]);
    if (!file) return fail(errc::invalid_program, "the weights of {}: {}", t.name, file.error().message);
    result.files_.push_back(std::move(*file));
  }
  const auto find = [&](const char* kind, const tensor_declaration& declared, const input_spec& spec,
                        const std::string& tensor) -> expected<const std::byte*> {
    const auto at = std::ranges::find(names, spec.content->file) - names.begin();
    auto values = values_of(result.files_[static_cast<std::size_t>(at)], tensor, declared, spec, result.aligned_);
    if (values) return *values;
    return fail(errc::invalid_program, "the {} {} of {}: {}", kind, declared.name, t.name, values.error().message);
  };
  for (std::size_t i = 0; i < t.weights.size(); ++i) {
    const auto& spec = t.weights[i];
    auto& values = result.values_.emplace_back(nullptr);
    if (!spec.content) continue;
    CUDAL1_TRY(values, find("weight", t.reference.text.weights[i], spec, spec.content->tensor));
  }
  for (std::size_t i = 0; i < t.inputs.size(); ++i) {
    const auto& spec = t.inputs[i];
    auto& draws = result.recorded_.emplace_back();
    for (int64_t draw = 0; spec.content && draw < spec.content->draws; ++draw) {
      CUDAL1_TRY(draws.emplace_back(),
                 find("input", t.reference.text.inputs[i], spec, fmt::format("{}.{}", spec.content->tensor, draw)));
    }
  }
  return result;
}

const std::byte* weight_contents::of_input(std::size_t input, uint64_t seed) const {
  if (input >= recorded_.size() || recorded_[input].empty()) return nullptr;
  const auto& draws = recorded_[input];
  const auto chosen = random_blocks(seed ^ recorded_stream).below(static_cast<int64_t>(draws.size()));
  return draws[static_cast<std::size_t>(chosen)];
}

expected<weight_contents> weight_contents::open(const task& t, const std::string& folder) {
  std::vector<unique_fd> files;
  for (const auto& name : t.content_files()) {
    CUDAL1_TRY(auto file, open_blob(folder, name));
    files.push_back(std::move(file));
  }
  return map(t, files);
}

bool weight_contents::complete() const {
  return !values_.empty() && std::ranges::none_of(values_, [](const auto* v) { return v == nullptr; });
}

}  // namespace cudal1
