// A process that asks is killed: what was answered is not paid for again, and no key is in any file.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "asking.hpp"
#include "chat_server_process.hpp"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace cudal1 {
namespace {

namespace fs = std::filesystem;

constexpr int requests = 12;
// The child asks four at a time, in this order: these are answered, and the others stop in the middle of an answer.
constexpr int answered = 6, in_flight = 4;

pid_t start_child(const std::string& url, const std::string& folder, const std::string& output) {
  std::string program = CUDAL1_CHAT_CHILD, count = std::to_string(requests), u = url, f = folder;
  char* argv[] = {program.data(), u.data(), f.data(), count.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = -1;
  EXPECT_EQ(::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environ), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  return pid;
}

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

int count_of(const std::string& text, const std::string& word) {
  int count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++count;
  return count;
}

std::size_t answers_in(const std::string& folder) {
  std::size_t found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".json") ++found;
  return found;
}

TEST(chat_crash, no_completed_answer_is_paid_for_twice_after_kill_9) {
  // Answers and errors repeat the key, as a server might.
  const chat_server_process server(R"({"key": "sk-key-of-the-child", "rules": [
      {"match": "^question [0-5]$", "answers": [
          {"status": 500, "body": "sk-key-of-the-child made me fail"}, {"text": "key: sk-key-of-the-child"}]},
      {"answers": [{"text": "key: sk-", "fault": "stall"}, {"text": "key: sk-", "fault": "stall"},
                   {"text": "key: sk-", "fault": "stall"}, {"text": "key: sk-", "fault": "stall"},
                   {"text": "key: sk-key-of-the-child"}]}]})");
  const temporary_folder data;
  const std::string folder = data.path() + "/answers", output = data.path() + "/output",
                    first_output = data.path() + "/first_output";
  const pid_t first = start_child(server.url(), folder, first_output);
  // The refused try, the answers, and as many unfinished ones as the child has at a time: now it sends nothing more.
  ASSERT_TRUE(server.wait_until_begun(1 + answered + in_flight));
  ::kill(first, SIGKILL);
  ::waitpid(first, nullptr, 0);
  EXPECT_NE(content_of(first_output).find("[key] made me fail"), std::string::npos) << "the log";
  ASSERT_EQ(answers_in(folder), static_cast<std::size_t>(answered));
  const std::size_t asked_before = server.begun().size();
  const pid_t second = start_child(server.url(), folder, output);
  int status = 0;
  ::waitpid(second, &status, 0);
  EXPECT_EQ(status, 0);
  const std::string said = content_of(output);
  EXPECT_EQ(count_of(said, "cached"), answered) << said;
  EXPECT_EQ(count_of(said, "asked"), requests - answered) << said;
  EXPECT_EQ(server.begun().size() - asked_before, static_cast<std::size_t>(requests - answered));
  EXPECT_EQ(answers_in(folder), static_cast<std::size_t>(requests));
  for (const auto& entry : fs::recursive_directory_iterator(data.path()))
    if (entry.is_regular_file()) {
      EXPECT_EQ(content_of(entry.path()).find("sk-key-of-the-child"), std::string::npos) << entry.path();
    }
  EXPECT_EQ(content_of(server.log_file()).find("sk-key-of-the-child"), std::string::npos);
}

}  // namespace
}  // namespace cudal1
