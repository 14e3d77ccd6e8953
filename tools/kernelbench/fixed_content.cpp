#include "tools/kernelbench/fixed_content.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include "config/base/blob.hpp"

namespace cudal1::kernelbench {

namespace {

// Where a tensor is in the file: its type as safetensors names it, its shape, its bytes after the header.
struct tensor_place {
  std::string type;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;
};

expected<std::string> read_at(int fd, int64_t offset, int64_t bytes, const std::string& file) {
  std::string data(static_cast<std::size_t>(bytes), '\0');
  std::size_t done = 0;
  while (done < data.size()) {
    const auto n = ::pread(fd, data.data() + done, data.size() - done, offset + static_cast<int64_t>(done));
    if (n <= 0) return fail(errc::corrupt, "{} ends early", file);
    done += static_cast<std::size_t>(n);
  }
  return data;
}

std::string safetensors_name(dtype t) {
  switch (t) {
    case dtype::bool_:
      return "BOOL";
    case dtype::uint8:
      return "U8";
    case dtype::int8:
      return "I8";
    case dtype::int16:
      return "I16";
    case dtype::int32:
      return "I32";
    case dtype::int64:
      return "I64";
    case dtype::float16:
      return "F16";
    case dtype::bfloat16:
      return "BF16";
    case dtype::float32:
      return "F32";
    case dtype::float64:
      return "F64";
  }
  return "";
}

// Nothing if an entry does not match the format.
std::optional<tensor_place> place_of(const json& header, const std::string& tensor) {
  const auto* entry = header.find(tensor);
  const auto* type = entry != nullptr ? entry->find("dtype") : nullptr;
  const auto* shape = entry != nullptr ? entry->find("shape") : nullptr;
  const auto* offsets = entry != nullptr ? entry->find("data_offsets") : nullptr;
  const auto integers = [](const json* list) {
    return list != nullptr && list->is_array() &&
           std::all_of(list->as_array().begin(), list->as_array().end(), [](const json& i) { return i.is_int(); });
  };
  if (type == nullptr || !type->is_string() || !integers(shape) || !integers(offsets) ||
      offsets->as_array().size() != 2)
    return std::nullopt;
  tensor_place place{type->as_string(), {}, offsets->as_array()[0].as_int(), offsets->as_array()[1].as_int()};
  for (const auto& size : shape->as_array())
    place.shape.push_back(size.as_int());
  return place;
}

std::string compressed(const std::string& bytes) {
  auto size = ::compressBound(bytes.size());
  std::string packed(size, '\0');
  // Fails only for want of memory or space in `packed`.
  if (::compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                 bytes.size()) != Z_OK)
    throw std::bad_alloc();
  packed.resize(size);
  return packed;
}

}  // namespace

expected<std::string> read_fixed_content(const std::string& folder, const tensor_content& content,
                                         const tensor_type& type) {
  CUDAL1_TRY(const auto file, open_blob(folder, content.file));
  constexpr int64_t length_bytes = 8, most_header_bytes = 100 << 20;
  CUDAL1_TRY(const auto length_text, read_at(file.get(), 0, length_bytes, content.file));
  uint64_t length = 0;
  std::memcpy(&length, length_text.data(), sizeof length);
  if (length > most_header_bytes) return fail(errc::corrupt, "{} is not a safetensors file", content.file);
  const auto header_bytes = static_cast<int64_t>(length);
  CUDAL1_TRY(const auto header_text, read_at(file.get(), length_bytes, header_bytes, content.file));
  CUDAL1_TRY(const auto header, json::parse(header_text));
  const auto place = place_of(header, content.tensor);
  if (!place) return fail(errc::corrupt, "{} has no tensor {}", content.file, content.tensor);
  if (place->type != safetensors_name(type.type) || place->shape != type.shape ||
      place->end - place->begin != type.bytes() || place->begin < 0 || !type.is_contiguous())
    return fail(errc::corrupt, "the tensor {} of {} is not {}", content.tensor, content.file, type.text());
  CUDAL1_TRY(const auto bytes,
             read_at(file.get(), length_bytes + header_bytes + place->begin, type.bytes(), content.file));
  auto packed = compressed(bytes);
  if (packed.size() > max_embedded_bytes)
    return fail(errc::unsupported,
                "the constant {} has {} bytes, compressed, and is not a parameter or buffer of the module: at most {} "
                "are put into a file; register it as a buffer and import the model again",
                content.tensor, packed.size(), max_embedded_bytes);
  return packed;
}

}  // namespace cudal1::kernelbench
