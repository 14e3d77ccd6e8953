// The protocol of the node's socket and its client, against a listener in this process.
#include "actors/clients/client.hpp"

#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/tools/tools_fixture.hpp"

namespace cudal1::cli {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class listener {
 public:
  explicit listener(const std::string& folder) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto where = address_of_node(folder);
    EXPECT_TRUE(holds(where));
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&where->address), sizeof where->address), 0);
    EXPECT_EQ(::listen(fd_.get(), 4), 0);
  }
  unique_fd accept() const { return unique_fd(::accept(fd_.get(), nullptr, nullptr)); }

 private:
  unique_fd fd_;
};

std::string read_line(int fd) {
  line_splitter lines;
  for (;;) {
    if (auto line = lines.next()) return *line;
    char byte = 0;
    if (::read(fd, &byte, 1) != 1) return "";
    EXPECT_TRUE(holds(lines.add(std::string_view(&byte, 1))));
  }
}

void say(int fd, const std::string& text) {
  EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(client_codec, requests_and_answers_come_back_as_they_were) {
  client_request r;
  r.verb = client_verb::evaluate;
  r.program = "{}\n---\n\"quoted\" \\ source\n";
  r.seed = uint64_t{1} << 62;
  r.time_limit_s = 0.1;
  const auto line = encode(r);
  ASSERT_EQ(line.find('\n'), line.size() - 1) << "one line";
  const auto back = decode_request(std::string_view(line).substr(0, line.size() - 1));
  ASSERT_TRUE(holds(back));
  EXPECT_EQ(back->verb, r.verb);
  EXPECT_EQ(back->program, r.program);
  EXPECT_EQ(back->seed, r.seed);
  EXPECT_EQ(back->time_limit_s, r.time_limit_s);

  const auto answer = refusal({errc::not_found, "no experiment \"e9\""});
  const auto text = encode(answer);
  const auto read = decode_answer(std::string_view(text).substr(0, text.size() - 1));
  ASSERT_TRUE(holds(read));
  EXPECT_TRUE(read->last);
  const auto problem = error_of(*read);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->code, errc::not_found);
  EXPECT_EQ(problem->message, "no experiment \"e9\"");
  EXPECT_FALSE(error_of(client_answer{}));
}

TEST(client_codec, another_version_is_refused_with_a_sentence) {
  client_request r;
  r.version = client_protocol_version + 1;
  auto line = encode(r);
  line.pop_back();
  const auto read = decode_request(line);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, errc::unsupported);
  EXPECT_THAT(read.error().message, HasSubstr("the same build"));
}

TEST(client_codec, malformed_requests_are_errors) {
  for (const auto* line : {"", "{", "[]", "{}", "{\"version\": \"1\"}", "{\"version\": 2, \"verb\": \"fly\"}",
                           "{\"version\": 2, \"verb\": \"run\", \"tasks\": 7}"})
    EXPECT_FALSE(decode_request(line)) << line;
}

TEST(line_splitter, cuts_a_stream_that_arrives_in_any_pieces) {
  const std::string stream = "one\n\nthree\nfo";
  for (std::size_t piece = 1; piece < stream.size(); ++piece) {
    line_splitter lines;
    std::vector<std::string> got;
    for (std::size_t i = 0; i < stream.size(); i += piece) {
      ASSERT_TRUE(holds(lines.add(std::string_view(stream).substr(i, piece))));
      while (auto line = lines.next())
        got.push_back(*line);
    }
    EXPECT_THAT(got, testing::ElementsAre("one", "", "three")) << piece;
  }
}

TEST(node_client, connecting_fails_with_not_found_if_no_node_listens) {
  temporary_folder data;
  const auto nobody = node_client::connect(data.path());
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, errc::not_found);
  {
    listener gone(data.path());  // leaves its socket file behind, as a killed node does
  }
  const auto dead = node_client::connect(data.path());
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().code, errc::not_found);
}

TEST(node_client, reaches_a_node_in_a_folder_whose_path_is_longer_than_a_socket_may_have) {
  temporary_folder top;
  const auto folder = top / std::string(120, 'd');
  std::filesystem::create_directories(folder);
  const listener node(folder);
  auto client = node_client::connect(folder);
  ASSERT_TRUE(holds(client));
  const auto served = node.accept();
  ASSERT_TRUE(holds(client->send(client_request{})));
  EXPECT_TRUE(holds(decode_request(read_line(served.get()))));
}

TEST(node_client, an_answer_after_a_timeout_is_still_received) {
  temporary_folder data;
  const listener node(data.path());
  auto client = node_client::connect(data.path());
  ASSERT_TRUE(holds(client));
  const auto served = node.accept();
  const auto nothing = client->receive(1ms);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, errc::timeout);

  client_answer answer;
  answer.progress.emplace().experiment = "e1";
  const auto text = encode(answer) + encode(refusal({errc::cancelled, "stopped"}));
  say(served.get(), text.substr(0, 10));
  EXPECT_EQ(client->receive(1ms).error().code, errc::timeout);
  say(served.get(), text.substr(10));
  const auto first = client->receive(5s);
  ASSERT_TRUE(holds(first));
  EXPECT_EQ(first->progress->experiment, "e1");
  const auto second = client->receive(5s);
  ASSERT_TRUE(holds(second));
  EXPECT_EQ(error_of(*second)->code, errc::cancelled);
}

TEST(node_client, wakes_up_for_ctrl_c_and_for_a_node_that_dies) {
  temporary_folder data;
  const listener node(data.path());
  auto client = node_client::connect(data.path());
  ASSERT_TRUE(holds(client));
  auto served = node.accept();
  const unique_fd wake(::eventfd(1, EFD_CLOEXEC));
  EXPECT_EQ(client->receive(5s, wake.get()).error().code, errc::cancelled);
  served.reset();
  EXPECT_EQ(client->receive(5s).error().code, errc::infrastructure);
}

TEST(node_client, sending_to_a_node_that_reads_nothing_times_out) {
  temporary_folder data;
  const listener node(data.path());
  auto client = node_client::connect(data.path());
  ASSERT_TRUE(holds(client));
  const auto served = node.accept();
  client_request large;
  large.program = std::string(8 << 20, 'x');
  const auto sent = client->send(large, 20ms);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, errc::timeout);
}

}  // namespace
}  // namespace cudal1::cli
