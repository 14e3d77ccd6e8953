// cudal1 verify: checks and measures a package of `cudal1 export --format torch` again, on this machine.
#include <fmt/format.h>

#include "tools/cli/command.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1::cli {

namespace {

struct verify_options {
  std::string package, device;
  double seconds = 1;
  int64_t threads = 0;
  bool no_times = false, json = false;
};

expected<int> verify_package(const verify_options& o, const context& c) {
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("verify_package.py"));
  CUDAL1_TRY(const interrupt_watch interrupt, interrupt_watch::start());
  std::vector<std::string> words{o.package, "--seconds", fmt::format("{}", o.seconds)};
  if (!o.device.empty()) words.insert(words.end(), {"--device", o.device});
  if (o.threads > 0) words.insert(words.end(), {"--threads", std::to_string(o.threads)});
  if (o.no_times) words.emplace_back("--no-times");
  if (o.json) words.emplace_back("--json");
  CUDAL1_TRY(const auto done, run_python(python, script, words, interrupt.fd()));
  c.out.print(done.out);
  return done.code;
}

void add_verify(CLI::App& app, context& c) {
  auto o = std::make_shared<verify_options>();
  auto* sub = app.add_subcommand("verify", "check and measure a package of variants again, on this machine");
  sub->add_option("package", o->package, "a folder of `cudal1 export --format torch`, or the name of an installed one")
      ->type_name("PACKAGE")
      ->required();
  sub->add_option("--device", o->device, "cpu or cuda:N; default: what it was made for")->type_name("DEVICE");
  sub->add_option("--seconds", o->seconds, "for the times of each variant (1)")
      ->check(CLI::Range(0.05, 3600.0))
      ->type_name("SECONDS");
  sub->add_option("--threads", o->threads, "of PyTorch on the cpu; default: as many as the search timed with")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}))
      ->type_name("N");
  sub->add_flag("--no-times", o->no_times, "check only");
  sub->add_flag("--json", o->json, "print one JSON document");
  sub->footer(footer(
      "  cudal1 verify fast_model\n"
      "  cudal1 verify ./fast_model --json --seconds 5\n"
      "Its files are compared with the hashes in its index, which is no protection against who changes both. Each "
      "variant "
      "is\n"
      "run as a module beside its model, whose source is in the package and is executed, on three draws of inputs: its "
      "outputs\n"
      "must be close, and no further from float64 than eager's allow. Then calls of both alternate. What is another "
      "than\n"
      "at the export (GPU, driver, PyTorch, processor) is listed. The same without cudal1: `python -m PACKAGE`.",
      "  0    all is right, and nothing is slower than eager\n"
      "  1    a file was changed, or a variant is wrong or slower\n"
      "  2    there is no such package\n"
      "  3    a variant cannot run here (no GPU, another architecture without NVRTC), or there is no Python with "
      "PyTorch"));
  sub->callback([o, &c] { finish(c, verify_package(*o, c)); });
}

const command_registration registered_verify(92, add_verify);

}  // namespace

}  // namespace cudal1::cli
