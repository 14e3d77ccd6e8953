// Files named by their content.
#include "config/base/blob.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "config/base/hash.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

struct blob_files : testing::Test {
  std::string folder = (std::filesystem::temp_directory_path() / "cudal1-blob-XXXXXX").string();
  const std::string content = std::string(3 << 20, 'x') + "end";
  const std::string name = sha256_hex(content) + ".safetensors";

  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    write(content);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void write(const std::string& bytes) const { std::ofstream(folder + "/" + name, std::ios::binary) << bytes; }
};

TEST_F(blob_files, are_recognised_by_their_digits_and_their_ending) {
  EXPECT_TRUE(is_blob_name(name, ".safetensors"));
  EXPECT_FALSE(is_blob_name(name, ".py"));
  EXPECT_FALSE(is_blob_name("a" + name, ".safetensors"));
  EXPECT_FALSE(is_blob_name(name.substr(1), ".safetensors"));
  EXPECT_FALSE(is_blob_name("../" + name.substr(3), ".safetensors"));
  EXPECT_FALSE(is_blob_name(std::string(64, 'A') + ".py", ".py"));
  EXPECT_FALSE(is_blob_name("", ".py"));
}

TEST_F(blob_files, open_if_their_content_matches_the_name) {
  const auto fd = open_blob(folder, name);
  ASSERT_TRUE(fd) << fd.error().message;
  const auto digest = sha256_of_file(fd->get());
  ASSERT_TRUE(digest) << digest.error().message;
  EXPECT_EQ(*digest, sha256_hex(content));
  EXPECT_TRUE(open_blob(folder, name));
}

TEST_F(blob_files, are_refused_if_missing_or_changed_even_after_a_first_read) {
  ASSERT_TRUE(open_blob(folder, name));
  write(content + "!");
  const auto longer = open_blob(folder, name);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, errc::corrupt);
  EXPECT_THAT(longer.error().message,
              testing::AllOf(HasSubstr(folder + "/" + name), HasSubstr("does not match its name"),
                             HasSubstr("`cudal1 tasks import` makes it again")));
  std::string same_size = content;
  same_size.back() = '!';
  write(same_size);
  EXPECT_FALSE(open_blob(folder, name));
  write(content);
  EXPECT_TRUE(open_blob(folder, name));
  std::filesystem::remove(folder + "/" + name);
  const auto missing = open_blob(folder, name);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, errc::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("makes it again"));
  std::filesystem::create_directory(folder + "/" + name);
  EXPECT_THAT(open_blob(folder, name).error().message, HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace cudal1
