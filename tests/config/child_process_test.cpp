#include "config/base/child_process.hpp"

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/pipe.hpp"
#include "config/base/text_file.hpp"

namespace cudal1 {
namespace {

class child_process_test : public testing::Test {
 protected:
  // Runs a shell's command to its end. What it printed; with "ended with N" if that is not 0.
  static std::string printed(child_start& start, const std::string& command) {
    auto ends = make_pipe().value();
    start.has(STDOUT_FILENO, ends.writer.get());
    const auto pid = start.run("sh", {"sh", "-c", command});
    ends.writer.reset();
    if (!pid) return pid.error().message;
    std::string text;
    char part[256];
    for (ssize_t n = 0; (n = ::read(ends.reader.get(), part, sizeof part)) > 0;)
      text.append(part, static_cast<std::size_t>(n));
    int status = 0;
    ::waitpid(*pid, &status, 0);
    return status == 0 ? text : text + "ended with " + std::to_string(WEXITSTATUS(status));
  }
};

TEST_F(child_process_test, has_the_files_that_it_was_given) {
  const auto file = std::filesystem::temp_directory_path() / ("cudal1-child-" + std::to_string(::getpid()));
  child_start twice;
  twice.reads_nothing().replaces(STDERR_FILENO, file);
  EXPECT_EQ(printed(twice, "cat; echo one; echo two >&2"), "one\n");
  child_start again;
  again.appends_to(STDERR_FILENO, file).drops(7);
  EXPECT_EQ(printed(again, "echo three >&2; echo four >&7"), "");
  EXPECT_EQ(read_text_file(file).value(), "two\nthree\n");
  std::filesystem::remove(file);
  child_start closed;
  EXPECT_EQ(printed(closed.has(9, STDERR_FILENO).closes_from(9), "echo x 2>/dev/null >&9"), "ended with 2");
}

TEST_F(child_process_test, has_the_variables_group_and_signals_that_it_was_given) {
  child_start variables;
  EXPECT_EQ(printed(variables.environment({"ANSWER=42"}), "echo $ANSWER$HOME"), "42\n");
  child_start group;
  EXPECT_EQ(printed(group.own_group(), "[ $(ps -o pgid= -p $$) = $$ ] && echo leads"), "leads\n");
  // Sets of signals, in hexadecimal.
  const auto set_of = [](child_start& start, const std::string& which) {
    return std::stoull(printed(start, "grep " + which + " /proc/$$/status | cut -f 2"), nullptr, 16);
  };
  constexpr auto bit_of = [](int signal) { return 1ULL << (signal - 1); };
  const auto before = std::signal(SIGUSR1, SIG_IGN);
  child_start as_here, handled, blocked, default_mask;
  EXPECT_NE(set_of(as_here, "SigIgn") & bit_of(SIGUSR1), 0U);
  EXPECT_EQ(set_of(handled.default_signal(SIGUSR1), "SigIgn") & bit_of(SIGUSR1), 0U);
  EXPECT_EQ(set_of(blocked.blocked_signal(SIGINT), "SigBlk"), bit_of(SIGINT));
  EXPECT_EQ(set_of(default_mask.default_signals(), "SigIgn") & (bit_of(32) - 1), 0U);  // but glibc's own
  std::signal(SIGUSR1, before);
}

TEST_F(child_process_test, an_error_names_what_cannot_be_started) {
  EXPECT_EQ(child_start().run("/no/such/program", {"x"}).error().message,
            "cannot start /no/such/program: No such file or directory");
  EXPECT_EQ(child_start().run("no_such_program_xyz", {"x"}, "the helper").error().message,
            "cannot start the helper: No such file or directory");
}

}  // namespace
}  // namespace cudal1
