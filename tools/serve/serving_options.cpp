#include "tools/serve/serving_options.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

namespace cudal1::serve {

void add_serving_flags(CLI::App& app, serving_options& o, bool of_node) {
  const std::string prefix = of_node ? "--serve-" : "--";
  app.add_option(of_node ? "--serve" : "--address", o.address,
                 "serve evaluations over HTTP there, as in 127.0.0.1:4980; one that other machines reach needs tokens, "
                 "and the certificate of `cudal1 cluster init` or " +
                     prefix + "insecure")
      ->type_name("ADDRESS:PORT");
  app.add_flag(prefix + "insecure", o.insecure, "other machines without TLS: only behind a proxy that has it");
  app.add_flag(prefix + "require-token", o.require_token,
               "a token also on this machine: other users or a proxy connect");
  app.add_flag(prefix + "local-import", o.local_import,
               "clients of this machine without a token may import models, which executes their Python, confined");
  app.add_option(prefix + "body-mb", o.body_mb, "size of a request's body")
      ->check(CLI::Range(int64_t{1}, int64_t{64}))
      ->type_name("MIB")
      ->capture_default_str();
  app.add_option(prefix + "rate", o.requests_per_s, "requests a second of each client; twice as many in a row")
      ->check(CLI::Range(0.1, 1e6))
      ->type_name("N")
      ->capture_default_str();
  app.add_option(prefix + "waiting", o.waiting, "evaluations of each client that may wait")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000}))
      ->type_name("N")
      ->capture_default_str();
  app.add_option(prefix + "device-time", o.device_s_per_hour,
                 "seconds on devices that each client gets in an hour; 0: no limit")
      ->check(CLI::Range(0.0, 3600.0 * 1024))
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option(prefix + "kept-jobs", o.kept_jobs, "jobs that have ended and can still be asked for")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->type_name("N")
      ->capture_default_str();
}

std::vector<std::string> serving_flags(const serving_options& o) {
  std::vector<std::string> words = {"--serve",
                                    o.address,
                                    "--serve-body-mb",
                                    std::to_string(o.body_mb),
                                    "--serve-rate",
                                    fmt::format("{}", o.requests_per_s),
                                    "--serve-waiting",
                                    std::to_string(o.waiting),
                                    "--serve-device-time",
                                    fmt::format("{}", o.device_s_per_hour),
                                    "--serve-kept-jobs",
                                    std::to_string(o.kept_jobs)};
  if (o.insecure) words.emplace_back("--serve-insecure");
  if (o.require_token) words.emplace_back("--serve-require-token");
  if (o.local_import) words.emplace_back("--serve-local-import");
  return words;
}

}  // namespace cudal1::serve
