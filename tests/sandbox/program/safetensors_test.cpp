// safetensors files: what is written is read back, and an invalid header is rejected with a reason.
#include "sandbox/program/safetensors.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/sandbox/program/mutator.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
  const uint64_t length = header.size();
  std::vector<std::byte> file(sizeof length + header.size() + data_bytes);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, header.data(), header.size());
  for (std::size_t i = 0; i < data_bytes; ++i)
    file[sizeof length + header.size() + i] = static_cast<std::byte>(i);
  return file;
}

const std::string good_header =
    R"({"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},)"
    R"("none": {"dtype": "BOOL", "shape": [0, 7], "data_offsets": [24, 24]},)"
    R"("b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]}}  )";

TEST(read_safetensors, finds_every_tensor_where_the_header_says) {
  const auto file = file_of(good_header, 26);
  const auto tensors = read_safetensors(file);
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ(tensors->at("w").type, dtype::float32);
  EXPECT_EQ(tensors->at("w").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensors->at("w").bytes.data(), file.data() + 8 + good_header.size());
  EXPECT_EQ(tensors->at("w").bytes.size(), 24u);
  EXPECT_EQ(tensors->at("b").type, dtype::bfloat16);
  EXPECT_EQ(tensors->at("b").bytes.front(), std::byte{24});
  EXPECT_TRUE(tensors->at("none").bytes.empty());
}

TEST(read_safetensors, says_which_tensor_is_wrong_and_why) {
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w": {"dtype": )" + dtype + R"(, "shape": )" + shape + R"(, "data_offsets": )" + offsets + "}}";
  };
  const std::string huge = "9223372036854775807";
  for (
      const auto& [header, wanted] : std::vector<std::pair<std::string, std::string>>{
          {tensor("\"F32\"", "[2]", "[0, 8]") + std::string(8, ' '),
           "18 bytes after the last tensor belong to no tensor"},
          {tensor("\"F32\"", "[2]", "[0, 12]"),
           "the tensor \"w\": data_offsets: 0 to 12 are not the 8 bytes of F32[2]"},
          {tensor("\"F32\"", "[2]", "[8, 0]"), "8 to 0 are not the 8 bytes"},
          {tensor("\"F32\"", "[8]", "[0, 32]"), "the tensor \"w\": data_offsets: ends at 32, but the file at 26"},
          {tensor("\"U8\"", "[22]", "[4, 26]"),
           "the tensor \"w\": data_offsets: begins at 4, but the previous tensor ends at 0"},
          {tensor("\"U8\"", "[-1]", "[0, 26]"), "the tensor \"w\": shape[0]: should be an integer of at least 0"},
          {tensor("\"U8\"", "[26.0]", "[0, 26]"), "shape[0]: should be an integer"},
          {tensor("\"U8\"", "26", "[0, 26]"), "shape: should be an array"},
          {tensor("\"U8\"", "[26]", "[0, 26, 26]"), "data_offsets: should be two integers"},
          {tensor("\"U8\"", "[26]", "[-1, 25]"), "data_offsets[0]: should be an integer of at least 0"},
          {tensor("\"U8\"", "[" + huge + "," + huge + "]", "[0, " + huge + "]"), "ends at " + huge},
          {tensor("\"U8\"", "[4294967296, 4294967296]", "[0, 0]"), "0 to 0 are not the"},
          {tensor("\"U8\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0, 1]"), "17 dimensions are above the limit"},
          {tensor("\"F8_E4M3\"", "[26]", "[0, 26]"), "dtype: \"F8_E4M3\" is not supported"},
          {tensor("32", "[26]", "[0, 26]"), "dtype: should be a string"},
          {R"({"a": {"dtype": "U8", "shape": [16], "data_offsets": [0, 16]}, "b": {"dtype": "U8", "shape": [16], "data_offsets": [10, 26]}})",
           "the tensor \"b\": data_offsets: begins at 10, but the previous tensor ends at 16"},
          {R"({"a": {"dtype": "U8", "shape": [26], "data_offsets": [0, 26]}, "b": {"dtype": "U8", "shape": [26], "data_offsets": [0, 26]}})",
           "begins at 0, but the previous tensor ends at 26"},
          {R"({"a": {"dtype": "U8", "shape": [26], "data_offsets": [0, 26]}, "a": {"dtype": "U8", "shape": [26], "data_offsets": [0, 26]}})",
           "its header: "},
          {R"({"a": {"dtype": "U8", "shape": [26], "data_offsets": [0, 26], "more": 1}})", "unknown key \"more\""},
          {R"({"a": 1})", "the tensor \"a\": should be an object, but is an integer"},
          {R"({"__metadata__": {"n": 1}})", "__metadata__ should be an object of strings"},
          {"[]", "its header does not begin with {"},
          {" {}", "its header does not begin with {"},
          {"{", "its header: "},
          {"", "its header does not begin with {"},
          {"{}", "26 bytes after the last tensor belong to no tensor"}}) {
    const auto tensors = read_safetensors(file_of(header, 26));
    ASSERT_FALSE(tensors) << header;
    EXPECT_THAT(tensors.error().message, HasSubstr(wanted)) << header;
  }
}

TEST(read_safetensors, rejects_a_header_length_beyond_the_file) {
  auto file = file_of("{}", 0);
  ASSERT_TRUE(read_safetensors(file));
  for (const uint64_t length : {uint64_t{3}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::memcpy(file.data(), &length, sizeof length);
    const auto tensors = read_safetensors(file);
    ASSERT_FALSE(tensors) << length;
    EXPECT_THAT(tensors.error().message, HasSubstr("declares a header of"));
  }
  for (std::size_t size = 0; size < 8; ++size)
    EXPECT_FALSE(read_safetensors(std::span(file).first(size)));
}

// All tensors are inside the file, do not overlap, and have the size of their type.
void expect_sound(const std::vector<std::byte>& file, const stored_tensors& tensors) {
  std::size_t bytes = 0;
  for (const auto& [name, t] : tensors) {
    EXPECT_EQ(static_cast<int64_t>(t.bytes.size()), contiguous(t.type, t.shape).bytes());
    EXPECT_GE(t.bytes.data(), file.data());
    EXPECT_LE(t.bytes.data() + t.bytes.size(), file.data() + file.size());
    bytes += t.bytes.size();
  }
  EXPECT_LE(bytes, file.size());
}

TEST(read_safetensors, survives_mutated_headers_and_bytes) {
  constexpr uint64_t seed = 20251121;
  SCOPED_TRACE(seed);
  mutator headers(seed, {good_header});
  std::mt19937_64 random(seed);
  int read = 0;
  for (int i = 0; i < 4000; ++i) {
    auto file = file_of(headers.next(), 26);
    if (auto tensors = read_safetensors(file)) {
      expect_sound(file, *tensors);
      ++read;
    } else {
      EXPECT_FALSE(tensors.error().message.empty());
    }
    file = file_of(good_header, 26);
    file[random() % 160] = static_cast<std::byte>(random());
    if (i % 3 == 0) file.resize(random() % file.size());
    if (auto tensors = read_safetensors(file)) expect_sound(file, *tensors);
  }
  EXPECT_GT(read, 0) << "some mutations are harmless, such as another order of keys";
}

struct scratch_file {
  std::string path = (std::filesystem::temp_directory_path() / "cudal1-safetensors-XXXXXX").string();
  scratch_file() { ::close(::mkstemp(path.data())); }
  ~scratch_file() { ::unlink(path.c_str()); }
};

TEST(safetensors_file, reads_back_what_was_written) {
  std::vector<std::byte> bytes(8 * 6);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(7 * i);
  stored_tensors tensors;
  for (const dtype type : {dtype::bool_, dtype::uint8, dtype::int8, dtype::int16, dtype::int32, dtype::int64,
                           dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64})
    tensors["a." + name_of(type)] = {type, {2, 3}, std::span(bytes).first(static_cast<std::size_t>(6 * size_of(type)))};
  tensors["scalar"] = {dtype::float32, {}, std::span(bytes).first(4)};
  tensors["none"] = {dtype::float32, {3, 0}, {}};
  const scratch_file file;
  const auto written = write_safetensors(file.path, tensors);
  ASSERT_TRUE(written) << written.error().message;
  const auto read = safetensors_file::open(file.path);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->tensors().size(), tensors.size());
  for (const auto& [name, t] : tensors) {
    const auto found = read->find(name);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ((*found)->type, t.type) << name;
    EXPECT_EQ((*found)->shape, t.shape) << name;
    EXPECT_TRUE(std::ranges::equal((*found)->bytes, t.bytes)) << name;
  }
  EXPECT_THAT(read->find("scaler").error().message,
              HasSubstr(file.path + ": has no tensor \"scaler\"; did you mean \"scalar\"?"));
}

TEST(safetensors_file, names_the_file_that_is_wrong) {
  const scratch_file file;
  EXPECT_THAT(safetensors_file::open(file.path).error().message, HasSubstr(file.path + ": 0 bytes are not a"));
  std::ofstream(file.path) << "not safetensors at all";
  EXPECT_THAT(safetensors_file::open(file.path).error().message, HasSubstr(file.path + ": declares a header of"));
  EXPECT_THAT(safetensors_file::open(file.path + ".none").error().message,
              HasSubstr(".none: cannot be opened: No such"));
  const std::byte one[1] = {};
  EXPECT_THAT(write_safetensors(file.path, {{"x", {dtype::int8, {2}, one}}}).error().message,
              HasSubstr("the tensor \"x\" has 1 bytes, but its shape 2"));
  EXPECT_THAT(write_safetensors("/no/such/folder", {}).error().message, HasSubstr("/no/such/folder: cannot be opened"));
}

}  // namespace
}  // namespace cudal1
