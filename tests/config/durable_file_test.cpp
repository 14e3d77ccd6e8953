// Files that are whole or not there.
#include "config/base/durable_file.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

namespace cudal1 {
namespace {

namespace fs = std::filesystem;

struct durable_files : testing::Test {
  std::string folder = (fs::temp_directory_path() / "cudal1-durable-XXXXXX").string();
  std::string path;

  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    path = folder + "/file";
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string content() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static auto files_in(const std::string& where) {
    return std::distance(fs::directory_iterator(where), fs::directory_iterator());
  }
};

TEST_F(durable_files, have_the_content_and_the_mode_and_leave_nothing_else) {
  const std::string large = std::string(5 << 20, 'x') + '\0' + "end";
  ASSERT_TRUE(write_durably({path}, large));
  EXPECT_EQ(content(), large);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0600));
  ASSERT_TRUE(write_durably({path, 0444}, "")) << "a shorter one in its place";
  EXPECT_EQ(content(), "");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0444));
  EXPECT_EQ(files_in(folder), 1);
}

TEST_F(durable_files, are_not_seen_before_they_are_whole) {
  ASSERT_TRUE(write_durably({path}, "old"));
  ASSERT_TRUE(write_durably({path}, [&](int fd) -> expected<void> {
    EXPECT_EQ(::write(fd, "new", 3), 3);
    EXPECT_EQ(content(), "old");
    return {};
  }));
  EXPECT_EQ(content(), "new");
}

TEST_F(durable_files, keep_the_old_content_after_an_error) {
  ASSERT_TRUE(write_durably({path}, "old"));
  const auto written = write_durably({path}, [](int fd) -> expected<void> {
    EXPECT_EQ(::write(fd, "new", 3), 3);
    return fail(errc::corrupt, "the source is damaged");
  });
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, errc::corrupt);
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files_in(folder), 1);
}

TEST_F(durable_files, are_written_elsewhere_first_if_wanted) {
  const std::string partial = folder + "/partial";
  fs::create_directories(partial);
  ASSERT_TRUE(write_durably({path, 0600, partial + "/"}, [&](int) -> expected<void> {
    EXPECT_EQ(files_in(partial), 1);
    EXPECT_EQ(files_in(folder), 1) << "the folder `partial`";
    return {};
  }));
  EXPECT_TRUE(fs::is_empty(partial));
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(durable_files, that_cannot_be_written_are_an_error_with_their_name) {
  const auto written = write_durably({folder + "/none/file"}, "text");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, errc::io_error);
  EXPECT_NE(written.error().message.find(folder + "/none/file"), std::string::npos) << written.error().message;
  fs::create_directories(path);
  EXPECT_EQ(write_durably({path}, "text").error().code, errc::io_error) << "a folder has that name";
  EXPECT_EQ(files_in(folder), 1);
  EXPECT_EQ(sync_folder(folder + "/none").error().code, errc::io_error);
}

}  // namespace
}  // namespace cudal1
