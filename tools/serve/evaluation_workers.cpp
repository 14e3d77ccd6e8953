#include "tools/serve/evaluation_workers.hpp"

#include <chrono>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/clients/client.hpp"
#include "config/base/readable.hpp"
#include "policy/codegen/lowering_target.hpp"
#include "policy/prompt/answer_reader.hpp"
#include "policy/prompt/tile_text.hpp"
#include "sandbox/device/device_type.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/hand_variants.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/cli/verdict_request.hpp"
#include "tools/kernelbench/kept_files.hpp"
#include "tools/kernelbench/submission_referee.hpp"
#include "tools/serve/verdict_document.hpp"

namespace cudal1::serve {

namespace {

using namespace std::chrono_literals;

constexpr int most_tries = 4;  // of an evaluation that meets an infrastructure fault
constexpr auto retry_delay = 1s;

evaluated_item evaluated(const verdict& v, const std::string& experiment, const std::string& device) {
  return {verdict_document(v, experiment, device), device_ms_of(v.stage_ms) / 1000};
}

// What breaks a rule of its format gets a verdict without a device.
evaluated_item invalid(const task& what, const std::string& device, const error& why) {
  verdict v;
  v.task = what.id;
  v.result = outcome::invalid;
  v.reason = why.message;
  return evaluated(v, "", device);
}

bool is_fault_of_text(errc code) {
  return code == errc::parse_error || code == errc::invalid_argument || code == errc::invalid_program ||
         code == errc::unsupported;
}

expected<std::string> text_of(const job_item& item, const task& what, const std::string& target) {
  if (!item.schedule.empty()) return cli::lower_schedule_text(item.schedule, what, target);
  if (item.answer.empty()) return item.program;
  CUDAL1_TRY(const lowering_target* t, find_lowering_target(target));
  auto read = read_answer(item.answer, {&what, t, answer_form::program, ""});
  if (read.problem)
    if (auto tile = read_answer(item.answer, {&what, t, answer_form::tile, ""}); looks_like_tile(tile.code))
      read = std::move(tile);
  if (read.problem) return tl::unexpected<error>(*read.problem);
  return print_program(read.program->text);
}

std::string origin_of(const work_item& w) {
  return fmt::format("hand: {} of {}{}", w.item.label.empty() ? "a variant" : w.item.label, w.client,
                     w.item.schedule.empty() ? "" : ", by the schedule " + w.item.schedule);
}

// The verdict that an evaluation of an earlier node has left in the store.
expected<std::optional<verdict>> earlier_verdict(const cli::context& c, const std::string& experiment) {
  CUDAL1_TRY(const auto store, cli::open_for_reading(c));
  CUDAL1_TRY(const auto record, store->get_experiment(experiment));
  for (const auto& task : record.tasks) {
    CUDAL1_TRY(auto verdicts, store->verdicts_of_task(task, experiment));
    if (!verdicts.empty()) return std::optional(std::move(verdicts.back()));
  }
  return std::nullopt;
}

// Of this machine's node, and of its data folder.
struct chosen_task {
  cli::connected_node node;
  std::string device, model;
  task what;
};

expected<chosen_task> choose(const cli::context& c, const work_item& w) {
  CUDAL1_TRY(auto node, cli::connect_to_node(c));
  CUDAL1_TRY(const device_report device, cli::choose_device(node.status, w.device));
  const std::string& name = device.where.device;
  CUDAL1_TRY(const std::string profile, cli::profile_of(name));
  CUDAL1_TRY(auto tasks, cli::choose_tasks("", {w.task}, profile, c.data));
  CUDAL1_CHECK(cli::copy_task_blobs(c, tasks));
  return chosen_task{std::move(node), name, device.where.model, std::move(tasks.front())};
}

expected<evaluated_item> evaluate(const cli::context& c, const work_item& w, job_board& board) {
  if (!w.item.experiment.empty())
    if (const auto before = earlier_verdict(c, w.item.experiment); before && *before)
      return evaluated(**before, w.item.experiment, w.device);
  CUDAL1_TRY(auto chosen, choose(c, w));
  const std::string& name = chosen.device;
  const task& what = chosen.what;
  auto text = text_of(w.item, what, std::string(traits_of(name).target));
  if (!text && is_fault_of_text(text.error().code)) return invalid(what, name, text.error());
  if (!text) return tl::unexpected<error>(text.error());

  client_request r;
  r.verb = client_verb::evaluate;
  r.device = name;
  r.task = canonical_text(what);
  r.program = std::move(*text);
  r.origin = origin_of(w);
  r.stop_on_disconnect = true;
  std::string experiment;
  const auto begun = [&](const std::string& id) {
    experiment = id;
    board.begun(w, id);
  };
  CUDAL1_TRY(const verdict v, cli::ask_for_verdict(chosen.node.client, r, w.cancelled_fd, begun));
  return evaluated(v, experiment, name);
}

expected<evaluated_item> judge_python(const cli::context& c, const work_item& w,
                                      kernelbench::submission_referee& referee) {
  CUDAL1_TRY(const auto chosen, choose(c, w));
  CUDAL1_TRY(const auto v, referee.judge(w.item.label.empty() ? "a file" : w.item.label, w.item.python, chosen.what,
                                         c.data + "/blobs", chosen.device, w.cancelled_fd));
  const auto record = kernelbench::as_judged_file(v, w.item.python, chosen.what, chosen.device, chosen.model);
  if (const auto kept = kernelbench::keep_file(c, record, chosen.what); !kept)
    spdlog::warn("the verdict on {} is not kept in the store: {}", v.name, kept.error().message);
  return evaluated_item{verdict_document(v, chosen.what.id, chosen.device), v.seconds};
}

bool may_try_again(errc code) {
  return code == errc::infrastructure || code == errc::timeout || code == errc::io_error;
}

}  // namespace

evaluation_workers::evaluation_workers(std::string data, std::shared_ptr<job_board> board, int count)
    : data_(std::move(data)), board_(std::move(board)) {
  cli::context c;
  c.data = data_;
  c.quiet = true;
  for (int i = 0; i < count; ++i)
    threads_.emplace_back(
        [this, c] { work(work_kind::variant, [this, &c](const work_item& w) { return evaluate(c, w, *board_); }); });
  threads_.emplace_back([this, c] {
    kernelbench::submission_referee referee(data_ + "/serve/referee.log");
    work(work_kind::python_file, [&](const work_item& w) { return judge_python(c, w, referee); });
  });
}

evaluation_workers::~evaluation_workers() {
  board_->end();
  for (auto& thread : threads_)
    thread.join();
}

void evaluation_workers::work(work_kind kind, const evaluator& evaluate) const {
  while (const auto w = board_->take(kind)) {
    for (int tries = 1;; ++tries) {
      auto result = evaluate(*w);
      if (result) {
        board_->finish(*w, std::move(result->verdict), result->device_s);
        break;
      }
      const auto& e = result.error();
      const bool is_interrupted = is_readable(w->cancelled_fd);
      if (is_interrupted || board_->is_ending()) {
        board_->put_back(*w);
        break;
      }
      if (!may_try_again(e.code) || tries == most_tries) {
        spdlog::warn("job {}: an evaluation failed: {}", w->place.job, e.message);
        board_->fail_item(*w, e);
        break;
      }
      is_readable(w->cancelled_fd, retry_delay);
    }
  }
}

}  // namespace cudal1::serve
