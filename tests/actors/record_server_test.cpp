// What a client on another machine is answered of the store and the blobs.
#include "actors/clients/record_server.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/base64.hpp"
#include "config/base/hash.hpp"
#include "store/keys.hpp"
#include "store/store.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

class record_server_test : public testing::Test {
 protected:
  record_answer ask(const record_request& r) {
    const auto line = encode(r);
    EXPECT_TRUE(is_record_request(line));
    return server_.answer(std::string_view(line).substr(0, line.size() - 1));
  }
  record_answer about_blob(record_verb verb, const std::string& name, int64_t offset = 0, int64_t size = 0,
                           const std::string& bytes = "") {
    record_request r;
    r.verb = verb;
    r.blob = name;
    r.offset = offset;
    r.size = size;
    r.bytes = base64(bytes);
    return ask(r);
  }
  record_answer scan(family where, const std::string& start = "") {
    record_request r;
    r.verb = record_verb::scan;
    r.where = where;
    r.start = base64(start);
    return ask(r);
  }
  void make_store(int events, const std::string& text) {
    const auto writer = store::open(folder_ / "store");
    ASSERT_TRUE(writer) << writer.error().message;
    ASSERT_TRUE((*writer)->write_together([&] {
      event_record e;
      e.kind = "node";
      e.text = text;
      for (int i = 0; i < events; ++i)
        EXPECT_TRUE((*writer)->add_event(e));
    }));
  }
  std::size_t files_of_data() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_.path()), std::filesystem::directory_iterator()));
  }

  temporary_folder folder_;
  record_server server_{folder_.path()};
};

TEST_F(record_server_test, a_scan_comes_in_parts_that_go_on_where_the_last_one_ended) {
  for (const auto& [events, text] : {std::pair{5000, std::string("short")}, {5, std::string(600 << 10, 'x')}}) {
    std::filesystem::remove_all(folder_ / "store");
    make_store(events, text);
    record_server fresh(folder_.path());
    const auto line = encode(record_request{});
    ASSERT_EQ(fresh.answer(line).error, "");
    std::string start;
    int seen = 0, parts = 0;
    for (bool more = true; more; ++parts) {
      record_request r;
      r.verb = record_verb::scan;
      r.where = family::events;
      r.start = base64(start);
      const auto a = fresh.answer(encode(r));
      ASSERT_EQ(a.error, "");
      ASSERT_FALSE(a.entries.empty());
      for (const auto& entry : a.entries) {
        const auto key = from_base64(entry.key).value();
        EXPECT_EQ(keys::reader(key).number(), static_cast<uint64_t>(++seen));
        start = key + '\0';
      }
      more = a.more;
    }
    EXPECT_EQ(seen, events);
    EXPECT_GT(parts, 1);
  }
}

TEST_F(record_server_test, the_store_is_read_as_it_was_when_it_was_opened) {
  EXPECT_EQ(ask({}).error_code, "not_found") << "there is none yet";
  EXPECT_THAT(scan(family::events).error, HasSubstr("the first request for records must be `open`"));
  make_store(2, "first");
  ASSERT_EQ(ask({}).error, "");
  EXPECT_EQ(ask({}).schema, store_schema_version);
  make_store(3, "second");
  EXPECT_EQ(scan(family::events).entries.size(), 2u);
  ASSERT_EQ(ask({}).error, "");
  EXPECT_EQ(scan(family::events).entries.size(), 5u);
}

TEST_F(record_server_test, a_blob_is_kept_once_all_of_its_parts_are_there_and_right) {
  const std::string bytes = std::string(1000, 'a') + "the end";
  const auto size = static_cast<int64_t>(bytes.size());
  const std::string name = sha256_hex(bytes) + ".safetensors";
  EXPECT_FALSE(about_blob(record_verb::find_blob, name).found);
  EXPECT_EQ(about_blob(record_verb::write_blob, name, 0, size, bytes.substr(0, 600)).error, "");
  EXPECT_FALSE(about_blob(record_verb::find_blob, name).found);
  EXPECT_THAT(about_blob(record_verb::write_blob, name, 601, size, "x").error, HasSubstr("is not the next one"));
  const auto last = about_blob(record_verb::write_blob, name, 600, size, bytes.substr(600));
  EXPECT_EQ(last.error, "");
  EXPECT_TRUE(last.found);
  EXPECT_EQ(about_blob(record_verb::find_blob, name).size, size);
  const auto read = about_blob(record_verb::read_blob, name, 990);
  EXPECT_EQ(from_base64(read.bytes).value(), bytes.substr(990));
  EXPECT_EQ(read.size, size);
  EXPECT_EQ(files_of_data(), 1u) << "no file is left over";

  const std::string wrong = sha256_hex("something else") + ".py";
  EXPECT_EQ(about_blob(record_verb::write_blob, wrong, 0, size, bytes).error_code, "corrupt");
  EXPECT_FALSE(about_blob(record_verb::find_blob, wrong).found);
  EXPECT_EQ(files_of_data(), 1u);
}

TEST_F(record_server_test, only_blobs_are_read_and_written) {
  std::ofstream(folder_ / "secret") << "key";
  std::filesystem::create_directories(folder_ / "blobs");
  const std::string digest(64, 'a');
  for (const auto& name : {std::string("../secret"), digest + "/../../secret", digest + "./../secret", digest + ".A",
                           std::string(), digest.substr(1) + ".py"})
    for (const auto verb : {record_verb::find_blob, record_verb::read_blob, record_verb::write_blob})
      EXPECT_THAT(about_blob(verb, name).error, HasSubstr("is not the name of a blob")) << name;
}

TEST_F(record_server_test, other_versions_and_lines_that_are_no_requests_are_refused_with_a_sentence) {
  EXPECT_THAT(server_.answer(R"({"records":2,"verb":"open"})").error, HasSubstr("of the same build"));
  EXPECT_EQ(server_.answer(R"({"records":1,"verb":"format"})").error_code, "parse_error");
  EXPECT_EQ(server_.answer(R"({"records":1,"verb":)").error_code, "parse_error");
  EXPECT_FALSE(is_record_request(R"({"version":6,"verb":"hello"})"));
}

}  // namespace
}  // namespace cudal1
