#include "policy/model/checkpoint/gguf_file.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "sandbox/program/form.hpp"

namespace cudal1 {

namespace {

constexpr uint32_t first_version = 2, last_version = 3;  // 2 has the same layout
constexpr uint64_t most_dimensions = 4;
constexpr int64_t most_alignment = 1 << 16;

enum value_type : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

// What is left to read of the file.
struct reader {
  std::span<const std::byte> left;

  template <class T>
  expected<T> number() {
    T out;
    if (left.size() < sizeof out) return fail(errc::corrupt, "the file ends within its header");
    std::memcpy(&out, left.data(), sizeof out);
    left = left.subspan(sizeof out);
    return out;
  }
  expected<std::string> text() {
    CUDAL1_TRY(const auto length, number<uint64_t>());
    if (length > left.size()) return fail(errc::corrupt, "a text of {} bytes goes beyond the file's end", length);
    std::string out(reinterpret_cast<const char*>(left.data()), length);
    left = left.subspan(length);
    return out;
  }
};

template <class T>
expected<gguf_value> whole_number(reader& from) {
  CUDAL1_TRY(const T value, from.number<T>());
  if (std::is_same_v<T, uint64_t> && value > static_cast<T>(std::numeric_limits<int64_t>::max()))
    return fail(errc::corrupt, "the number {} is above 2^63", value);
  return gguf_value(static_cast<int64_t>(value));
}

template <class T>
expected<gguf_value> real_number(reader& from) {
  CUDAL1_TRY(const T value, from.number<T>());
  return gguf_value(static_cast<double>(value));
}

expected<gguf_value> read_scalar(reader& from, uint32_t type) {
  switch (type) {
    case u8:
      return whole_number<uint8_t>(from);
    case i8:
      return whole_number<int8_t>(from);
    case u16:
      return whole_number<uint16_t>(from);
    case i16:
      return whole_number<int16_t>(from);
    case u32:
      return whole_number<uint32_t>(from);
    case i32:
      return whole_number<int32_t>(from);
    case u64:
      return whole_number<uint64_t>(from);
    case i64:
      return whole_number<int64_t>(from);
    case f32:
      return real_number<float>(from);
    case f64:
      return real_number<double>(from);
    case boolean: {
      CUDAL1_TRY(const auto value, from.number<uint8_t>());
      return gguf_value(value != 0);
    }
    case string: {
      CUDAL1_TRY(auto value, from.text());
      return gguf_value(std::move(value));
    }
    default:
      return fail(errc::corrupt, "{} is not a type of metadata", type);
  }
}

// Not longer than what is left of the file: each element has at least a byte.
expected<gguf_value> read_array(reader& from) {
  CUDAL1_TRY(const auto type, from.number<uint32_t>());
  CUDAL1_TRY(const auto count, from.number<uint64_t>());
  if (type == array) return fail(errc::unsupported, "lists of lists in the metadata are not supported");
  if (count > from.left.size()) return fail(errc::corrupt, "a list of {} elements goes beyond the file's end", count);
  std::vector<std::string> texts;
  std::vector<double> numbers;
  for (uint64_t i = 0; i < count; ++i) {
    CUDAL1_TRY(auto value, read_scalar(from, type));
    if (auto* text = std::get_if<std::string>(&value)) texts.push_back(std::move(*text));
    if (const auto* whole = std::get_if<int64_t>(&value)) numbers.push_back(static_cast<double>(*whole));
    if (const auto* real = std::get_if<double>(&value)) numbers.push_back(*real);
    if (const auto* truth = std::get_if<bool>(&value)) numbers.push_back(*truth ? 1 : 0);
  }
  return type == string ? gguf_value(std::move(texts)) : gguf_value(std::move(numbers));
}

struct tensor_place {
  gguf_tensor tensor;
  uint64_t offset = 0, bytes = 0;
};

expected<tensor_place> read_place(reader& from) {
  tensor_place out;
  CUDAL1_TRY(const auto dimensions, from.number<uint32_t>());
  if (dimensions < 1 || dimensions > most_dimensions)
    return fail(errc::corrupt, "{} dimensions are not from 1 to {}", dimensions, most_dimensions);
  int64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    CUDAL1_TRY(const auto size, from.number<uint64_t>());
    if (size < 1 || size > std::numeric_limits<int32_t>::max() ||
        __builtin_mul_overflow(elements, static_cast<int64_t>(size), &elements))
      return fail(errc::corrupt, "a dimension of {} is not usable", size);
    out.tensor.shape.insert(out.tensor.shape.begin(), static_cast<int64_t>(size));
  }
  CUDAL1_TRY(const auto type, from.number<uint32_t>());
  CUDAL1_TRY(out.tensor.type, gguf_type_of(type));
  CUDAL1_TRY(out.offset, from.number<uint64_t>());
  if (out.tensor.shape.back() % out.tensor.type->elements != 0)
    return fail(errc::corrupt, "rows of {} elements are not whole blocks of {}", out.tensor.shape.back(),
                out.tensor.type->name);
  const auto blocks = static_cast<uint64_t>(elements / out.tensor.type->elements);
  if (__builtin_mul_overflow(blocks, out.tensor.type->bytes, &out.bytes))
    return fail(errc::corrupt, "{} blocks are more than a file can have", blocks);
  return out;
}

expected<void> check_start(reader& from) {
  CUDAL1_TRY(const auto magic, from.number<uint32_t>());
  if (magic != 0x46554747u) return fail(errc::corrupt, "is not a GGUF file: it does not begin with GGUF");
  CUDAL1_TRY(const auto version, from.number<uint32_t>());
  if (version < first_version || version > last_version)
    return fail(errc::unsupported, "has version {} of GGUF; versions {} and {} can be read", version, first_version,
                last_version);
  return {};
}

struct contents {
  std::map<std::string, gguf_value, std::less<>> metadata;
  std::map<std::string, tensor_place> places;
  std::span<const std::byte> data;  // the tensors
};

expected<std::size_t> alignment_of(const contents& c) {
  const auto found = c.metadata.find("general.alignment");
  if (found == c.metadata.end()) return 32;
  const auto* stated = std::get_if<int64_t>(&found->second);
  if (stated == nullptr || *stated < 1 || *stated > most_alignment || (*stated & (*stated - 1)) != 0)
    return fail(errc::corrupt, "general.alignment should be a power of two up to {}", most_alignment);
  return static_cast<std::size_t>(*stated);
}

expected<contents> read_contents(std::span<const std::byte> file) {
  reader from{file};
  contents out;
  CUDAL1_CHECK(check_start(from));
  CUDAL1_TRY(const auto tensors, from.number<uint64_t>());
  CUDAL1_TRY(const auto keys, from.number<uint64_t>());
  for (uint64_t i = 0; i < keys; ++i) {
    CUDAL1_TRY(auto key, from.text());
    CUDAL1_TRY(const auto type, from.number<uint32_t>());
    auto value = type == array ? read_array(from) : read_scalar(from, type);
    if (!value) return fail_in(printable(key), value.error());
    if (!out.metadata.emplace(key, std::move(*value)).second)
      return fail(errc::corrupt, "the metadata {} appear twice", printable(key));
  }
  for (uint64_t i = 0; i < tensors; ++i) {
    CUDAL1_TRY(auto name, from.text());
    auto place = read_place(from);
    if (!place) return fail_in("the tensor " + printable(name), place.error());
    if (!out.places.emplace(name, std::move(*place)).second)
      return fail(errc::corrupt, "the tensor {} appears twice", printable(name));
  }
  CUDAL1_TRY(const std::size_t alignment, alignment_of(out));
  const std::size_t begin = (file.size() - from.left.size() + alignment - 1) / alignment * alignment;
  out.data = file.subspan(std::min(begin, file.size()));
  for (const auto& [name, place] : out.places)
    if (place.offset % alignment != 0 || place.offset > out.data.size() || place.bytes > out.data.size() - place.offset)
      return fail(errc::corrupt, "the tensor {}: {} bytes at {} are not within the file, or not aligned to {}",
                  printable(name), place.bytes, place.offset, alignment);
  return out;
}

}  // namespace

expected<gguf_file> gguf_file::open(const std::string& path) {
  gguf_file result;
  CUDAL1_TRY(result.file_, mapped_file::open(path));
  auto read = read_contents(result.file_.bytes());
  if (!read) return fail_in(path, read.error());
  result.metadata_ = std::move(read->metadata);
  for (auto& [name, place] : read->places) {
    place.tensor.blocks = read->data.subspan(place.offset, place.bytes);
    result.tensors_.emplace(name, std::move(place.tensor));
  }
  return result;
}

}  // namespace cudal1
