// cudal1-node: the process that owns the store, the devices and the compilers of a data folder.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>

#include <CLI/CLI.hpp>
#include <caf/thread_hook.hpp>
#include <fmt/ranges.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/agent/agent_actor.hpp"
#include "actors/agent/cores.hpp"
#include "actors/agent/machine_devices.hpp"
#include "actors/clients/client_server.hpp"
#include "actors/clients/data_lock.hpp"
#include "actors/clients/metrics_server.hpp"
#include "actors/coordinator/coordinator_actor.hpp"
#include "config/base/describe.hpp"
#include "config/base/process_environment.hpp"
#include "config/base/thread_cores.hpp"
#include "config/configuration.hpp"
#include "config/data_folder.hpp"
#include "policy/search/policy_registry.hpp"
#include "tools/cli/node_settings.hpp"
#include "tools/node_baselines.hpp"
#include "tools/node_cluster.hpp"
#include "tools/node_compilers.hpp"
#include "tools/node_devices.hpp"
#include "tools/node_serving.hpp"

namespace cudal1 {

namespace {

using namespace std::chrono_literals;

// Exit codes, also in --help.
constexpr int exit_ok = 0, exit_failed = 1, exit_usage = 2, exit_weak_confinement = 3, exit_data_in_use = 4;

struct flags {
  std::string data, device, config, log_level = "info", worker, listen, join, identity;
  std::vector<std::string> settings;
  serve::serving_options serving;
  int threads = 0;
  double exit_when_idle_s = -1;
  bool allow_weak_confinement = false, no_resume = false;
};

constexpr const char* description =
    "The process that searches: it owns the store, the devices and the compilers of a data folder, and runs\n"
    "experiments for `cudal1`, which starts one if none runs. It listens on DATA/node.sock (this user only), logs to\n"
    "stderr and DATA/node.log, and resumes the experiments that ran when the last node ended, also after a crash.\n\n"
    "With --listen, nodes on other machines can join it, and experiments use their devices and compilers too. With\n"
    "--join it is such a node: it has no store, and works for the coordinator until it is stopped. Both need\n"
    "certificates, which `cudal1 cluster` makes.\n";

constexpr const char* footer =
    "SIGINT or SIGTERM ends it cleanly: what is on a device is finished, and the next node resumes the\n"
    "experiments. A second signal ends it at once: nothing that was acknowledged is lost, and evaluations in flight\n"
    "are repeated.\n\n"
    "Exit codes: 0 ended as requested; 1 failed (the last lines of the log say why); 2 invalid flags or\n"
    "configuration; 3 this system lacks a required confinement (--allow-weak-confinement runs without it); 4 another\n"
    "node runs on DATA.\n\n"
    "Examples:\n"
    "  cudal1-node                                  a node for this user, until it is stopped\n"
    "  cudal1-node --data /var/tmp/search --device cuda:0,cuda:1\n"
    "  cudal1-node --set timing.max_forks=20 --set search.group_size=16\n"
    "  cudal1-node --listen 0.0.0.0:4977            other machines can join\n"
    "  cudal1-node --serve 127.0.0.1:4980           evaluations over HTTP, for agents and trainers\n"
    "  cudal1-node --join gpu1:4977                 with this machine's certificate in DATA/cluster/identity.pem\n";

void define(CLI::App& app, flags& f) {
  app.add_option("--data", f.data, "folder of the store, the log and the socket ($CUDAL1_DATA)")
      ->default_str(default_data_folder())
      ->type_name("DIR");
  app.add_option("--device", f.device,
                 "devices to run variants on, as in cpu, cuda:0 or cuda:0,cuda:1; cuda is every GPU (default: "
                 "device.devices, which is every GPU, or cpu where there is none); none: a coordinator that measures "
                 "nothing itself; replay answers from the stored verdicts of replay.source")
      ->type_name("LIST");
  app.add_option("--listen", f.listen, "where other machines join (cluster.listen)")->type_name("ADDRESS:PORT");
  app.add_option("--join", f.join, "work for the coordinator there")->type_name("HOST:PORT")->excludes("--listen");
  app.add_option("--identity", f.identity,
                 "with --join: this machine's certificate (default: DATA/cluster/identity.pem)")
      ->type_name("FILE");
  serve::add_serving_flags(app, f.serving, true);
  app.get_option("--serve")->excludes("--join");
  app.add_option("--threads", f.threads, "threads of a timed call (device.threads)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--config", f.config, "configuration file (default: $CUDAL1_CONFIG, DATA/cudal1.toml)")
      ->envname("CUDAL1_CONFIG")
      ->type_name("FILE");
  app.add_option("--set", f.settings, "one setting, which overrides the file and the environment; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--exit-when-idle", f.exit_when_idle_s,
                 "exit after this long without a running experiment or a connected client (2 without a value)")
      ->expected(0, 1)
      ->default_str("2")
      ->type_name("SECONDS");
  app.add_flag("--no-resume", f.no_resume, "do not resume the experiments that ran when the last node ended");
  app.add_flag("--allow-weak-confinement", f.allow_weak_confinement,
               "run variants although this system lacks a required confinement: only for code that you trust");
  app.add_option("--worker", f.worker, "the worker program (default: cudal1-worker in this program's folder)")
      ->type_name("FILE");
  app.add_option("--log-level", f.log_level, "trace, debug, info, warn, error or critical")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "critical"}))
      ->capture_default_str();
}

// Logs to DATA/node.log, and to stderr unless that is the same file.
void start_log(const flags& f, const operation_options& o) {
  std::vector<spdlog::sink_ptr> sinks;
  const std::string path = f.data + "/node.log";
  struct stat log {
  }, error{};
  const bool same = ::stat(path.c_str(), &log) == 0 && ::fstat(STDERR_FILENO, &error) == 0 &&
                    log.st_dev == error.st_dev && log.st_ino == error.st_ino;
  sinks.push_back(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, static_cast<std::size_t>(o.log_mb) << 20,
                                                                         static_cast<std::size_t>(o.log_files)));
  if (!same) sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  auto logger = std::make_shared<spdlog::logger>("cudal1-node", sinks.begin(), sinks.end());
  logger->set_level(spdlog::level::from_str(f.log_level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

// ---- signals and shutdown -----------------------------------------------------------------------------------------

int end_fd = -1;  // an eventfd: readable when the process should end
std::atomic<int> signals_seen = 0;
std::atomic<bool> is_starting = true;  // nothing is in flight yet that could be finished

void request_shutdown() {
  const uint64_t one = 1;
  if (::write(end_fd, &one, sizeof one) != sizeof one) std::_Exit(exit_failed);
}

extern "C" void on_signal(int signal) {
  // Async-signal-safe. The second signal ends the process here; its children, which watch their parent, end with it.
  if (is_starting) std::_Exit(exit_ok);
  if (signals_seen.fetch_add(1) > 0) std::_Exit(128 + signal);
  request_shutdown();
}

expected<void> catch_signals() {
  end_fd = ::eventfd(0, EFD_CLOEXEC);
  if (end_fd < 0) return fail(errc::io_error, "cannot create an eventfd");
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM})
    ::sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of a file's size is an error of the write
  return {};
}

// Ends the process if this object still lives after `limit`: CAF waits without a timeout for its actors and, in its
// destructor, for threads of its own, which may never wake up. By then the store is closed or has everything that was
// acknowledged.
class forced_exit {
 public:
  forced_exit(std::chrono::seconds limit, int code, const char* awaited)
      : thread_([limit, code, awaited](const std::stop_token& stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any().wait_for(lock, stop, limit, [] { return false; });
          if (stop.stop_requested()) return;
          spdlog::warn("node {} ends with exit code {} although {} did not end within {} s", ::getpid(), code, awaited,
                       limit.count());
          spdlog::default_logger()->flush();
          std::_Exit(code);
        }) {}

 private:
  std::jthread thread_;
};

constexpr std::chrono::seconds all_limit{10}, system_limit{2};

// ---- cores --------------------------------------------------------------------------------------------------------

// Reserves cores for timing: moves this thread, and so all that it starts later, to the other cores.
core_layout reserve_timing_cores(const node_options& o) {
  const auto requests = core_requests_of(o.devices, o.settings.device);
  const auto allowed = cores_of_this_thread();
  const auto claims = claims_of_this_process();
  core_layout cores;
  if (claims) {
    cores = lay_out_cores_of_node(allowed, requests, **claims);
  } else {
    cores = lay_out_cores(allowed, requests);
    remark_on_missing_cores(cores, requests);
    for (const auto& request : requests)
      cores.remarks.try_emplace(request.device,
                                "other nodes of this machine may measure on the same cores: " + claims.error().message);
  }
  for (const auto& request : requests)
    if (const auto own = cores.timing_of(request.device); !own.empty())
      spdlog::info("device {}: cores {} are for its timing", request.device, fmt::join(own, ", "));
  for (const auto& [device, remark] : cores.remarks)
    spdlog::warn("device {}: {}", device, remark);
  if (auto moved = move_this_thread(cores.others); !moved) spdlog::warn("{}", moved.error().message);
  return cores;
}

// ---- the process --------------------------------------------------------------------------------------------------

// The settings of the kinds of device that are here; a coordinator sends those of all kinds to other machines.
std::vector<configuration> settings_in_use(const node_options& o, const std::map<std::string, configuration>& by_kind) {
  std::vector<configuration> used;
  std::set<std::string> here;
  for (const auto& d : o.devices)
    here.insert(traits_of(d.name).kind);
  for (const auto& [kind, c] : by_kind)
    if (here.empty() || !o.settings.cluster.listen.empty() || here.contains(kind)) used.push_back(c);
  return used;
}

expected<node_options> options_of(const flags& f, replay_devices& replays) {
  auto environment = process_environment();
  node_options o;
  const auto file = f.config.empty() ? std::nullopt : std::optional(f.config);
  const auto load = [&](configuration defaults) -> expected<configuration> {
    CUDAL1_TRY(auto c, load_configuration(file, f.data + "/cudal1.toml", environment, f.settings, std::move(defaults)));
    if (f.threads > 0) c.device.threads = f.threads;
    if (!f.device.empty()) c.device.devices = f.device;
    if (!f.listen.empty()) c.cluster.listen = f.listen;
    c.device.allow_weak_confinement |= f.allow_weak_confinement;
    return c;
  };
  CUDAL1_TRY(o.settings, load({}));
  CUDAL1_CHECK(check_policy_name(o.settings.search.policy));
  std::map<std::string, configuration> by_kind;
  for (const auto* type : device_types()) {
    configuration defaults;
    type->set_defaults(defaults);
    CUDAL1_TRY(auto& c = o.of_kind[type->traits().kind], load(defaults));
    by_kind[type->traits().kind] = c;
    type->apply_own_settings(c);
  }
  o.data = f.data;
  o.environment = std::move(environment);
  CUDAL1_CHECK(open_replays(o.settings, o.data, replays));
  CUDAL1_TRY(o.devices, devices_of_node(o.settings.device.devices));
  CUDAL1_CHECK(write_node_settings(f.data, settings_in_use(o, by_kind)));
  CUDAL1_CHECK(reserve_policy_devices(o));
  o.worker = f.worker;
  o.version = CUDAL1_VERSION;
  return o;
}

// Returns when the process should end: true if it was asked to, false if it was idle for long enough.
bool wait_for_shutdown(const flags& f, const std::function<bool()>& has_clients, caf::scoped_actor& self,
                       const coordinator_actor& node, tls_transport* cluster) {
  using clock = std::chrono::steady_clock;
  auto busy = clock::now();
  for (;;) {
    pollfd end{end_fd, POLLIN, 0};
    if (::poll(&end, 1, f.exit_when_idle_s >= 0 ? 250 : cluster != nullptr ? 2000 : -1) > 0) return true;
    if (cluster != nullptr) cluster->close_refused();
    if (f.exit_when_idle_s < 0) continue;
    const auto status = has_clients() ? fail(errc::cancelled, "busy")
                                      : ask_blocking<node_status>(self, node, 10s, message::status_query{});
    if (!status || !status->experiments.empty()) busy = clock::now();
    if (clock::now() - busy > std::chrono::duration<double>(f.exit_when_idle_s)) return false;
  }
}

int report(const error& e) {
  spdlog::critical("{}", e.message);
  switch (e.code) {
    case errc::refused:
      return exit_weak_confinement;
    case errc::already_exists:
      return exit_data_in_use;
    case errc::invalid_argument:
    case errc::parse_error:
      return exit_usage;
    default:
      return exit_failed;
  }
}

void log_missing_confinement(const node_status& s) {
  for (const auto& d : s.devices)
    for (const auto& item : d.confinement)
      if (!item.in_force)
        spdlog::log(item.required ? spdlog::level::warn : spdlog::level::info, "device {}: not in force: {} ({})",
                    d.where.device, item.name, item.detail);
  for (const auto& t : s.troubled)
    spdlog::warn("device {} does not work: {}", t.device, t.problem);
}

// Serves clients from the start of the node until it is drained.
expected<int> serve_clients(const flags& f, caf::actor_system& system, const coordinator_actor& node,
                            const node_options& o, const std::shared_ptr<store>& db) {
  caf::scoped_actor self(system);
  std::unique_ptr<metrics_server> metrics;
  if (const auto& where = o.settings.operation.metrics; !where.empty()) {
    CUDAL1_TRY(metrics, metrics_server::listen(system, where, node));
    spdlog::info("metrics are served at {}/metrics, port {}", where, metrics->port());
  }
  CUDAL1_TRY(const node_status ready, ask_blocking<node_status>(self, node, 3min, message::await_devices{}));
  log_missing_confinement(ready);
  if (!f.no_resume) CUDAL1_CHECK(ask_blocking<message::done>(self, node, 5min, message::resume_experiments{}));
  is_starting = false;
  client_server clients(system, {o.data, o.settings.search, node, db, request_shutdown});
  std::shared_ptr<tls_transport> cluster;
  if (const auto& where = o.settings.cluster.listen; !where.empty()) {
    CUDAL1_TRY(cluster, open_cluster(system, o.data, where, node, clients));
  }
  CUDAL1_CHECK(clients.listen());
  CUDAL1_TRY(const auto evaluations,
             serve_evaluations(f.serving, o, system, node, static_cast<int>(ready.devices.size())));
  spdlog::info("node {} is ready on {}", ::getpid(), o.data);
  const auto has_clients = [&] { return clients.connections() > 0 || (evaluations && evaluations->is_busy()); };
  const bool asked = wait_for_shutdown(f, has_clients, self, node, cluster.get());
  spdlog::info(asked ? "ending: finishing the evaluations in flight; a second signal ends at once" : "idle: ending");
  clients.ending();
  if (evaluations) evaluations->take_no_more();
  if (auto drained = ask_blocking<message::done>(self, node, 5min, message::drain{}); !drained)
    spdlog::error("evaluations in flight did not finish; the next node repeats them: {}", drained.error().message);
  clients.stop();  // while they are connected
  return exit_ok;
}

// CAF names the threads that run actors like the one that serves its connections, which tls_transport renames.
class actor_thread_names : public caf::thread_hook {
  void init(caf::actor_system&) override {}
  void thread_started() override {
    std::array<char, 16> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    if (name.data() == std::string_view("caf.multiplexer")) ::pthread_setname_np(::pthread_self(), "actors");
  }
  void thread_terminates() override {}
};

void configure(caf::actor_system_config& config) {
  register_messages(config);
  // The default scheduler polls, which would disturb the cores that are timing.
  config.set("scheduler.policy", caf::atom("sharing"));
  // Two are enough for the devices of one machine. A coordinator of hundreds serves their searches with more.
  const auto threads = std::clamp<std::size_t>(std::thread::hardware_concurrency() / 8, 2, 8);
  config.set("scheduler.max-threads", threads);
  // What reads messages: so many that the thread of the connections, which does it itself if all have one, need not.
  config.set("middleman.workers", std::size_t{64});
  config.add_thread_hook<actor_thread_names>();
}

// Ends the process when an actor cannot continue.
class fatal_problem {
 public:
  std::function<void(const std::string&)> handler() {
    return [this](const std::string& why) {
      spdlog::critical("{}", why);
      seen_ = true;
      request_shutdown();
    };
  }
  explicit operator bool() const { return seen_; }

 private:
  std::atomic<bool> seen_ = false;
};

// As the coordinator of its cluster, which may be itself alone.
expected<int> coordinate(const flags& f, const node_options& options,
                         std::map<std::string, std::shared_ptr<kernel_compiler>> compilers) {
  std::optional<forced_exit> all_ends;
  CUDAL1_TRY(std::shared_ptr<store> db, store::open(f.data + "/store"));
  caf::actor_system_config config;
  configure(config);
  if (!options.settings.cluster.listen.empty()) use_network(config);
  std::optional<forced_exit> system_ends;
  caf::actor_system system(config);
  fatal_problem died;
  auto setup = std::make_shared<node_setup>(
      node_setup{options, db, std::move(compilers), make_baseline_process, died.handler()});
  const auto node = system.spawn(run_coordinator, setup);
  setup.reset();
  auto code = serve_clients(f, system, node, options, db);
  const int status = code && !died ? *code : exit_failed;
  all_ends.emplace(all_limit, status, "its actors and the store");
  caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
  system.await_all_actors_done();
  system_ends.emplace(system_limit, status, "CAF");
  if (died) return exit_failed;
  return code;
}

// As one that works for the coordinator of another process.
expected<int> work_for_coordinator(const flags& f, const node_options& options,
                                   std::map<std::string, std::shared_ptr<kernel_compiler>> compilers) {
  std::optional<forced_exit> all_ends;
  CUDAL1_TRY(const network_address where, read_address(f.join));
  CUDAL1_TRY(identity own, read_identity(f.identity.empty() ? cluster_folder(f.data) + "/identity.pem" : f.identity));
  if (own.role != peer_role::agent)
    return fail(errc::invalid_argument, "the certificate is that of a {}; `cudal1 cluster add NAME` makes an agent's",
                enum_name(own.role));
  caf::actor_system_config config;
  configure(config);
  use_network(config);
  std::optional<forced_exit> system_ends;
  caf::actor_system system(config);
  fatal_problem died;
  auto setup = std::make_shared<agent_setup>();
  setup->options = options;
  setup->compilers = std::move(compilers);
  setup->make_baselines = make_baseline_process;
  setup->name = own.name;
  setup->version = options.version;
  setup->fatal = died.handler();
  CUDAL1_TRY(auto transport, transport_of_agent(system, std::move(own)));
  setup->address = {where, transport};
  const auto agent = system.spawn<caf::detached>(run_agent, setup);
  setup.reset();
  is_starting = false;
  spdlog::info("node {} joins the coordinator at {}", ::getpid(), f.join);
  pollfd end{end_fd, POLLIN, 0};
  while (::poll(&end, 1, -1) <= 0) {
  }
  if (!died) {
    spdlog::info("ending: finishing the evaluations in flight; a second signal ends at once");
    caf::scoped_actor self(system);
    if (auto retired = ask_blocking<message::done>(self, agent, 5min, message::retire{}); !retired)
      spdlog::error("evaluations in flight did not finish; others repeat them: {}", retired.error().message);
  }
  const int status = died ? exit_failed : exit_ok;
  all_ends.emplace(all_limit, status, "its actors");
  caf::anon_send_exit(agent, caf::exit_reason::user_shutdown);
  transport.reset();
  system.await_all_actors_done();
  system_ends.emplace(system_limit, status, "CAF");
  return status;
}

expected<int> run(const flags& f) {
  CUDAL1_CHECK(check_data_name(f.data));
  CUDAL1_TRY(const data_lock lock, data_lock::take(f.data));
  start_log(f, {});
  replay_devices replays;
  CUDAL1_TRY(node_options options, options_of(f, replays));
  start_log(f, options.settings.operation);
  CUDAL1_CHECK(catch_signals());
  options.cores = reserve_timing_cores(options);
  const auto wanted = static_cast<int>(options.settings.compiler.workers);
  options.compile_workers = wanted > 0 ? wanted : static_cast<int>(options.cores.others.size());
  CUDAL1_TRY(auto compilers, make_compilers(options));
  return f.join.empty() ? coordinate(f, options, std::move(compilers))
                        : work_for_coordinator(f, options, std::move(compilers));
}

}  // namespace

}  // namespace cudal1

int main(int argc, char** argv) {
  cudal1::flags f;
  f.data = cudal1::default_data_folder();
  CLI::App app(cudal1::description, "cudal1-node");
  app.footer(cudal1::footer);
  app.set_version_flag("--version", "cudal1-node " CUDAL1_VERSION);
  cudal1::define(app, f);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? cudal1::exit_ok : cudal1::exit_usage;
  }
  try {
    auto code = cudal1::run(f);
    const int status = code ? *code : cudal1::report(code.error());
    spdlog::info("node {} ends with exit code {}", ::getpid(), status);
    spdlog::shutdown();
    return status;
  } catch (const std::exception& e) {
    std::cerr << "cudal1-node: " << e.what() << '\n';
    return cudal1::exit_failed;
  }
}
