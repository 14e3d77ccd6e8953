// cudal1 doctor: checks what this machine has and lacks.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "actors/clients/client.hpp"
#include "config/base/describe.hpp"
#include "config/installation.hpp"
#include "sandbox/device/device_names.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/cli/replay_choice.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

struct doctor_item {
  std::string name;
  bool required = true, ok = false;
  std::string detail;
  std::string advice;  // what to do if it is not ok
};
BOOST_DESCRIBE_STRUCT(doctor_item, (), (name, required, ok, detail, advice))

struct doctor_report {
  bool ok = true;  // all requirements are met
  std::vector<doctor_item> items;
  std::vector<device_report> devices;
};
BOOST_DESCRIBE_STRUCT(doctor_report, (), (ok, items, devices))

constexpr double least_free_bytes = 1024.0 * 1024 * 1024;

// The nearest existing folder at or above `path`.
std::string existing_part(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path p = path;
  while (!p.empty() && !std::filesystem::exists(p, ignored) && p != p.parent_path())
    p = p.parent_path();
  return p.empty() ? "." : p.string();
}

doctor_item check_program(const std::string& name) {
  const auto found = find_sibling(name);
  return {name, true, found.has_value(), found ? *found : found.error().message,
          "build everything into one folder: cmake --build BUILD"};
}

doctor_item check_data(const context& c) {
  const auto place = existing_part(c.data);
  const bool writable = ::access(place.c_str(), W_OK | X_OK) == 0;
  const auto why = place == c.data ? c.data : fmt::format("{} (to be created in {})", c.data, place);
  return {"data folder", true, writable, writable ? why : fmt::format("{}: {}", why, std::strerror(errno)),
          "choose a folder with write access: --data or $CUDAL1_DATA"};
}

doctor_item check_disk(const context& c) {
  struct statvfs disk = {};
  const auto place = existing_part(c.data);
  if (::statvfs(place.c_str(), &disk) != 0)
    return {"disk space", true, false, fmt::format("{}: {}", place, std::strerror(errno)), "choose another --data"};
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  return {"disk space", true, free >= least_free_bytes, format_bytes(free) + " free at " + place,
          fmt::format("free at least {}, or choose another --data", format_bytes(least_free_bytes))};
}

doctor_item check_store(const context& c) {
  const auto schema = fmt::format("schema version {}", store_schema_version);
  if (!store_exists(c)) return {"store", true, true, "none yet; will be created with " + schema, ""};
  const auto reader = open_for_reading(c);
  if (!reader)
    return {"store", true, false, reader.error().message,
            "use the cudal1 that wrote it, or choose another folder with --data"};
  return {"store", true, true,
          fmt::format("{}, {}", c.coordinator ? "of " + place_of(c) : store_folder(c.data), schema), ""};
}

doctor_item check_built_in_tasks() {
  const auto tasks = choose_tasks("", {}, default_profile());
  return {"built-in tasks", true, tasks.has_value(),
          tasks ? format_count(static_cast<int64_t>(tasks->size()), "task") : tasks.error().message,
          "set $CUDAL1_TASKS to the folder config/tasks of the source tree"};
}

// The first line that `NAME --version` prints; "" if there is no such program.
std::string version_of(const std::string& name) {
  const auto command = name + " --version 2>/dev/null";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  std::array<char, 512> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return "";
  std::string text = line.data();
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  return text;
}

doctor_item check_devices(const device_type& type) {
  const auto& t = type.traits();
  const std::string name = t.noun + "s";
  const auto found = type.discover();
  if (!found) return {name, true, false, found.error().message, t.when_broken};
  const char* visible = std::getenv(t.visibility.c_str());
  const auto shown = visible == nullptr ? "" : fmt::format("{}={}", t.visibility, visible);
  if (found->empty())
    return {name, false, false, shown.empty() ? "no driver shows one" : "none: " + shown, t.when_absent};
  std::string text = shown;
  for (const auto& d : *found)
    text += fmt::format("{}{}: {} ({}, {}, {})", text.empty() ? "" : "\n", d.name, d.model, d.architecture,
                        format_bytes(static_cast<double>(d.memory_bytes)), d.details);
  return {name, true, true, text, ""};
}

// It compiles kernels for the device cpu only, without any header. Clang as c++ would be refused (host_compiler).
doctor_item check_compiler() {
  std::string found = "neither g++ nor c++ is on the PATH";
  for (const auto* name : {"g++", "c++"}) {
    const auto version = version_of(name);
    if (version.empty()) continue;
    found = fmt::format("{}: {}", name, version);
    if (version.find("clang") == std::string::npos) return {"host compiler", true, true, found, ""};
    found += ", which is not GCC";
  }
  return {"host compiler", true, false, found, "for the device cpu, " + host_compiler_advice()};
}

// Importing models, measuring PyTorch and checking exported files need it; a search of task files does not.
doctor_item check_python() {
  const auto python = find_python();
  return {"Python with torch", false, python.has_value(), python ? *python : "none",
          python ? "" : python.error().message};
}

void add_confinement(doctor_report& r, const device_report& d) {
  for (const auto& item : d.confinement)
    r.items.push_back({fmt::format("{}: {}", d.where.device, item.name), item.required, item.in_force, item.detail,
                       item.required
                           ? "allow it on this machine, or do without it: --set device.allow_weak_confinement=true, "
                             "and run only programs that you trust"
                           : ""});
}

// The node and its devices.
void add_node(doctor_report& r, const connected_node& node) {
  r.items.push_back(
      {"node", true, true,
       fmt::format("pid {}{}", node.status.pid, node.started ? ", started by this command" : ", was already running"),
       ""});
  for (const auto& t : node.status.troubled)
    r.items.push_back(
        {"device " + t.device, true, false, t.problem, "see DATA/node.log, or choose others with --device"});
  if (r.devices.empty() && node.status.troubled.empty())
    r.items.push_back({"device", true, false, "the node has no working device", "see DATA/node.log for the reason"});
  for (const auto& d : r.devices) {
    r.items.push_back({"device " + d.where.device, true, true,
                       fmt::format("{}; ready in {}", d.where.model, format_time(d.start_ms * 1000)), ""});
    for (const auto& remark : d.remarks)
      r.items.push_back({"cores for " + d.where.device, false, false, remark, ""});
    r.items.push_back({"libraries of " + d.where.device, true, !d.where.details.empty(), d.where.details, ""});
    add_confinement(r, d);
  }
}

// The checks of a node: it loads LibTorch, starts the devices' processes and tests their confinement.
expected<void> ask_node(doctor_report& r, node_flags flags, const context& c, int wake_fd) {
  const auto progress = [&](const std::string& what) { note(c, what + ", to check its devices"); };
  flags.resume = false;
  auto node = connect_or_start(c, flags, progress, wake_fd);
  if (!node && node.error().code == errc::refused && !c.coordinator) {
    // A node that does without a required confinement reports which one is missing. It runs nothing and ends at once.
    flags.settings.emplace_back("device.allow_weak_confinement=true");
    node = connect_or_start(c, flags, progress, wake_fd);
    if (node && node->started) {
      client_request leave;
      leave.verb = client_verb::shutdown;
      if (auto left = node->client.ask(leave, std::chrono::minutes(1)); !left) note(c, left.error().message);
    }
  }
  // --set of a node that runs with another value.
  if (!node && node.error().code == errc::invalid_argument && connect_to_node(c))
    return tl::unexpected<error>(std::move(node).error());
  if (!node) {
    r.items.push_back({"node", true, false, node.error().message,
                       c.coordinator ? "ask who runs the coordinator" : "see the log above"});
    return {};
  }
  r.devices = node->status.devices;
  // A node that was running may lack the devices that are asked for.
  if (!node->started && !flags.device.empty()) {
    CUDAL1_TRY(const auto names, full_device_names(flags.device, flags, c));
    CUDAL1_TRY(r.devices, choose_devices(node->status, names));
  }
  add_node(r, *node);
  return {};
}

std::string print_item(const doctor_item& item, std::size_t longest, const terminal& t) {
  const std::string mark = item.ok ? t.good("ok    ") : item.required ? t.bad("FAILED") : t.paint("33", "absent");
  const std::size_t indent = 8 + longest + 2;
  std::string detail;
  for (const auto& line : split_lines(item.detail))
    detail += (detail.empty() ? "" : "\n") + wrap(line, t.width, indent);
  if (detail.size() >= indent) detail.erase(0, indent);
  std::string text = mark + "  " + pad(item.name, longest + 2) + detail + "\n";
  if (!item.ok && !item.advice.empty()) text += wrap("-> " + item.advice, t.width, indent) + "\n";
  return text;
}

struct doctor_options {
  node_flags node;
  bool json = false;
};

// What is checked without a node; the result is the place of the compiler among the items.
std::size_t check_this_machine(doctor_report& r, const context& c) {
  r.items = {check_program("cudal1-node"), check_program("cudal1-worker"), check_data(c), check_disk(c), check_store(c),
             check_built_in_tasks()};
  for (const auto* type : device_types())
    if (type->traits().numbered && type->traits().replays.empty()) r.items.push_back(check_devices(*type));
  r.items.push_back(check_python());
  r.items.push_back(check_compiler());
  const std::size_t compiler = r.items.size() - 1;
  for (const auto* type : device_types()) {
    if (!type->traits().numbered || !type->traits().replays.empty()) continue;
    if (const auto found = type->discover(); found && !found->empty())
      r.items.push_back(check_program(type->traits().worker));
  }
  return compiler;
}

expected<int> doctor(const doctor_options& o, context& c) {
  CUDAL1_TRY(interrupt_watch interrupt, interrupt_watch::start());
  doctor_report r;
  CUDAL1_CHECK(check_setting_names(o.node));
  if (!o.node.device.empty()) CUDAL1_CHECK(read_device_list(o.node.device));
  if (c.coordinator) {
    r.items = {check_built_in_tasks(), check_store(c)};
    CUDAL1_CHECK(ask_node(r, o.node, c, interrupt.fd()));
  } else {
    const std::size_t compiler = check_this_machine(r, c);
    CUDAL1_CHECK(ask_node(r, o.node, c, interrupt.fd()));
    // A machine that only uses accelerators needs no host compiler.
    const auto needs_it = [](const device_report& d) { return !traits_of(d.where.device).is_accelerator; };
    r.items[compiler].required = r.devices.empty() || std::any_of(r.devices.begin(), r.devices.end(), needs_it);
  }
  r.ok = std::all_of(r.items.begin(), r.items.end(), [](const auto& item) { return item.ok || !item.required; });
  if (o.json) {
    print_json(c, to_json(r));
  } else {
    std::size_t longest = 0;
    for (const auto& item : r.items)
      longest = std::max(longest, display_width(item.name));
    for (const auto& item : r.items)
      c.out.print(print_item(item, std::min<std::size_t>(longest, 44), c.out));
    c.out.print(c.out.bold(r.ok ? "All requirements are met." : "A requirement is not met.") + "\n");
  }
  return r.ok ? exit_code::success : exit_code::negative;
}

void add_doctor(CLI::App& app, context& c) {
  auto o = std::make_shared<doctor_options>();
  auto* sub = app.add_subcommand(
      "doctor", "check this machine: GPUs, confinement and its self-test, compiler, libraries, disk, store");
  sub->add_option("--device", o->node.device,
                  "only these devices: cpu, cuda:0, replay, ..., or a list (default: every GPU, else cpu)")
      ->type_name("DEVICE");
  sub->add_flag("--json", o->json, "one JSON document");
  add_node_flags(*sub, o->node);
  sub->footer(
      footer("  cudal1 doctor\n"
             "  cudal1 doctor --data /srv/cudal1 --json",
             "  0    all requirements are met\n"
             "  1    a requirement is not met; the lines marked FAILED say what to do\n"
             "  2    a device or a setting on the command line does not exist, or the node that runs lacks it\n"
             "  3    the checks could not be run"));
  sub->callback([o, &c] { finish(c, doctor(*o, c)); });
}

const command_registration registered_doctor(130, add_doctor);

}  // namespace

}  // namespace cudal1::cli
