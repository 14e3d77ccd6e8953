// cudal1-replay: runs task files' own programs on given tensors, for comparison with PyTorch
// (tools/python/verify_tasks.py). One request per line on stdin, one answer per line on stdout; a failed request does
// not end it.
#include <iostream>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "config/base/describe.hpp"
#include "config/base/stopwatch.hpp"
#include "tools/replay/replay.hpp"

namespace {

using namespace cudal1;

json answer(const std::string& line, const replay_options& options) {
  const stopwatch took;
  const auto done = [&]() -> expected<void> {
    CUDAL1_TRY(const json document, json::parse(line));
    replay_request request;
    CUDAL1_CHECK(from_json(document, request));
    return replay(request, options);
  }();
  if (!done) return json::make_object({{"error", done.error().message}});
  return json::make_object({{"ms", took.ms()}});
}

}  // namespace

int main(int argc, char** argv) {
  replay_options options;
  CLI::App app(
      "Runs tasks' own programs on given tensors, for comparison with PyTorch.\n"
      "Reads lines as {\"task\": \"t.json\", \"tensors\": \"in.safetensors\", \"out\": \"out.safetensors\"}\n"
      "from stdin, and answers each with {\"ms\": 12.3} or {\"error\": \"...\"} on stdout. With\n"
      "\"exact\": \"exact.safetensors\" the program is run in float64 too, and its outputs are written there.",
      "cudal1-replay");
  app.add_option("--device", options.device, "cpu, or cuda:0, ...")
      ->capture_default_str()
      ->check([](const std::string& name) {
        return is_replay_device(name) ? std::string() : "should be cpu, or cuda: and a number";
      });
  app.add_option("--threads", options.threads, "threads on the cpu")->capture_default_str()->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(line, options).text() << std::endl;
  return 0;
}
