#include "tools/cli/node_process.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/clients/remote_node.hpp"
#include "config/base/deadline.hpp"
#include "config/base/describe.hpp"
#include "config/base/process_environment.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/device/device_type.hpp"
#include "store/replay/replay_devices.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/node_child.hpp"
#include "tools/cli/node_settings.hpp"
#include "tools/cli/precision_option.hpp"

namespace cudal1::cli {

namespace {

using clock = std::chrono::steady_clock;

// Exit codes of cudal1-node, as in its --help.
constexpr int node_ended = 0, node_usage = 2, node_weak_confinement = 3, node_data_in_use = 4;

std::vector<std::string> words_of(const node_flags& flags) {
  std::vector<std::string> words = {"--exit-when-idle"};
  if (!flags.config.empty()) words.insert(words.end(), {"--config", flags.config});
  if (!flags.device.empty()) words.insert(words.end(), {"--device", flags.device});
  if (!flags.resume) words.emplace_back("--no-resume");
  for (const auto& setting : flags.settings)
    words.insert(words.end(), {"--set", setting});
  return words;
}

expected<connected_node> greet(node_client client, std::chrono::milliseconds limit, int wake_fd) {
  client_request hello;
  CUDAL1_CHECK(client.send(hello));
  CUDAL1_TRY(client_answer answer, client.receive(limit, wake_fd));
  if (auto problem = error_of(answer)) return tl::unexpected<error>(std::move(*problem));
  if (!answer.status) return fail(errc::infrastructure, "the node's reply to the hello request has no status");
  return connected_node{std::move(client), std::move(*answer.status), false};
}

// While an older node shuts down it still locks the folder, and a new one exits; a later start can succeed.
bool may_retry_start(int status) {
  return WIFEXITED(status) && (WEXITSTATUS(status) == node_ended || WEXITSTATUS(status) == node_data_in_use);
}

tl::unexpected<error> node_start_error(int status, const node_child& child) {
  errc code = errc::infrastructure;
  if (WIFEXITED(status) && WEXITSTATUS(status) == node_usage) code = errc::invalid_argument;
  if (WIFEXITED(status) && WEXITSTATUS(status) == node_weak_confinement) code = errc::refused;
  const auto how = WIFSIGNALED(status) ? fmt::format("was killed by signal {}", WTERMSIG(status))
                                       : fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fail(code,
              "the node did not start: cudal1-node {}; its log {} ends with:{}\n`cudal1 doctor` shows what this "
              "machine lacks",
              how, child.log(), child.log_tail());
}

// False if interrupted.
bool pause(int wake_fd, int milliseconds) {
  pollfd wake{wake_fd, POLLIN, 0};
  return ::poll(&wake, 1, milliseconds) <= 0 || wake.revents == 0;
}

expected<void> make_data_folder(const std::string& data) {
  std::error_code problem;
  std::filesystem::create_directories(data, problem);
  if (problem)
    return fail(errc::io_error, "cannot create the data folder {}: {}; choose another with --data", data,
                problem.message());
  if (::access(data.c_str(), W_OK | X_OK) != 0)
    return fail(errc::io_error, "cannot write to the data folder {}: {}; choose another with --data", data,
                std::strerror(errno));
  return {};
}

// A node that is no coordinator can have only what its machine has.
error no_such_device(const node_status& status, const std::string& name) {
  const auto has = fmt::format("{}", fmt::join(names_of(status.devices), ", "));
  const bool is_replayed = names_replay(name);
  if (!is_replayed && status.listens.empty())
    if (const auto here = find_devices(name); !here && here.error().code == errc::invalid_argument)
      return {here.error().code,
              fmt::format("{}; the node that runs on {} has: {}", here.error().message, status.data, has)};
  return {
      errc::invalid_argument,
      fmt::format("the node that runs on {} {}; it has: {}. `cudal1 stop --node` ends it; the next one can use others",
                  status.data, is_replayed ? "does not replay" : fmt::format("has no device \"{}\"", name), has)};
}

}  // namespace

void add_node_flags(CLI::App& command, node_flags& flags) {
  command
      .add_option("--config", flags.config,
                  "configuration of the node, if one is started (default: $CUDAL1_CONFIG, DATA/cudal1.toml)")
      ->envname("CUDAL1_CONFIG")
      ->type_name("FILE");
  command
      .add_option("--set", flags.settings,
                  "one setting of the node that is started, as in --set timing.max_forks=20; an error if a node runs "
                  "that has another value; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option_function<std::string>(
          "--tolerance",
          [&flags](const std::string& name) { flags.settings.push_back("verification.tolerance=" + name); },
          "what outputs are held to: own (a multiple of eager's error), or kernelbench, as by its evaluator (1e-4 of "
          "eager's, 1e-2 for half types); short for --set verification.tolerance=...")
      ->type_name("NAME")
      ->check(CLI::IsMember({"own", "kernelbench"}));
}

void add_precision_flag(CLI::App& command, node_flags& flags) {
  command
      .add_option_function<std::string>(
          "--precision",
          [&flags](const std::string& name) {
            flags.settings.push_back("verification.tolerance=" + enum_name(accuracy_named(name)));
          },
          "what error against float64 is accepted: eager (a multiple of PyTorch's as shipped, TF32 included), strict "
          "(of float32 eager without TF32), or half (float32 products of operands in float16 or TF32: results are "
          "marked and kept apart); short for --set verification.tolerance=own, strict or half")
      ->type_name("NAME")
      ->check(CLI::IsMember({"strict", "eager", "half"}))
      ->excludes(command.get_option("--tolerance"));
}

expected<void> check_setting_names(const node_flags& flags) {
  configuration unused;
  for (const auto& setting : flags.settings)
    CUDAL1_CHECK(apply_setting(unused, setting, "--set"));
  return {};
}

expected<configuration> configuration_of(const node_flags& flags, const std::string& data) {
  const auto environment = process_environment();
  const auto file = flags.config.empty() ? std::nullopt : std::optional<std::string>(flags.config);
  return load_configuration(file, data + "/cudal1.toml", environment, flags.settings);
}

expected<std::string> find_sibling(const std::string& name) {
  std::error_code problem;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (problem) return fail(errc::infrastructure, "cannot find the path of this program: {}", problem.message());
  const auto beside = (self.parent_path() / name).string();
  if (::access(beside.c_str(), X_OK) != 0)
    return fail(errc::infrastructure,
                "{} is not in the folder of {} ({}); build it, or install all programs into one folder", name,
                self.string(), std::strerror(errno));
  return beside;
}

expected<std::vector<device_report>> choose_devices(const node_status& status, const std::string& wanted) {
  const auto& devices = status.devices;
  std::vector<std::string> asked;
  if (!wanted.empty()) {
    CUDAL1_TRY(asked, read_device_list(wanted));
  }
  for (const auto& r : status.reserved)
    if (std::ranges::count(asked, r.device) > 0)
      return fail(errc::invalid_argument,
                  "device {} does not measure: it is reserved for the policy's models (device.policy_devices of its "
                  "node); `cudal1 devices` lists the others",
                  r.device);
  if (devices.empty())
    return fail(errc::infrastructure, "the node on {} has no working device; `cudal1 doctor` says why", status.data);
  if (wanted.empty()) return std::vector{devices.front()};
  for (const auto& name : asked) {
    const auto is_meant = [&](const device_report& d) { return names_device(name, d.where.device); };
    if (std::any_of(devices.begin(), devices.end(), is_meant)) continue;
    for (const auto& t : status.troubled)
      if (names_device(name, t.device))
        return fail(errc::infrastructure, "device {} does not work: {}", t.device, t.problem);
    return tl::unexpected<error>(no_such_device(status, name));
  }
  std::vector<device_report> chosen;
  for (const auto& d : devices)
    if (std::any_of(asked.begin(), asked.end(), [&](const auto& name) { return names_device(name, d.where.device); }))
      chosen.push_back(d);
  return chosen;
}

expected<device_report> choose_device(const node_status& status, const std::string& wanted) {
  CUDAL1_TRY(const auto chosen, choose_devices(status, wanted));
  return chosen.front();
}

std::vector<std::string> names_of(const std::vector<device_report>& devices) {
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const auto& d : devices)
    names.push_back(d.where.device);
  return names;
}

expected<node_client> connect_client(const context& c) {
  return c.coordinator ? c.coordinator->connect() : node_client::connect(c.data);
}

expected<connected_node> connect_to_node(const context& c) {
  CUDAL1_TRY(node_client client, connect_client(c));
  return greet(std::move(client), std::chrono::seconds(30), -1);
}

void wait_for_device(const context& c, const std::string& device) {
  if (!traits_of(device).is_accelerator) return;
  const auto end = clock::now() + std::chrono::seconds(20);
  while (clock::now() < end) {
    const auto node = connect_to_node(c);
    if (!node || std::ranges::none_of(node->status.troubled, [&](const auto& t) { return t.device == device; })) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  }
}

namespace {

// Of a node that was running already: it keeps its own settings.
expected<void> check_settings(const connected_node& node, const node_flags& flags, const std::string& data) {
  CUDAL1_TRY(auto missing, settings_not_in_force(data, node.status.pid, flags.settings));
  std::erase_if(missing, [&](const std::string& setting) {
    return std::ranges::count(flags.sent_with_request, setting.substr(0, setting.find('='))) > 0;
  });
  if (missing.empty()) return {};
  return fail(errc::invalid_argument,
              "--set {} has no effect: a node runs on {} with its own settings. `cudal1 stop --node` ends it: then "
              "repeat the command. {}/cudal1.toml is for settings that all nodes of the folder should have",
              fmt::join(missing, ", "), data, data);
}

// Finds the node of this machine, or starts one.
expected<connected_node> find_or_start(const std::string& data, const node_flags& flags,
                                       const std::vector<std::string>& words,
                                       const std::function<void(const std::string&)>& progress, int wake_fd) {
  const auto end =
      clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(flags.start_limit_s));
  std::optional<node_child> child;
  int starts_left = 20;
  bool again = false;
  while (clock::now() < end) {
    auto client = node_client::connect(data);
    if (client) {
      const std::chrono::milliseconds left(milliseconds_until(end));
      auto node = greet(std::move(*client), left, wake_fd);
      if (node) {
        node->started = child.has_value();
        return node;
      }
      // errc::infrastructure: it closed the connection because it is shutting down. Other errors go to the user.
      if (node.error().code != errc::infrastructure) return node;
    } else if (client.error().code != errc::not_found) {
      return tl::unexpected<error>(std::move(client).error());
    }
    if (child) {
      if (const auto status = child->ended()) {
        if (!may_retry_start(*status) || starts_left == 0) return node_start_error(*status, *child);
        child.reset();
        again = true;
      }
    } else {
      --starts_left;
      progress(again ? "waiting for the previous node to exit" : "starting a node on " + data);
      CUDAL1_TRY(child, node_child::spawn(data, words));
    }
    if (!pause(wake_fd, again ? 500 : 20)) return fail(errc::cancelled, "interrupted while a node was starting");
  }
  return fail(errc::infrastructure, "no node was ready on {} within {:.0f} s; its log is {}/node.log{}", data,
              flags.start_limit_s, data, child ? child->log_tail() : "");
}

}  // namespace

expected<connected_node> connect_or_start(const context& c, const node_flags& flags,
                                          const std::function<void(const std::string&)>& progress, int wake_fd,
                                          const std::vector<std::string>& more) {
  if (c.coordinator) {
    if (!flags.settings.empty())
      return fail(errc::invalid_argument,
                  "--set is for a node that this command would start; the settings of {} are in its own cudal1.toml",
                  c.coordinator->address());
    return connect_to_node(c);
  }
  CUDAL1_CHECK(check_setting_names(flags));
  CUDAL1_CHECK(make_data_folder(c.data));
  auto words = words_of(flags);
  words.insert(words.end(), more.begin(), more.end());
  CUDAL1_TRY(auto node, find_or_start(c.data, flags, words, progress, wake_fd));
  if (!node.started) CUDAL1_CHECK(check_settings(node, flags, c.data));
  return node;
}

}  // namespace cudal1::cli
