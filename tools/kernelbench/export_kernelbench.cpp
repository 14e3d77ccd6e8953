#include "tools/kernelbench/export_kernelbench.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/format.hpp"
#include "tools/kernelbench/model_file.hpp"

namespace cudal1::cli {

namespace {

// PyTorch's eager mode beside the variant, as `cudal1 baseline` measured them.
struct eager_comparison {
  double speedup = 0;
  interval speedup_interval;
  double eager_us = 0, variant_us = 0;
  double eager_device_us = 0, variant_device_us = 0;
  double pace_us = 0;          // how fast the host was (baseline_record::pace_us)
  bool beside = false;         // measured in the same minutes; else the variant's time is its verdict's
  std::string environment_id;  // that eager was measured in
};
BOOST_DESCRIBE_STRUCT(eager_comparison, (),
                      (speedup, speedup_interval, eager_us, variant_us, eager_device_us, variant_device_us, pace_us,
                       beside, environment_id))

// A line of index.json.
struct exported_model {
  std::string task, id;
  std::string file;     // "" if there is none; `note` has the reason
  std::string variant;  // program id
  std::string note;
  std::optional<eager_comparison> eager;
  double speedup = 1;  // over the task's own program, as it was measured
  interval speedup_interval{1, 1};
  double reference_us = 0, best_us = 0;
  std::string device;
  std::vector<std::string> explanation;
};
BOOST_DESCRIBE_STRUCT(exported_model, (),
                      (task, id, file, variant, note, eager, speedup, speedup_interval, reference_us, best_us, device,
                       explanation))

struct kernelbench_index {
  int64_t format = 1;
  std::string device;
  std::vector<environment> environments;
  std::vector<exported_model> tasks;
};
BOOST_DESCRIBE_STRUCT(kernelbench_index, (), (format, device, environments, tasks))

const environment* environment_of(const search_report& r, const std::string& id) {
  const auto found =
      std::find_if(r.environments.begin(), r.environments.end(), [&](const auto& e) { return e.id == id; });
  return found == r.environments.end() ? nullptr : &*found;
}

std::optional<eager_comparison> over_eager(const best_row& row) {
  if (!row.against || !row.against->problem.empty() || !(row.against->speedup > 0)) return std::nullopt;
  const auto& a = *row.against;
  return eager_comparison{a.speedup,           a.speedup_interval, a.base_us, a.variant_us,    a.base_device_us,
                          a.variant_device_us, a.pace_us,          a.beside,  a.environment_id};
}

std::string measured(const best_row& row, const environment* where) {
  if (row.reference_us <= 0 || where == nullptr) return "";
  const auto eager = over_eager(row);
  const std::string beside = eager ? fmt::format("; {:.2f}x over PyTorch's eager mode, {:.1f} us to {:.1f} us",
                                                 eager->speedup, eager->eager_us, eager->variant_us)
                                   : "";
  return fmt::format(
      "{:.2f}x [{:.2f}, {:.2f}] over the task's own program, {:.1f} us to {:.1f} us a call{}, on {} ({})", row.speedup,
      row.speedup_interval.low, row.speedup_interval.high, row.reference_us, row.best_us, beside, where->device,
      where->model);
}

std::string readme(const kernelbench_index& index, const kernelbench_files& made) {
  std::string text = "# Kernels for KernelBench\n\n";
  for (const auto& e : index.environments)
    text += describe_device(e) + "\n\n";
  for (const auto& e : index.environments) {
    const auto about = timing_remark(e.device);
    if (about.empty()) continue;
    text += about + "\n\n";
    break;
  }
  text +=
      "Each `*_kernel.py` holds a problem's own file and a `ModelNew(Model)` with the same parameters, whose forward "
      "is "
      "one program of CUDA kernels and calls of PyTorch's operators. It needs PyTorch, a C++ compiler and nvcc "
      "(`CUDA_HOME`), and builds when it is imported.\n\n"
      "`python check.py` builds all of them, compares each with its reference and times both, as `cudal1 baseline` "
      "does "
      "(with `pytorch_calls.py`); see `python check.py --help`.\n\n"
      "*Over eager* is against PyTorch's eager mode, as `cudal1 baseline` measured it (a star: not beside the program; "
      "`-`: not measured); the host time of a call from Python counts for both. *Over program* is against "
      "the task's own program, both called from C++.\n\n"
      "| task | file | over eager | over program |\n| --- | --- | --- | --- |\n";
  for (const auto& t : index.tasks)
    if (!t.file.empty())
      text += fmt::format("| {} | `{}` | {} | {} |\n", t.task, t.file,
                          t.eager ? format_speedup(t.eager->speedup) + (t.eager->beside ? "" : "*") : "-",
                          format_speedup(t.speedup, t.speedup_interval));
  if (!made.refusals.empty()) text += "\nWithout a file:\n\n";
  for (const auto& refusal : made.refusals)
    text += fmt::format("- {}\n", refusal);
  return text;
}

expected<std::string> model_of(store& s, const task& t, const best_row& row, const environment* where,
                               const std::string& data) {
  kernelbench::exported_variant v;
  if (row.is_reference) {
    v.id = t.reference.id;
    v.program = print_program(t.reference.text);
  } else {
    CUDAL1_TRY(auto variant, s.get_variant(row.variant));
    v.id = variant.id;
    v.program = std::move(variant.program);
    v.explanation = row.explanation;
  }
  v.measured = measured(row, where);
  return kernelbench::model_file(t, v, data + "/blobs");
}

// Two versions of a task may share a name: the later ones get their id before the ending.
std::string unused(std::string name, const task& t, const std::vector<output_file>& files) {
  constexpr std::string_view ending = "_kernel.py";
  constexpr std::size_t digits = 8;
  if (std::any_of(files.begin(), files.end(), [&](const output_file& f) { return f.name == name; }))
    name.insert(name.size() - ending.size(), "_" + t.id.substr(0, digits));
  return name;
}

}  // namespace

expected<kernelbench_files> make_kernelbench_files(store& s, const search_report& r, const std::string& data,
                                                   exported_tasks which) {
  kernelbench_files made;
  search_report compared = r;
  CUDAL1_CHECK(compare_with_base(s, compared, "eager"));
  kernelbench_index index;
  index.device = compared.device;
  index.environments = compared.environments;
  for (const auto& row : compared.tasks) {
    const auto* where = environment_of(compared, row.environment_id);
    exported_model line{row.name,
                        row.task,
                        "",
                        row.variant,
                        "",
                        over_eager(row),
                        row.speedup,
                        row.speedup_interval,
                        row.reference_us,
                        row.best_us,
                        where != nullptr ? where->device : "",
                        row.explanation};
    CUDAL1_TRY(const auto record, s.get_task(row.task));
    CUDAL1_TRY(const auto t, read_task(record.text, record.profile));
    if (row.is_reference && which == exported_tasks::improved) {
      line.note = "the reference itself is the best";
      ++made.without;
    } else if (auto text = model_of(s, t, row, where, data); text) {
      if (row.is_reference) line.variant = t.reference.id;
      line.file = unused(kernelbench::file_name(t), t, made.files);
      made.files.push_back({line.file, std::move(*text)});
      ++made.models;
    } else {
      line.note = text.error().message;
      made.refusals.push_back(fmt::format("{}: {}", row.name, text.error().message));
    }
    index.tasks.push_back(std::move(line));
  }
  for (const auto& [name, text] : kernelbench::support_files())
    made.files.push_back({std::string(name), std::string(text)});
  made.files.push_back({"index.json", to_json(index).text(2) + "\n"});
  made.files.push_back({"README.md", readme(index, made)});
  return made;
}

}  // namespace cudal1::cli
