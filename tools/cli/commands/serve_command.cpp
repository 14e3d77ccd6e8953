// cudal1 serve: evaluations over HTTP; the tokens of its clients.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/table.hpp"
#include "tools/serve/access.hpp"
#include "tools/serve/serving_node.hpp"

namespace cudal1::cli {

namespace {

using namespace std::chrono_literals;

constexpr auto alive_interval = 10min;
constexpr int most_restarts = 10;

struct serve_options {
  serve::serving_options serving{.address = "127.0.0.1:4980"};
  std::string new_token, remove_token;
  std::vector<std::string> may = {"evaluate"};
  bool tokens = false, json = false;
  node_flags node;
};

expected<int> make_token(const serve_options& o, const context& c) {
  CUDAL1_TRY(const std::string token, serve::token_file(c.data).add(o.new_token, o.may));
  if (o.json) {
    print_json(c, json::make_object({{"name", o.new_token}, {"may", to_json(o.may)}, {"token", token}}));
  } else {
    c.out.print(token + "\n");
    note(c,
         fmt::format("{} may {}. The token is shown this once; it is kept as a hash. CUDAL1_TOKEN is where the Python "
                     "client reads it.",
                     o.new_token, o.may.empty() ? "read" : fmt::format("{}", fmt::join(o.may, ", "))));
  }
  return exit_code::success;
}

expected<int> list_tokens(const serve_options& o, const context& c) {
  CUDAL1_TRY(auto all, serve::token_file(c.data).read());
  json::array items;
  table list({{.title = "client"}, {.title = "may"}, {.title = "since"}});
  for (const auto& t : all) {
    list.add({t.name, fmt::format("{}", fmt::join(t.may, ", ")), format_date(t.created_unix_ms)});
    items.push_back(
        json::make_object({{"name", t.name}, {"may", to_json(t.may)}, {"created_unix_ms", t.created_unix_ms}}));
  }
  if (o.json)
    print_json(c, json::make_object({{"tokens", json(std::move(items))}}));
  else
    c.out.print(all.empty() ? "No client has a token.\n" : list.text(c.out));
  return exit_code::success;
}

void print_start(const serve::serving_node& n, const context& c) {
  const bool has_tls = n.url.starts_with("https");
  const std::string curl = has_tls ? "curl -sk -H \"Authorization: Bearer $CUDAL1_TOKEN\"" : "curl -s";
  c.out.print(fmt::format(
      "Evaluations are served at {0} (data folder {1}). Ctrl-C ends this; what was accepted is finished.\n"
      "In a browser, {0}/ is a dashboard; to start, stop or drain there takes a token with --may search,stop.\n"
      "  {2} {0}/v1/tasks\n"
      "  {2} {0}/v1/evaluate -H 'Content-Type: application/json' \\\n"
      "    -d '{{\"task\": \"softmax\", \"variants\": [{{\"schedule\": \"row_kernel(steps=0)\"}}], \"wait_s\": 60}}'\n",
      n.url, c.data, curl));
}

// Until Ctrl-C. A node that is lost is started again: it goes on with the jobs that it had accepted.
expected<int> stay(const serve_options& o, const context& c) {
  CUDAL1_TRY(const interrupt_watch interrupt, interrupt_watch::start());
  for (int restarts = 0;; ++restarts) {
    CUDAL1_TRY(auto n, serve::find_or_start_serving(c, o.node, o.serving, false, interrupt.fd()));
    if (restarts == 0) print_start(n, c);
    for (;;) {
      const auto answer = n.node.client.receive(alive_interval, interrupt.fd());
      if (!answer && answer.error().code == errc::cancelled) return exit_code::success;
      if (!answer && answer.error().code == errc::timeout && serve::keep_alive(n)) continue;
      if (!answer) break;
    }
    if (restarts == most_restarts)
      return fail(errc::infrastructure, "the node was lost {} times; {}/node.log says more", restarts + 1, c.data);
    note(c, "the node was lost, and is started again");
  }
}

expected<int> serve_evaluations(const serve_options& o, context& c) {
  CUDAL1_CHECK(refuse_remote(c, "`cudal1 serve` starts a part of the node"));
  if (!o.new_token.empty()) return make_token(o, c);
  if (!o.remove_token.empty()) {
    CUDAL1_CHECK(serve::token_file(c.data).remove(o.remove_token));
    return exit_code::success;
  }
  return o.tokens ? list_tokens(o, c) : stay(o, c);
}

void add_serve(CLI::App& app, context& c) {
  auto o = std::make_shared<serve_options>();
  auto* sub = app.add_subcommand(
      "serve", "serve evaluations over HTTP, for agents, trainers and people, and a dashboard for browsers");
  serve::add_serving_flags(*sub, o->serving, false);
  sub->get_option("--address")->capture_default_str();
  sub->add_option("--device", o->node.device, "devices of the node (default: every GPU, else cpu)")->type_name("LIST");
  auto* made =
      sub->add_option("--new-token", o->new_token, "make a token for this client, and print it")->type_name("NAME");
  sub->add_option("--may", o->may,
                  fmt::format("with --new-token, what the client may do beside reading: {}",
                              fmt::join(serve::permissions, ", ")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST")
      ->needs(made)
      ->capture_default_str();
  sub->add_flag("--tokens", o->tokens, "list the clients that have tokens");
  sub->add_option("--remove-token", o->remove_token, "revoke the token of this client")->type_name("NAME");
  sub->add_flag("--json", o->json, "one JSON document, with --tokens and --new-token");
  add_node_flags(*sub, o->node);
  add_precision_flag(*sub, o->node);
  sub->footer(
      footer("  cudal1 serve                                        at http://127.0.0.1:4980, for this machine\n"
             "  cudal1 serve --new-token ann --may evaluate,search\n"
             "  cudal1 serve --address 0.0.0.0:4980                 for other machines, by tokens and TLS\n"
             "  cudal1 serve --new-token me --may search,stop        to log in to the dashboard\n"
             "The OpenAPI document is at /v1/openapi.json; tools/serve/README.md explains the rest.",
             "  0    Ctrl-C, or the tokens were changed\n"
             "  2    an address, name or permission is invalid; a node runs that does not serve there\n"
             "  3    the node could not be started, or was lost"));
  sub->callback([o, &c] { finish(c, serve_evaluations(*o, c)); });
}

const command_registration registered_serve(22, add_serve);

}  // namespace

}  // namespace cudal1::cli
