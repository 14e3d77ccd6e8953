// cudal1 cluster, nodes, devices, drain: machines that search together.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <sys/stat.h>

#include "actors/clients/client.hpp"
#include "actors/transport/certificate_authority.hpp"
#include "actors/transport/certificates.hpp"
#include "config/base/describe.hpp"
#include "config/base/wall_clock.hpp"
#include "sandbox/device/device_names.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

constexpr const char* exit_codes =
    "  0    done\n"
    "  2    an invalid or unknown name\n"
    "  3    no node runs, or its files cannot be read or written";

constexpr const char* certificates_are_local = "`cudal1 cluster` works on the certificates of the coordinator";

expected<certificate_authority> authority_of(const context& c) {
  CUDAL1_CHECK(refuse_remote(c, certificates_are_local));
  auto opened = certificate_authority::open(cluster_folder(c.data));
  if (opened || opened.error().code != errc::not_found) return opened;
  return fail(errc::not_found, "{} has no cluster yet: `cudal1 cluster init` makes its certificates", c.data);
}

// ---- certificates -------------------------------------------------------------------------------------------------

expected<int> init(context& c) {
  CUDAL1_CHECK(refuse_remote(c, certificates_are_local));
  CUDAL1_TRY(const auto made, certificate_authority::create(cluster_folder(c.data), "coordinator"));
  c.out.print(
      fmt::format("The certificates of a cluster are in {0}; whoever has authority.key there can admit machines.\n\n"
                  "1. Start the coordinator here:    cudal1-node --data {1} --listen 0.0.0.0:4977\n"
                  "2. For each other machine:        cudal1 --data {1} cluster add NAME\n"
                  "   and copy NAME.pem to it, over a channel that nobody else reads.\n"
                  "3. There:                         cudal1-node --join THIS_MACHINE:4977 --identity NAME.pem\n"
                  "4. For each user elsewhere:       cudal1 --data {1} cluster add NAME --client\n",
                  cluster_folder(c.data), c.data));
  return exit_code::success;
}

struct add_options {
  std::string name, file;
  bool is_client = false;  // else a machine that works
};

// The file is created readable for this user only: it has the key.
expected<void> write_identity(const std::string& path, const std::string& text) {
  if (std::error_code ignored; std::filesystem::exists(path, ignored))
    return fail(errc::invalid_argument, "{} exists; name another file with --out", path);
  const auto before = ::umask(0077);
  std::ofstream out(path);
  out << text;
  out.close();
  ::umask(before);
  if (!out) return fail(errc::io_error, "{} cannot be written", path);
  return {};
}

expected<int> add(const add_options& o, context& c) {
  CUDAL1_TRY(const auto authority, authority_of(c));
  const std::string path = o.file.empty() ? o.name + ".pem" : o.file;
  CUDAL1_TRY(const std::string text, authority.issue(o.name, o.is_client ? peer_role::client : peer_role::agent));
  CUDAL1_CHECK(write_identity(path, text));
  if (o.is_client) {
    c.out.print(fmt::format(
        "{0} has the certificate and the key of {1}, which nobody else has; whoever has it may do\n"
        "everything that the coordinator's own user may. On {1}'s machine, as {2}\n"
        "or by its name:\n\n"
        "  cudal1 --cluster COORDINATOR:4977 --identity {3} status\n",
        path, o.name, "~/.local/share/cudal1/cluster/client.pem", std::filesystem::path(path).filename().string()));
    return exit_code::success;
  }
  c.out.print(
      fmt::format("{} has the certificate and the key of {}, which nobody else has. On that machine:\n\n"
                  "  cudal1-node --join COORDINATOR:4977 --identity {}\n",
                  path, o.name, std::filesystem::path(path).filename().string()));
  return exit_code::success;
}

expected<int> revoke(const std::string& name, context& c) {
  CUDAL1_TRY(const auto authority, authority_of(c));
  CUDAL1_CHECK(authority.revoke(name));
  c.out.print(fmt::format("{} is revoked: a running coordinator disconnects it within seconds.\n", name));
  return exit_code::success;
}

expected<int> list(context& c) {
  CUDAL1_TRY(const auto authority, authority_of(c));
  CUDAL1_TRY(const auto all, authority.list());
  table t({{"name"}, {"role"}, {"state"}, {"expires in", true}});
  for (const auto& one : all) {
    const int64_t left_s = one.expires_unix_s - unix_ms() / 1000;
    t.add({one.name, enum_name(one.role),
           one.revoked  ? "revoked"
           : left_s < 0 ? "expired"
                        : "valid",
           fmt::format("{} days", left_s / 86400)});
  }
  c.out.print(t.text(c.out));
  return exit_code::success;
}

// ---- the running cluster ------------------------------------------------------------------------------------------

struct list_options {
  bool json = false;
};

expected<node_status> status_of_node(const context& c) {
  auto node = connect_to_node(c);
  if (!node && node.error().code == errc::not_found)
    return fail(errc::infrastructure, "no node runs on {}; `cudal1-node --data {}` starts one", c.data, c.data);
  if (!node) return tl::unexpected<error>(std::move(node).error());
  return node->status;
}

std::string name_of(const machine_status& m) {
  return m.name.empty() ? "(coordinator)" : m.name;
}

expected<int> nodes(const list_options& o, context& c) {
  CUDAL1_TRY(const node_status s, status_of_node(c));
  if (o.json) {
    print_json(c, to_json(s.machines));
    return exit_code::success;
  }
  table t({{"node"}, {"state"}, {"for", true}, {"devices", true}, {"version"}});
  for (const auto& m : s.machines)
    t.add({name_of(m), m.state + (m.draining && m.state == "present" ? ", draining" : ""), format_time(m.since_s * 1e6),
           std::to_string(m.devices), m.version});
  c.out.print(t.text(c.out));
  c.out.print(s.listens.empty() ? "No other machine can join: the node was started without --listen.\n"
                                : fmt::format("Machines join at {}.\n", s.listens));
  return exit_code::success;
}

expected<int> devices(const list_options& o, context& c) {
  CUDAL1_TRY(const node_status s, status_of_node(c));
  if (o.json) {
    print_json(c, json::make_object({{"devices", to_json(s.devices)},
                                     {"troubled", to_json(s.troubled)},
                                     {"reserved", to_json(s.reserved)}}));
    return exit_code::success;
  }
  table t({{"device"}, {"state"}, {"model", false, 12}, {"", false, 20}});
  for (const auto& d : s.devices)
    t.add({d.where.device, "ready", d.where.model, ""});
  for (const auto& d : s.troubled)
    t.add({d.device, d.given_up ? "given up" : "not ready", "", d.problem});
  for (const auto& d : s.reserved)
    t.add({d.device, "reserved", d.model, "for the policy's models: it does not measure"});
  c.out.print(t.text(c.out));
  return exit_code::success;
}

struct drain_options {
  std::string name;
  bool undo = false;
};

expected<int> drain(const drain_options& o, context& c) {
  CUDAL1_TRY(const node_status s, status_of_node(c));
  client_request r;
  r.verb = client_verb::drain_machine;
  r.machine = o.name == "(coordinator)" ? "" : o.name;
  r.draining = !o.undo;
  CUDAL1_TRY(auto node, connect_client(c));
  CUDAL1_CHECK(node.ask(r, std::chrono::seconds(10)));
  c.out.print(o.name + (o.undo ? " gets work again.\n" : " finishes what it has and gets no more work.\n"));
  return exit_code::success;
}

// ---- the command line ---------------------------------------------------------------------------------------------

void add_cluster(CLI::App& app, context& c) {
  auto* all = app.add_subcommand(
      "cluster", "make, list and revoke the certificates of machines that search together, and of users elsewhere");
  all->require_subcommand(1);
  all->footer(
      footer("  cudal1 cluster init\n"
             "  cudal1 cluster add gpu7              gpu7.pem, for `cudal1-node --join` on that machine\n"
             "  cudal1 cluster add ann --client      ann.pem, for `cudal1 --cluster` on Ann's machine\n"
             "  cudal1 cluster revoke gpu7",
             exit_codes));
  all->add_subcommand("init", "make the authority and the coordinator's certificate")->callback([&c] {
    finish(c, init(c));
  });
  auto o = std::make_shared<add_options>();
  auto* sub = all->add_subcommand("add", "make the certificate of one more machine, or of a user elsewhere");
  sub->add_option("name", o->name, "of the machine or user: lower-case letters, digits and inner hyphens, as in gpu7")
      ->required();
  sub->add_flag("--client", o->is_client, "for the commands of a user on another machine (`cudal1 --cluster`)");
  sub->add_option("--out", o->file, "the file to write (default: NAME.pem)")->type_name("FILE");
  sub->callback([o, &c] { finish(c, add(*o, c)); });
  auto name = std::make_shared<std::string>();
  sub = all->add_subcommand("revoke", "refuse the certificates of a machine or user from now on");
  sub->add_option("name", *name, "of the machine or user")->required();
  sub->callback([name, &c] { finish(c, revoke(*name, c)); });
  all->add_subcommand("list", "the certificates made so far")->callback([&c] { finish(c, list(c)); });
}

template <class Command>
void add_list(CLI::App& app, context& c, const char* word, const char* what, Command run) {
  auto o = std::make_shared<list_options>();
  auto* sub = app.add_subcommand(word, what);
  sub->add_flag("--json", o->json, "one JSON document");
  add_csv_flag(*sub, c, o->json, {"devices"});
  sub->footer(footer(fmt::format("  cudal1 {}", word), exit_codes));
  sub->callback([o, &c, run] { finish(c, run(*o, c)); });
}

void add_nodes(CLI::App& app, context& c) {
  add_list(app, c, "nodes", "the machines of the running cluster", nodes);
}

void add_devices(CLI::App& app, context& c) {
  add_list(app, c, "devices", "the devices of the running cluster", devices);
}

void add_drain(CLI::App& app, context& c) {
  auto o = std::make_shared<drain_options>();
  auto* sub = app.add_subcommand("drain", "give a machine no more work");
  sub->add_option("node", o->name, "as `cudal1 nodes` names it")->required();
  sub->add_flag("--undo", o->undo, "give it work again");
  sub->footer(footer("  cudal1 drain gpu7\n  cudal1 drain gpu7 --undo", exit_codes));
  sub->callback([o, &c] { finish(c, drain(*o, c)); });
}

const command_registration registered_cluster(31, add_cluster);
const command_registration registered_nodes(32, add_nodes);
const command_registration registered_devices(33, add_devices);
const command_registration registered_drain(34, add_drain);

}  // namespace

}  // namespace cudal1::cli
