#include "sandbox/program/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"
#include "sandbox/program/form.hpp"
#include "sandbox/program/near_miss.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t length_bytes = 8;
constexpr uint64_t longest_header = 16 << 20;
constexpr std::string_view metadata_key = "__metadata__";
static_assert(std::endian::native == std::endian::little, "lengths and elements are little-endian");

constexpr std::array<std::pair<std::string_view, dtype>, 10> type_names{{{"BOOL", dtype::bool_},
                                                                         {"U8", dtype::uint8},
                                                                         {"I8", dtype::int8},
                                                                         {"I16", dtype::int16},
                                                                         {"I32", dtype::int32},
                                                                         {"I64", dtype::int64},
                                                                         {"F16", dtype::float16},
                                                                         {"BF16", dtype::bfloat16},
                                                                         {"F32", dtype::float32},
                                                                         {"F64", dtype::float64}}};

std::string_view type_name(dtype type) {
  return std::ranges::find(type_names, type, &std::pair<std::string_view, dtype>::second)->first;
}

// A tensor's entry in the header; the position of its bytes is checked later.
struct entry {
  stored_tensor tensor;
  int64_t begin = 0, end = 0;
};

expected<std::vector<int64_t>> read_numbers(const json* v, std::string_view what) {
  if (v == nullptr || !v->is_array()) return fail(errc::corrupt, "{}: should be an array of integers", what);
  std::vector<int64_t> numbers;
  for (const auto& item : v->as_array()) {
    if (!item.is_int() || item.as_int() < 0)
      return fail(errc::corrupt, "{}[{}]: should be an integer of at least 0", what, numbers.size());
    numbers.push_back(item.as_int());
  }
  return numbers;
}

expected<entry> read_entry(const json& v) {
  if (!v.is_object()) return fail(errc::corrupt, "should be an object, but is {}", v.kind_name());
  for (const auto& [key, value] : v.as_object())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return fail(errc::corrupt, "unknown key {}", json(key).text());
  entry e;
  const auto* type = v.find("dtype");
  if (type == nullptr || !type->is_string()) return fail(errc::corrupt, "dtype: should be a string");
  const auto found = std::ranges::find(type_names, type->as_string(), &std::pair<std::string_view, dtype>::first);
  if (found == type_names.end())
    return fail(errc::unsupported, "dtype: {} is not supported", json(type->as_string()).text());
  e.tensor.type = found->second;
  CUDAL1_TRY(e.tensor.shape, read_numbers(v.find("shape"), "shape"));
  if (static_cast<int64_t>(e.tensor.shape.size()) > max_dimensions)
    return fail(errc::corrupt, "shape: {} dimensions are above the limit of {}", e.tensor.shape.size(), max_dimensions);
  CUDAL1_TRY(const auto offsets, read_numbers(v.find("data_offsets"), "data_offsets"));
  if (offsets.size() != 2) return fail(errc::corrupt, "data_offsets: should be two integers");
  e.begin = offsets[0];
  e.end = offsets[1];
  const int64_t bytes = contiguous(e.tensor.type, e.tensor.shape).bytes();
  if (e.end < e.begin || e.end - e.begin != bytes)
    return fail(errc::corrupt, "data_offsets: {} to {} are not the {} bytes of {}{}", e.begin, e.end, bytes,
                type_name(e.tensor.type), json(json::array(e.tensor.shape.begin(), e.tensor.shape.end())).text());
  return e;
}

std::string quoted(std::string_view name) {
  return fmt::format("the tensor \"{}\"", printable(name));
}

expected<std::map<std::string, entry>> read_entries(const json& header) {
  if (!header.is_object()) return fail(errc::corrupt, "its header should be an object, but is {}", header.kind_name());
  std::map<std::string, entry> entries;
  for (const auto& [name, value] : header.as_object()) {
    if (name == metadata_key) {
      const bool strings = value.is_object() && std::ranges::all_of(value.as_object(), [](const json::member& m) {
                             return m.second.is_string();
                           });
      if (!strings) return fail(errc::corrupt, "{} should be an object of strings", metadata_key);
      continue;
    }
    auto e = read_entry(value);
    if (!e) return fail_in(quoted(name), e.error());
    entries.emplace(name, std::move(*e));
  }
  return entries;
}

// Checks that the tensors follow each other without gaps and end where the data ends.
expected<void> check_places(const std::map<std::string, entry>& entries, int64_t data_bytes) {
  std::vector<std::pair<std::string_view, const entry*>> by_place;
  for (const auto& [name, e] : entries)
    by_place.emplace_back(name, &e);
  std::ranges::stable_sort(by_place, {}, [](const auto& p) { return std::pair(p.second->begin, p.second->end); });
  int64_t at = 0;
  for (const auto& [name, e] : by_place) {
    if (e->begin != at)
      return fail(errc::corrupt, "{}: data_offsets: begins at {}, but the previous tensor ends at {}", quoted(name),
                  e->begin, at);
    if (e->end > data_bytes)
      return fail(errc::corrupt, "{}: data_offsets: ends at {}, but the file at {}", quoted(name), e->end, data_bytes);
    at = e->end;
  }
  if (at != data_bytes)
    return fail(errc::corrupt, "{} bytes after the last tensor belong to no tensor", data_bytes - at);
  return {};
}

expected<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), std::min(bytes.size(), std::size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return fail(errc::io_error, "cannot be written: {}", std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return {};
}

// Padded, so that the elements after it are aligned.
expected<std::string> header_of(const stored_tensors& tensors) {
  json header = json::make_object();
  int64_t at = 0;
  for (const auto& [name, t] : tensors) {
    const int64_t bytes = contiguous(t.type, t.shape).bytes();
    if (bytes != static_cast<int64_t>(t.bytes.size()))
      return fail(errc::invalid_argument, "{} has {} bytes, but its shape {}", quoted(name), t.bytes.size(), bytes);
    header.set(name, json::make_object({{"dtype", type_name(t.type)},
                                        {"shape", json(json::array(t.shape.begin(), t.shape.end()))},
                                        {"data_offsets", json::make_array({at, at + bytes})}}));
    at += bytes;
  }
  std::string text = header.text();
  text.resize((text.size() + length_bytes - 1) / length_bytes * length_bytes, ' ');
  return text;
}

}  // namespace

expected<stored_tensors> read_safetensors(std::span<const std::byte> file) {
  uint64_t length = 0;
  if (file.size() < length_bytes) return fail(errc::corrupt, "{} bytes are not a safetensors file", file.size());
  std::memcpy(&length, file.data(), length_bytes);
  if (length > longest_header || length > file.size() - length_bytes)
    return fail(errc::corrupt, "declares a header of {} bytes; the file has {}, and at most {} are allowed", length,
                file.size(), longest_header);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + length_bytes, length);
  if (!text.starts_with('{')) return fail(errc::corrupt, "its header does not begin with {{");
  const auto header = json::parse(text);
  if (!header) return fail(errc::corrupt, "its header: {}", header.error().message);
  CUDAL1_TRY(auto entries, read_entries(*header));
  const auto data = file.subspan(length_bytes + length);
  CUDAL1_CHECK(check_places(entries, static_cast<int64_t>(data.size())));
  stored_tensors tensors;
  for (auto& [name, e] : entries) {
    e.tensor.bytes = data.subspan(static_cast<std::size_t>(e.begin), static_cast<std::size_t>(e.end - e.begin));
    tensors.emplace(name, std::move(e.tensor));
  }
  return tensors;
}

expected<safetensors_file> safetensors_file::read(mapped_file file) {
  safetensors_file result;
  result.file_ = std::move(file);
  auto tensors = read_safetensors(result.file_.bytes());
  if (!tensors) return fail_in(result.file_.name(), tensors.error());
  result.tensors_ = std::move(*tensors);
  return result;
}

expected<safetensors_file> safetensors_file::map(int fd, std::string name) {
  CUDAL1_TRY(auto file, mapped_file::map(fd, std::move(name)));
  return read(std::move(file));
}

expected<safetensors_file> safetensors_file::open(const std::string& path) {
  CUDAL1_TRY(auto file, mapped_file::open(path));
  return read(std::move(file));
}

expected<const stored_tensor*> safetensors_file::find(std::string_view tensor) const {
  const auto found = tensors_.find(tensor);
  if (found != tensors_.end()) return &found->second;
  return fail(errc::not_found, "{}: has no tensor \"{}\"{}", file_.name(), printable(tensor),
              did_you_mean(tensor, tensors_, [](const auto& t) -> std::string_view { return t.first; }));
}

expected<void> write_safetensors(const std::string& path, const stored_tensors& tensors) {
  auto header = header_of(tensors);
  if (!header) return fail_in(path, header.error());
  const unique_fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return fail(errc::io_error, "{}: cannot be opened for writing: {}", path, std::strerror(errno));
  const uint64_t length = header->size();
  auto written = write_all(fd.get(), std::as_bytes(std::span(&length, 1)));
  if (written) written = write_all(fd.get(), std::as_bytes(std::span(*header)));
  for (const auto& [name, t] : tensors)
    if (written) written = write_all(fd.get(), t.bytes);
  if (!written) return fail_in(path, written.error());
  return {};
}

}  // namespace cudal1
