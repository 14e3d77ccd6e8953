// cudal1 chats: forms chats from what the store has measured, for the first stage of a model's training.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/split_mix.hpp"
#include "config/device_data.hpp"
#include "policy/graph/schedule.hpp"
#include "policy/prompt/answer_reader.hpp"
#include "policy/prompt/answer_shape.hpp"
#include "policy/prompt/performance_analysis.hpp"
#include "policy/prompt/tile_text.hpp"
#include "policy/search/llm_prompt.hpp"
#include "policy/search/local_models.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/device/device_type.hpp"
#include "store/blobs.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

struct chats_options {
  std::string out, folder, device, model, form = "schedule", detail = language_model_options{}.prompt;
  std::vector<std::string> tasks;
  int64_t exemplars = 2, each = 64, prompt_tokens = language_model_options{}.prompt_tokens;
  double better = 1.05, least = 1.0;
  bool writable = false;
  uint64_t seed = 1;
};

// Where a chat comes from: kept beside its messages.
struct chat_source {
  std::string task, form, variant;     // ids of the task and of the answer's variant
  std::vector<std::string> exemplars;  // ids
  double score = 0;                    // of the answer
  std::string device, origin, made_by = "cudal1 chats";
};
BOOST_DESCRIBE_STRUCT(chat_source, (), (task, form, variant, exemplars, score, device, origin, made_by))

struct counts {
  std::set<std::string> tasks, programs;  // that are answers
  int64_t chats = 0, unreadable = 0, too_long = 0;
  int64_t writable = 0;    // by a local model whose answers are constrained
  int64_t unwritable = 0;  // left out because they are not
};

// What the design says: what was decided, in the words of the moves.
std::string design_of(const variant_record& v) {
  std::vector<std::string> lines;
  for (const auto& line : v.explanation)
    if (!line.starts_with("proof")) lines.push_back(line);
  if (!lines.empty()) return fmt::format("- {}", fmt::join(lines, "\n- "));
  return v.schedule.empty() ? "A program of kernels that are written for these shapes." : "- " + v.schedule;
}

// What a compact prompt asks for: a sentence each, of what it shows. Numbers that are not in it would be invented.
std::string short_analysis(const exemplar& best) {
  const auto& v = best.known.variant;
  return v.schedule.empty()
             ? fmt::format("The fastest variant shown has the score {:.2f}.", best.score())
             : fmt::format("The fastest variant shown has the score {:.2f}: {}.", best.score(), v.schedule);
}

std::string short_design(const variant_record& v) {
  const auto plan = parse_schedule(v.schedule);
  if (!plan) return design_of(v);
  std::vector<std::string> names;
  for (const auto& m : plan->moves)
    if (std::ranges::count(names, m.name) == 0) names.push_back(m.name);
  return names.empty() ? design_of(v) : fmt::format("{}.", fmt::join(names, ", "));
}

// The variant as an answer's code; none where the form cannot say it.
std::optional<std::string> code_of(const variant_record& v, const task& what, answer_form form) {
  if (form == answer_form::schedule) return v.schedule;
  const auto read = read_program(v.program);
  if (form == answer_form::tile) return read ? tile_text_of(*read, what) : std::nullopt;
  return read ? print_program(with_answer_names(*read)) : v.program;
}

std::string answer_of(std::string code, const std::string& analysis, const std::string& design) {
  while (code.ends_with('\n'))
    code.pop_back();
  // As a constrained answer is written (policy/prompt/answer_shape).
  return fmt::format("## Performance analysis\n{}\n## Design\n{}\n## Code\n```\n{}\n```", analysis, design, code);
}

class chat_maker {
 public:
  chat_maker(const chats_options& o, const context& c, std::shared_ptr<const local_checkpoint> files)
      : o_(o),
        files_(std::move(files)),
        requests_(settings_of(o), default_configuration("cpu").verification, blobs(c.data).folder()) {}

  // Chats of one task, in the order of their answers' scores.
  expected<void> add(store& from, const std::shared_ptr<const task>& what, const device_traits& traits,
                     std::string& out) {
    constexpr std::size_t most = 100'000;
    CUDAL1_TRY(const auto ranked, from.best(what->id, most, store::ranking::all));
    const auto form = form_of(o_);
    std::vector<exemplar> known;
    std::set<std::string> seen;
    for (const auto& r : ranked) {
      if (!seen.insert(r.variant.id).second || r.result.environment_id.empty()) continue;
      if (form == answer_form::schedule && r.variant.schedule.empty()) continue;
      CUDAL1_TRY(auto where, from.get_environment(r.result.environment_id));
      if (!is_of_kind(where.device, traits)) continue;
      if (known.empty()) where_ = where;
      if (environment_class(where) != environment_class(where_)) continue;
      auto shown = exemplar_of({r.variant, r.result, 1});
      if (shown) known.push_back(std::move(*shown));
    }
    if (known.empty()) return {};
    CUDAL1_TRY(const auto* target, find_lowering_target(traits.target));
    CUDAL1_TRY(shape_, shape_of_answer(*what, *target, form));
    CUDAL1_TRY(const auto device, find_device_data(where_.model));
    const auto bounds = bounds_of(*what, device);
    for (std::size_t i = 0; i < known.size() && i < static_cast<std::size_t>(o_.each); ++i) {
      if (known[i].score() < o_.least) break;
      CUDAL1_CHECK(add_chat(what, traits, known, i, bounds, out));
    }
    return {};
  }

  const counts& made() const { return counts_; }

 private:
  static answer_form form_of(const chats_options& o) {
    return enum_value<answer_form>(o.form).value_or(answer_form::schedule);
  }
  static language_model_options settings_of(const chats_options& o) {
    language_model_options s;
    s.form = o.form;
    s.prompt = o.detail;
    s.prompt_tokens = o.prompt_tokens;
    return s;
  }

  // Some variants that the answer is better than, each with another score, best first.
  std::vector<exemplar> exemplars_for(const std::vector<exemplar>& known, std::size_t answer) const {
    std::vector<std::size_t> slower;
    for (std::size_t i = answer + 1; i < known.size(); ++i)
      if (known[i].score() > 0 && known[i].score() * o_.better < known[answer].score()) slower.push_back(i);
    uint64_t random = split_mix(o_.seed + split_mix(std::hash<std::string>()(known[answer].id())));
    std::vector<std::size_t> drawn;
    while (std::ssize(drawn) < o_.exemplars && !slower.empty()) {
      random = split_mix(random + split_mix_step);
      const auto at = static_cast<std::ptrdiff_t>(random % slower.size());
      drawn.push_back(slower[static_cast<std::size_t>(at)]);
      slower.erase(slower.begin() + at);
    }
    std::ranges::sort(drawn);
    std::vector<exemplar> out;
    for (const std::size_t i : drawn)
      out.push_back(known[i]);
    return out;
  }

  expected<void> add_chat(const std::shared_ptr<const task>& what, const device_traits& traits,
                          const std::vector<exemplar>& known, std::size_t answer, const task_bounds& bounds,
                          std::string& out) {
    const variant_record& v = known[answer].known.variant;
    prompt p;
    p.what = what;
    CUDAL1_TRY(p.target, find_lowering_target(traits.target));
    p.where = where_;
    p.exemplars = exemplars_for(known, answer);
    if (p.exemplars.empty()) return {};
    const auto form = form_of(o_);
    const auto code = code_of(v, *what, form);
    if (!code) {
      ++counts_.unreadable;
      return {};
    }
    // Programs of a compact prompt say nothing of moves.
    const bool is_short = o_.detail == "compact" && form == answer_form::schedule;
    const std::string analysis =
        is_short ? short_analysis(p.exemplars.front()) : sentences(analyse(*what, p.exemplars, {}, bounds));
    const std::string text = answer_of(*code, analysis, is_short ? short_design(v) : design_of(v));
    // What the reader of answers would refuse is nothing to learn.
    if (read_answer(text, {what.get(), p.target, form, "stop"}).problem) {
      ++counts_.unreadable;
      return {};
    }
    const bool is_writable = shape_->accepts(text);
    if (o_.writable && !is_writable) {
      ++counts_.unwritable;
      return {};
    }
    std::optional<prompt_room> room;
    if (files_) {
      CUDAL1_TRY(const auto tokens, files_->chat().words().encode(text));
      chat_model m;
      m.max_answer_tokens = std::ssize(tokens) + 1;
      room = room_of(files_, m);
      if (files_->longest_answer(m) < std::ssize(tokens)) {
        ++counts_.too_long;
        return {};
      }
    }
    auto request = requests_.write(p, room);
    if (!request && request.error().code == errc::invalid_argument) {
      ++counts_.too_long;
      return {};
    }
    if (!request) return tl::unexpected<error>(request.error());
    request->messages.push_back({"assistant", text});
    chat_source source{what->id, o_.form, v.id, {}, known[answer].score(), where_.model, v.origin};
    for (const auto& e : p.exemplars)
      source.exemplars.push_back(e.id());
    json line = json::make_object();
    line.set("messages", to_json(request->messages));
    line.set("source", to_json(source));
    out += line.text() + "\n";
    ++counts_.chats;
    counts_.writable += is_writable;
    counts_.tasks.insert(what->id);
    counts_.programs.insert(v.id);
    return {};
  }

  const chats_options& o_;
  std::shared_ptr<const local_checkpoint> files_;
  llm_request_writer requests_;
  environment where_;
  std::optional<byte_automaton> shape_;  // of answers to the task
  counts counts_;
};

expected<int> make_chats(const chats_options& o, context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  const auto& traits = o.device.empty() ? preferred_device_type().traits() : traits_of(o.device);
  std::shared_ptr<const local_checkpoint> files;
  if (!o.model.empty()) {
    CUDAL1_TRY(files, local_checkpoint::open(std::filesystem::absolute(o.model).lexically_normal().string()));
  }
  CUDAL1_TRY(const auto stored, reader->tasks());
  chat_maker maker(o, c, std::move(files));
  std::string text;
  if (o.tasks.empty() && o.folder.empty()) {
    for (const auto& t : stored) {
      if (t.profile != traits.profile) continue;
      CUDAL1_TRY(task read, read_task(t.text, t.profile));
      CUDAL1_CHECK(maker.add(*reader, std::make_shared<const task>(std::move(read)), traits, text));
    }
  } else {
    CUDAL1_TRY(auto chosen, choose_tasks(o.folder, o.tasks, traits.profile, c.data));
    for (auto& t : chosen)
      if (std::ranges::any_of(stored, [&](const auto& s) { return s.id == t.id; }))
        CUDAL1_CHECK(maker.add(*reader, std::make_shared<const task>(std::move(t)), traits, text));
  }
  const counts& n = maker.made();
  if (n.chats == 0 && n.unwritable > 0)
    return fail(
        errc::not_found,
        "a local model with llm.constrained could write none of the {} answers: leave --writable out, or search "
        "shorter schedules",
        n.unwritable);
  if (n.chats == 0 && n.unreadable > 0 && o.form == "tile")
    return fail(
        errc::not_found,
        "none of {} variants is of kernels alone that call the tile vocabulary: answers of models in this form, "
        "and products by product_kernel without operators beside them, are",
        n.unreadable);
  if (n.chats == 0)
    return fail(errc::not_found,
                "the store has no task with two correct variants of this form and device of which one is {} times as "
                "fast; search some first, as in `cudal1 run --policy random`",
                o.better);
  CUDAL1_CHECK(write_durably({o.out, 0644}, text));
  c.out.print(fmt::format("{}: {}, with {} as answers, of {}\n", o.out, format_count(n.chats, "chat"),
                          format_count(std::ssize(n.programs), "distinct program"),
                          format_count(std::ssize(n.tasks), "task")));
  if (n.writable < n.chats)
    note(c,
         fmt::format("{} of these answers could not be written by a local model with llm.constrained: their moves or "
                     "steps are not among those that it may choose from",
                     n.chats - n.writable));
  if (n.unwritable > 0)
    note(c, fmt::format("left out: {} that a local model with llm.constrained could not write", n.unwritable));
  if (n.too_long + n.unreadable > 0)
    note(c, fmt::format("left out: {} that do not fit the budget of tokens, {} that an answer cannot say", n.too_long,
                        n.unreadable));
  return exit_code::success;
}

void add_chats(CLI::App& app, context& c) {
  auto o = std::make_shared<chats_options>();
  auto* sub = app.add_subcommand("chats", "form chats to train a language model on from what the store has measured");
  sub->add_option("file", o->out, "JSON lines with messages, as TRL, verl and `cudal1 train --model` read them")
      ->type_name("FILE")
      ->required();
  sub->add_option("--form", o->form, "of the answers")
      ->check(CLI::IsMember({"program", "schedule", "tile"}))
      ->capture_default_str();
  sub->add_option("--device", o->device, "the kind whose measurements count: cpu, cuda (default: as this machine has)")
      ->type_name("KIND");
  sub->add_option("--tasks", o->folder, "folder of task files (default: all tasks of the store)")->type_name("DIR");
  sub->add_option("--task", o->tasks, "a task; may be repeated")->type_name("NAME");
  sub->add_option("--exemplars", o->exemplars, "slower variants in a prompt, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 16));
  sub->add_option("--each", o->each, "chats of a task, at most, those with the best answers")->capture_default_str();
  sub->add_option("--better", o->better, "an answer is so many times as fast as the shown variants")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 100.0));
  sub->add_option("--least", o->least, "least score of an answer")->capture_default_str();
  sub->add_option("--detail", o->detail, "how much a prompt explains: as llm.prompt")
      ->check(CLI::IsMember({"auto", "full", "compact"}))
      ->capture_default_str();
  sub->add_option("--prompt-tokens", o->prompt_tokens, "budget of a prompt")->capture_default_str();
  sub->add_option("--model", o->model, "a local model whose tokenizer counts, and whose context is the budget")
      ->type_name("FOLDER|FILE.gguf");
  sub->add_flag("--writable", o->writable,
                "leaves out answers that a local model with llm.constrained could not write");
  sub->add_option("--seed", o->seed, "of the choice of shown variants")->capture_default_str();
  sub->footer(
      footer("  cudal1 chats chats.jsonl --device cuda --model models/Qwen\n"
             "  cudal1 train --model models/Qwen --stages sft --steps 200 --chats chats.jsonl --out run",
             "  0    written; it says how many distinct programs and tasks\n"
             "  2    the store has nothing to compare\n"
             "  3    the store cannot be read, or the file not written"));
  sub->callback([o, &c] { finish(c, make_chats(*o, c)); });
}

const command_registration registered(48, add_chats);

}  // namespace

}  // namespace cudal1::cli
