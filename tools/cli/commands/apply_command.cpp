// cudal1 apply: a whole model before and after, measured in a process of its own.
#include <fmt/format.h>

#include "tools/cli/command.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/precision_option.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1::cli {

namespace {

struct apply_options {
  std::string model, package, device, precision;
  std::vector<std::string> inputs, beside, than;
  double seconds = 5;
  int64_t threads = 0;
  bool json = false;
};

expected<int> apply_model(const apply_options& o, const context& c) {
  if (o.package.empty()) CUDAL1_CHECK(refuse_remote(c, "`cudal1 apply` without --package"));
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("apply_model.py"));
  CUDAL1_TRY(const auto own, program_beside("cudal1"));
  CUDAL1_TRY(const interrupt_watch interrupt, interrupt_watch::start());
  std::vector<std::string> words{o.model, "--cudal1", own, "--data", c.data, "--seconds", fmt::format("{}", o.seconds)};
  if (!o.package.empty()) words.insert(words.end(), {"--package", o.package});
  if (!o.precision.empty()) words.insert(words.end(), {"--precision", o.precision});
  if (!o.device.empty()) words.insert(words.end(), {"--device", o.device});
  if (o.threads > 0) words.insert(words.end(), {"--threads", std::to_string(o.threads)});
  for (const auto& [flag, given] : {std::pair{"--inputs", &o.inputs}, {"--beside", &o.beside}, {"--than", &o.than}})
    for (const auto& value : *given)
      words.insert(words.end(), {flag, value});
  if (o.json) words.emplace_back("--json");
  CUDAL1_TRY(const auto done, run_python(python, script, words, interrupt.fd()));
  c.out.print(done.out);
  return done.code;
}

void add_apply(CLI::App& app, context& c) {
  const auto kinds = CLI::IsMember({"eager", "cudnn", "compile", "reduce-overhead", "max-autotune", "graph", "none"});
  auto o = std::make_shared<apply_options>();
  auto* sub = app.add_subcommand("apply", "measure a whole model with its variants, beside eager and torch.compile");
  sub->add_option("model", o->model,
                  "as for `cudal1 run`: FILE.py, FILE.py:NAME or package.module:NAME; it is executed")
      ->type_name("MODEL")
      ->required();
  sub->add_option(
         "--package", o->package,
         "a folder of `cudal1 export --format torch`, or an installed package; default: the best variants that "
         "the store has of this model")
      ->type_name("PACKAGE");
  add_precision_option(*sub, o->precision,
                       "of the variants that the store has: half, what was accepted in half precision; strict, what "
                       "was held to strict float32 (default: all but half); a package has its own")
      ->excludes(sub->get_option("--package"));
  sub->add_option("--inputs", o->inputs, "what gives the example inputs, as for `cudal1 run`; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  sub->add_option("--device", o->device, "cpu or cuda:N; default: the first GPU, else cpu")->type_name("DEVICE");
  sub->add_option("--threads", o->threads, "of PyTorch on the cpu; default: PyTorch's own")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}))
      ->type_name("N");
  sub->add_option("--seconds", o->seconds, "for the calls with each example (5)")
      ->check(CLI::Range(0.05, 3600.0))
      ->type_name("SECONDS");
  sub->add_option("--beside", o->beside,
                  "what else is measured: compile, on a GPU also max-autotune and graph, unless some are named; none")
      ->check(kinds)
      ->type_name("KIND")
      ->allow_extra_args(false);
  sub->add_option("--than", o->than, "what it must be faster than: eager, unless some are named")
      ->check(kinds)
      ->type_name("KIND")
      ->allow_extra_args(false);
  sub->add_flag("--json", o->json, "print one JSON document");
  sub->footer(
      footer("  cudal1 apply model.py\n"
             "  cudal1 apply blocks.py:SwiGLU --package fast_model --than eager --than compile\n"
             "Calls of all kinds alternate in random order on the same inputs, with caches flushed. Shown are the "
             "medians of the\n"
             "call time and, on a GPU, of the time on the device, the median ratio over eager with its 95% interval, "
             "the memory "
             "that\n"
             "a call takes beyond what is in use, and the relative error against the model in float64.",
             "  0    faster than all of --than by more than the interval, and right\n"
             "  1    not faster, or its outputs are wrong\n"
             "  2    there is no such package or model\n"
             "  3    nothing can be measured: no variants, none that fits, no GPU, no Python with PyTorch"));
  sub->callback([o, &c] { finish(c, apply_model(*o, c)); });
}

const command_registration registered_apply(91, add_apply);

}  // namespace

}  // namespace cudal1::cli
