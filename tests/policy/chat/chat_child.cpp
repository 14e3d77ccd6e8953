// Asks COUNT requests of one endpoint with the cache in FOLDER, and prints its log and a line for each answer; for
// chat_crash_test.
//   chat_child URL FOLDER COUNT
#include <cstdio>
#include <cstdlib>

#include "asking.hpp"
#include <spdlog/spdlog.h>
#include <unistd.h>

int main(int, char** argv) {
  using namespace cudal1;
  spdlog::flush_on(spdlog::level::info);
  auto m = test_model(argv[1]);
  m.parallel = 4;
  m.patience_s = m.first_token_timeout_s = m.token_timeout_s = 100;  // an unfinished answer is not given up
  m.key.value = secret("sk-key-of-the-child");
  const auto client = client_of(m, std::make_shared<answer_cache>(argv[2]));
  std::vector<answer_future> futures;
  for (int i = 0; i < std::atoi(argv[3]); ++i)
    futures.push_back(begin_asking(*client, request_for("question " + std::to_string(i), i)).second);
  for (auto& f : futures) {
    const auto a = f.get();
    if (!a) std::fprintf(stderr, "%s\n", a.error().message.c_str());
    std::printf("%s\n", !a ? "error" : a->cached ? "cached" : "asked");
    std::fflush(stdout);
  }
}
