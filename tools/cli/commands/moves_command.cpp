// cudal1 moves: lists the moves.
#include <algorithm>

#include <fmt/format.h>

#include "policy/moves/move_registry.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

struct moves_options {
  bool json = false;
};

expected<int> moves(const moves_options& o, context& c) {
  const auto catalogue = move_catalogue();
  if (o.json) {
    json::array items;
    items.reserve(catalogue.size());
    for (const auto& [name, about] : catalogue)
      items.push_back(json::make_object({{"name", name}, {"about", about}}));
    print_json(c, json::make_object({{"moves", json(std::move(items))}}));
    return exit_code::success;
  }
  std::size_t longest = 0;
  for (const auto& entry : catalogue)
    longest = std::max(longest, display_width(entry.first));
  for (const auto& [name, about] : catalogue) {
    std::string text = wrap(about, c.out.width, longest + 2);
    text.erase(0, longest + 2);
    c.out.print(c.out.bold(pad(name, longest)) + "  " + text + "\n");
  }
  return exit_code::success;
}

void add_moves(CLI::App& app, context& c) {
  auto o = std::make_shared<moves_options>();
  auto* sub = app.add_subcommand("moves", "the kinds of moves that schedules are made of");
  sub->add_flag("--json", o->json, "one JSON document");
  add_csv_flag(*sub, c, o->json, {"moves"});
  sub->footer(footer("  cudal1 moves", "  0    printed"));
  sub->callback([o, &c] { finish(c, moves(*o, c)); });
}

const command_registration registered_moves(120, add_moves);

}  // namespace

}  // namespace cudal1::cli
