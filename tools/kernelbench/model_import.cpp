#include "tools/kernelbench/model_import.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/blob.hpp"
#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "config/base/json.hpp"
#include "config/base/stopwatch.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/confined_python.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/imported_tasks.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* program_name = "import_tasks.py";
constexpr int importer_usage = 2;

expected<std::string> read_whole(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) return fail(errc::io_error, "{} cannot be read", path.string());
  return text;
}

expected<void> write_whole(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) return fail(errc::io_error, "{} cannot be written", path.string());
  return {};
}

std::vector<std::string> importer_words(const import_request& request, const std::string& rules) {
  std::vector<std::string> words = request.sources;
  words.insert(words.end(), {"--json", "--out", request.out, "--rules", rules});
  for (const auto& names : request.only)
    words.insert(words.end(), {"--only", names});
  for (const auto& inputs : request.inputs)
    words.insert(words.end(), {"--inputs", inputs});
  if (!request.weights.empty()) words.insert(words.end(), {"--weights", request.weights});
  if (!request.module.empty()) words.insert(words.end(), {"--module", request.module});
  if (!request.workloads.empty()) words.insert(words.end(), {"--workloads", request.workloads});
  if (request.level) words.insert(words.end(), {"--level", std::to_string(*request.level)});
  if (request.jobs) words.insert(words.end(), {"--jobs", std::to_string(*request.jobs)});
  if (request.execution.show_output) words.emplace_back("--show-output");
  return words;
}

// What a report says was written: a name in the folder of the tasks, whatever a model's code has put there.
expected<void> check_files(const import_report& report) {
  for (const auto& t : report.imported)
    if (t.file.empty() || t.file.starts_with('.') || t.file.find('/') != std::string::npos)
      return fail(errc::invalid_argument,
                  "the importer's report names the file \"{}\", which is no name of a task's file", t.file);
  return {};
}

expected<import_report> run_importer(const import_request& request) {
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script(program_name));
  std::error_code problem;
  fs::create_directories(request.out, problem);
  if (problem) return fail(errc::io_error, "cannot make the folder {}: {}", request.out, problem.message());
  CUDAL1_TRY(const auto rules, program_beside("cudal1"));
  const auto words = importer_words(request, rules);
  const stopwatch watch;
  const auto ended =
      request.execution.confined
          ? run_confined_python(python, script, words, fs::absolute(request.out).string(), request.execution.wake_fd)
          : run_python(python, script, words, request.execution.wake_fd);
  if (!ended && ended.error().code == errc::cancelled) {
    if (const auto err = examine(stderr); err.live) err.print("\r\033[K");  // the line of progress
    return fail(errc::cancelled, "interrupted after {}: nothing was imported", format_clock(watch.ms() / 1e3));
  }
  CUDAL1_CHECK(ended);
  import_report report;
  const auto document = json::parse(ended->out);
  if (!document) {
    if (ended->code == importer_usage || ended->code == 1)
      return fail(errc::invalid_argument, "nothing was imported from {}; see the importer's messages",
                  fmt::join(request.sources, ", "));
    return fail(errc::infrastructure, "{} {} ended with exit code {}", python, script, ended->code);
  }
  CUDAL1_CHECK(from_json(*document, report, "the importer's report"));
  CUDAL1_CHECK(check_files(report));
  return report;
}

// Removes the files of tasks that our own rules refuse, and reports the reasons.
import_report reject_invalid_tasks(import_report report, const std::string& folder) {
  const auto refuse = [&](const imported_task& t) {
    const auto path = fs::path(folder) / t.file;
    // Its sizes are numbers, so any profile works.
    const auto loaded = load_task(path.string(), "cuda");
    if (loaded) return false;
    std::error_code ignored;
    fs::remove(path, ignored);
    report.refused.push_back({t.name, loaded.error().message});
    return true;
  };
  report.imported.erase(std::remove_if(report.imported.begin(), report.imported.end(), refuse), report.imported.end());
  return report;
}

// Relative names and bytes of all files below a folder (or of the one file) with that ending.
expected<std::string> bytes_of(const fs::path& source, std::string_view ending) {
  std::error_code problem;
  if (!fs::is_directory(source, problem)) return read_whole(source);
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(source, problem), end; !problem && entry != end; entry.increment(problem))
    if (entry->is_regular_file(problem) && entry->path().extension() == ending) files.push_back(entry->path());
  if (problem) return fail(errc::io_error, "{}: {}", source.string(), problem.message());
  std::sort(files.begin(), files.end());
  std::string all;
  for (const auto& file : files) {
    CUDAL1_TRY(const auto text, read_whole(file));
    all += file.lexically_relative(source).string() + "\n" + sha256_hex(text) + "\n";
  }
  return all;
}

struct named_model {
  std::string place, name;  // FILE.py or package.module, and what is named there
};

bool is_python_name(std::string_view word) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c >= 0x80; };
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) == 0 &&
         std::all_of(word.begin(), word.end(), fits);
}

bool is_module_name(std::string_view dotted) {
  for (auto dot = dotted.find('.'); dot != std::string_view::npos; dot = dotted.find('.')) {
    if (!is_python_name(dotted.substr(0, dot))) return false;
    dotted.remove_prefix(dot + 1);
  }
  return is_python_name(dotted);
}

std::optional<named_model> split_name(const std::string& source) {
  const auto colon = source.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  named_model m{source.substr(0, colon), source.substr(colon + 1)};
  if (is_python_name(m.name) && (m.place.ends_with(".py") || is_module_name(m.place))) return m;
  return std::nullopt;
}

// The file or folder of a source; "" for a module, which Python finds.
std::string path_of(const std::string& source) {
  const auto named = split_name(source);
  if (!named) return source;
  return named->place.ends_with(".py") ? named->place : "";
}

std::optional<read_file_state> state_of(const fs::path& path) {
  struct stat now {};
  if (::stat(path.c_str(), &now) != 0) return std::nullopt;
  constexpr int64_t second_ns = 1'000'000'000;
  return read_file_state{path.string(), now.st_size, now.st_mtim.tv_sec * second_ns + now.st_mtim.tv_nsec};
}

expected<std::string> key_of(const model_choice& model) {
  CUDAL1_TRY(const auto script, python_script(program_name));
  std::string models, name;
  if (const auto path = path_of(model.source); !path.empty()) {
    CUDAL1_TRY(models, bytes_of(path, ".py"));
    // The name of a task contains the name of its file and of its folder (level1).
    const auto absolute = fs::absolute(path).lexically_normal();
    name = (absolute.parent_path().filename() / absolute.filename()).string();
    // A checkpoint beside the file is taken without being named.
    for (const auto* ending : {".safetensors", ".pt", ".pth"})
      if (const auto beside = state_of(fs::path(path).replace_extension(ending)); path.ends_with(".py") && beside)
        name += fmt::format(" {} {} {}", ending, beside->bytes, beside->modified_ns);
  }
  CUDAL1_TRY(const auto importer, bytes_of(fs::path(script).parent_path(), ".py"));
  std::string key = sha256_hex(models) + sha256_hex(importer) + sha256_hex(operators_json().text()) + name;
  // What else is named is found from the working folder.
  if (split_name(model.source) || !model.inputs.empty() || !model.weights.empty())
    key += fmt::format("\n{}\n{}\n{}\n{}", fs::current_path().string(), model.source, fmt::join(model.inputs, "\n"),
                       model.weights);
  if (!model.module.empty()) key += "\nmodule " + model.module;
  return sha256_hex(key);
}

bool is_unchanged(const read_file_state& file) {
  const auto now = state_of(file.path);
  return now && now->bytes == file.bytes && now->modified_ns == file.modified_ns;
}

expected<import_report> read_report(const fs::path& path) {
  CUDAL1_TRY(const auto text, read_whole(path));
  CUDAL1_TRY(const auto document, json::parse(text));
  import_report report;
  CUDAL1_CHECK(from_json(document, report, path.string()));
  return report;
}

}  // namespace

expected<void> check_source(const std::string& source) {
  const auto path = path_of(source);
  if (std::error_code problem; path.empty() || fs::exists(path, problem)) return {};
  return fail(errc::not_found,
              "there is no {}; a source is a *.py, a folder of them, a *.jsonl, FILE.py:NAME or package.module:NAME",
              path);
}

void add_model_options(CLI::App& command, std::vector<std::string>& inputs, std::string& weights, std::string& module) {
  command
      .add_option("--inputs", inputs,
                  "what gives the model's example inputs: a function or a value beside the model, FILE.py:NAME or "
                  "package.module:NAME; given again, each makes a task")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      .add_option("--weights", weights,
                  "the model's state_dict, as torch.save (read with weights_only) or safetensors wrote it; without the "
                  "flag, that of FILE.pt, .pth or .safetensors beside FILE.py, if it is the model's")
      ->type_name("FILE");
  command
      .add_option(
          "--module", module,
          "only this module of the model, as in encoder.layers.0; its inputs are recorded in calls of the model "
          "(`cudal1 tasks TASK --times` lists modules)")
      ->type_name("PATH");
}

void add_execution_options(CLI::App& command, model_execution& execution) {
  command.add_flag(
      "--confined", execution.confined,
      "execute the models' Python as compilers are: it reads files, but writes to the tasks' folder alone, and "
      "has no network");
  command.add_flag("--show-output", execution.show_output, "show on standard error what the models' Python prints");
}

void warn_of_execution(const context& c, const model_execution& execution) {
  const fs::path said = fs::path(c.data) / "told_of_model_execution";
  std::error_code problem;
  if (execution.confined || fs::exists(said, problem)) return;
  note(c, wrap("A model's Python is executed as you, unconfined, here and wherever PyTorch is measured: import only "
               "what you "
               "would run. --confined imports it without network and without writing to your files. (This is said once "
               "for a data folder.)",
               c.err.width));
  fs::create_directories(c.data, problem);
  static_cast<void>(write_whole(said, ""));
}

std::vector<std::string> notes_of(const import_report& report) {
  std::vector<std::string> notes;
  for (const auto& t : report.imported) {
    if (t.rounding > 0)
      notes.push_back(fmt::format("{}: its steps differ from the model by rounding, up to {:.1e} of the largest value",
                                  t.name, t.rounding));
    if (!t.verified)
      notes.push_back(
          fmt::format("{}: its steps were not compared with the model at import: {}", t.name, t.uncompared));
    if (!t.verified && !t.unchecked.empty())
      notes.push_back(fmt::format("{}: these rewritings by the importer were not checked either: {}", t.name,
                                  fmt::join(t.unchecked, ", ")));
    for (const auto& note : t.notes)
      notes.push_back(t.name + ": " + note);
  }
  return notes;
}

bool is_model_source(const std::string& name) {
  if (name.ends_with(".py") || name.ends_with(".jsonl") || split_name(name)) return true;
  std::error_code problem;
  if (!fs::is_directory(name, problem)) return false;
  for (fs::recursive_directory_iterator entry(name, problem), end; !problem && entry != end; entry.increment(problem))
    if (const auto file = entry->path().filename().string();
        file.ends_with(".py") && !is_blob_name(file, ".py"))  // not the sources that a folder of tasks keeps
      return true;
  return false;
}

expected<import_report> import_models(const import_request& request) {
  for (const auto& source : request.sources)
    CUDAL1_CHECK(check_source(source));
  CUDAL1_TRY(auto report, run_importer(request));
  return reject_invalid_tasks(std::move(report), request.out);
}

expected<imported_models> imported_once(const std::string& data, const model_choice& model) {
  CUDAL1_CHECK(check_source(model.source));
  CUDAL1_TRY(const auto key, key_of(model));
  const auto parent = fs::path(imported_folder(data));
  const auto folder = parent / key;
  imported_models result{folder.string(), {}, false};
  std::error_code problem;
  if (fs::is_regular_file(folder / import_report_name, problem)) {
    CUDAL1_TRY(result.report, read_report(folder / import_report_name));
    // What was refused may be accepted now: a package is installed, or another Python is named.
    if (result.report.refused.empty() &&
        std::all_of(result.report.files.begin(), result.report.files.end(), is_unchanged)) {
      // Of several versions of a model the one that was meant last is the newest.
      fs::last_write_time(folder / import_report_name, fs::file_time_type::clock::now(), problem);
      return result;
    }
    fs::remove_all(folder, problem);
  }
  const auto unfinished = parent / fmt::format(".{}_{}", key, ::getpid());
  auto imported = import_models(
      {{model.source}, unfinished.string(), {}, model.inputs, model.weights, model.module, {}, {}, model.execution});
  if (!imported) {
    fs::remove_all(unfinished, problem);
    return tl::unexpected<error>(std::move(imported).error());
  }
  result.report = std::move(*imported);
  result.fresh = true;
  CUDAL1_CHECK(write_whole(unfinished / import_report_name, to_json(result.report).text()));
  fs::rename(unfinished, folder, problem);
  // Another process may have imported it meanwhile, with the same result.
  if (problem && !fs::is_regular_file(folder / import_report_name))
    return fail(errc::io_error, "cannot make {}: {}", folder.string(), problem.message());
  fs::remove_all(unfinished, problem);
  return result;
}

}  // namespace cudal1::cli
