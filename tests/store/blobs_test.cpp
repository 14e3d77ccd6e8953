// The blobs of a data folder.
#include "store/blobs.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>

#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// A data folder, and a blob in another folder, `from`.
struct blobs_of_a_data_folder : testing::Test {
  store_folder elsewhere, data;
  const std::string from = elsewhere.store(), name = sha256_hex("content") + ".safetensors";
  const blobs kept{data.store()};

  void SetUp() override {
    fs::create_directories(from);
    std::ofstream(from + "/" + name) << "content";
  }
};

TEST_F(blobs_of_a_data_folder, are_added_once) {
  EXPECT_FALSE(kept.has(name));
  ASSERT_TRUE(holds(kept.take(from, name)));
  EXPECT_TRUE(kept.has(name));
  EXPECT_EQ(text_of(kept.folder() + "/" + name), "content");
  fs::remove(from + "/" + name);
  EXPECT_TRUE(holds(kept.take(from, name))) << "it has been added already";
  EXPECT_EQ(text_of(kept.folder() + "/" + name), "content");
}

TEST_F(blobs_of_a_data_folder, are_copied_from_another_file_system) {
  const fs::path far = "/dev/shm/cudal1-blobs-test-" + std::to_string(::getpid());
  std::error_code problem;
  fs::create_directories(far, problem);
  if (problem) GTEST_SKIP() << "there is no second file system: " << problem.message();
  const std::string content(3 << 20, 'c'), large = sha256_hex(content) + ".safetensors";
  std::ofstream(far / large) << content;
  EXPECT_TRUE(holds(kept.take(far.string(), large)));
  EXPECT_EQ(text_of(kept.folder() + "/" + large), content);
  EXPECT_EQ(std::distance(fs::directory_iterator(kept.folder()), fs::directory_iterator()), 1)
      << "no temporary file is left";
  fs::remove_all(far);
}

TEST_F(blobs_of_a_data_folder, are_refused_if_their_content_does_not_match_the_name) {
  std::ofstream(from + "/" + name) << "another";
  const auto altered = kept.take(from, name);
  ASSERT_FALSE(altered);
  EXPECT_EQ(altered.error().code, errc::corrupt);
  EXPECT_THAT(altered.error().message, testing::HasSubstr(from + "/" + name));
  fs::remove(from + "/" + name);
  EXPECT_EQ(kept.take(from, name).error().code, errc::not_found);
  EXPECT_FALSE(kept.has(name));
}

}  // namespace
}  // namespace cudal1
