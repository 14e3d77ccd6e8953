// PyTorch models on the command line: found, imported, checked by the rules of tasks, and imported once for a search.
#include "tools/kernelbench/model_import.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/program/task.hpp"
#include "tests/tools/tools_fixture.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr const char* good_model = R"(
import torch
class Model(torch.nn.Module):
    """A layer, then GELU."""
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)
    def forward(self, x):
        return torch.nn.functional.gelu(self.layer(x))
def get_inputs(): return [torch.rand(16, 8)]
def get_init_inputs(): return []
)";

// Can be exported, but has an operator that tasks do not support.
constexpr const char* foreign_model = R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x)
def get_inputs(): return [torch.randn(40, 40)]
def get_init_inputs(): return []
)";

TEST(model_import, what_a_task_does_otherwise_than_its_model_is_said) {
  import_report report;
  report.imported.resize(3);
  report.imported[0].name = "same";
  report.imported[1].name = "rounded";
  report.imported[1].rounding = 1.2e-6;
  report.imported[0].verified = report.imported[1].verified = true;
  report.imported[2].name = "alone";
  report.imported[2].uncompared = "it is slow";
  report.imported[2].unchecked = {"merge views (line 3)"};
  report.imported[2].notes = {"running statistics are not kept"};
  EXPECT_THAT(notes_of(report),
              testing::ElementsAre(HasSubstr("rounded: its steps differ from the model by rounding, up to 1.2e-06"),
                                   "alone: its steps were not compared with the model at import: it is slow",
                                   "alone: these rewritings by the importer were not checked either: merge views "
                                   "(line 3)",
                                   "alone: running statistics are not kept"));
}

TEST(model_import, models_become_tasks_that_our_rules_accept_and_the_others_are_refused) {
  const temporary_folder folder;
  fs::create_directories(folder / "models");
  write_file(folder / "models/layer.py", good_model);
  write_file(folder / "models/inverse.py", foreign_model);
  const auto p = run_cudal1({"tasks", "import", folder / "models", "--out", folder / "tasks", "--json"});
  ASSERT_EQ(p.code, 1) << p.err;
  const auto document = document_of(p);
  EXPECT_EQ(at(document, "imported.0.name").as_string(), "layer");
  EXPECT_TRUE(at(document, "imported.0.verified").as_bool());
  EXPECT_EQ(at(document, "refused.0.name").as_string(), "inverse");
  EXPECT_THAT(at(document, "refused.0.reason").as_string(), HasSubstr("aten::linalg_inv"));
  const auto t = load_task(folder / "tasks/layer.json", "cpu");
  ASSERT_TRUE(holds(t));
  EXPECT_EQ(t->summary, "A layer, then GELU.");
  ASSERT_THAT(t->content_files(), SizeIs(1));
  EXPECT_TRUE(fs::exists(folder / ("tasks/blobs/" + t->content_files().front())));
  ASSERT_TRUE(t->origin);
  EXPECT_EQ(read_file(folder / ("tasks/blobs/" + t->origin->source)), good_model);
  EXPECT_FALSE(fs::exists(folder / "tasks/inverse.json"));
  // A folder of tasks is not a folder of models, although it has their sources.
  EXPECT_TRUE(is_model_source(folder / "models"));
  EXPECT_FALSE(is_model_source(folder / "tasks"));
}

TEST(model_import, a_search_imports_a_model_once) {
  const temporary_folder folder;
  write_file(folder / "layer.py", good_model);
  const auto first = imported_once(folder / "data", {folder / "layer.py", {}, ""});
  ASSERT_TRUE(holds(first));
  EXPECT_TRUE(first->fresh);
  EXPECT_THAT(first->report.imported, SizeIs(1));
  const auto again = imported_once(folder / "data", {folder / "layer.py", {}, ""});
  ASSERT_TRUE(holds(again));
  EXPECT_FALSE(again->fresh);
  EXPECT_EQ(again->folder, first->folder);
  EXPECT_THAT(again->report.imported, SizeIs(1));
  const auto tasks = load_tasks(again->folder, "cuda");
  ASSERT_TRUE(holds(tasks));
  EXPECT_THAT(*tasks, SizeIs(1));
}

TEST(model_import, a_name_in_a_file_or_a_package_is_a_source) {
  for (const auto* source : {"blocks.py:Block", "models/blocks.py:make", "torchvision.models:resnet18", "a:b"})
    EXPECT_TRUE(is_model_source(source)) << source;
  for (const auto* other : {"a/b:c", "a..b:c", "a:", ":b", "a:1"})
    EXPECT_FALSE(is_model_source(other)) << other;
}

TEST(model_import, a_search_imports_a_model_again_once_a_file_that_it_reads_has_changed) {
  const temporary_folder folder;
  write_file(folder / "helper.py", "factor = 2\n");
  write_file(folder / "scaled.py",
             "import torch\nfrom helper import factor\ndef scale(x): return x * factor\n"
             "def example_inputs(): return torch.rand(3, 4)\n");
  const model_choice model{folder / "scaled.py:scale", {}, ""};
  const auto first = imported_once(folder / "data", model);
  ASSERT_TRUE(holds(first));
  ASSERT_THAT(first->report.imported, SizeIs(1));
  EXPECT_EQ(first->report.imported.front().name, "scaled.scale");
  const auto again = imported_once(folder / "data", model);
  ASSERT_TRUE(holds(again));
  EXPECT_FALSE(again->fresh);
  write_file(folder / "helper.py", "factor = 30\n");
  const auto changed = imported_once(folder / "data", model);
  ASSERT_TRUE(holds(changed));
  EXPECT_TRUE(changed->fresh);
  EXPECT_THAT(read_file(changed->folder + "/scaled.scale.json"), HasSubstr("\"other\": 30"));
  write_file(folder / "scaled.pt", "no checkpoint");
  const auto beside = imported_once(folder / "data", model);
  ASSERT_TRUE(holds(beside));
  EXPECT_TRUE(beside->fresh);
  EXPECT_THAT(beside->report.imported.front().notes, testing::Contains(HasSubstr("scaled.pt was not taken")));
}

TEST(model_import, a_search_imports_again_what_was_refused) {
  const temporary_folder folder;
  write_file(folder / "scaled.py",
             "import torch\nfrom added_later import factor\ndef scale(x): return x * factor\n"
             "def example_inputs(): return torch.rand(3, 4)\n");
  const model_choice model{folder / "scaled.py:scale", {}, ""};
  const auto first = imported_once(folder / "data", model);
  ASSERT_TRUE(holds(first));
  ASSERT_THAT(first->report.refused, SizeIs(1));
  write_file(folder / "added_later.py", "factor = 2\n");
  const auto again = imported_once(folder / "data", model);
  ASSERT_TRUE(holds(again));
  EXPECT_THAT(again->report.refused, SizeIs(0));
  EXPECT_THAT(again->report.imported, SizeIs(1));
}

TEST(model_import, a_syntax_error_is_refused_before_torch_is_loaded) {
  const temporary_folder folder;
  write_file(folder / "broken.py", "import torch\nclass Model(:\n    pass\n");
  const auto p = run_cudal1({"tasks", "import", folder / "broken.py", "--out", folder / "tasks"});
  EXPECT_EQ(p.code, 1) << p.err;
  EXPECT_THAT(p.out,
              HasSubstr("broken was refused: it is no valid Python: invalid syntax (broken.py:2: `class Model(:`)"));
  EXPECT_FALSE(fs::exists(folder / "tasks/blobs")) << "which is made once torch is loaded";
}

TEST(model_import, what_a_model_prints_is_shown_on_request) {
  const temporary_folder folder;
  write_file(folder / "layer.py", std::string("print('made by hand')\n") + good_model);
  EXPECT_THAT(run_cudal1({"tasks", "import", folder / "layer.py", "--out", folder / "a"}).err,
              Not(HasSubstr("made by hand")));
  const auto shown =
      run_cudal1({"tasks", "import", folder / "layer.py", "--out", folder / "b", "--show-output", "--json"});
  EXPECT_THAT(shown.err, HasSubstr("made by hand"));
  EXPECT_EQ(at(document_of(shown), "imported.0.name").as_string(), "layer");
}

TEST(model_import, a_confined_model_cannot_write_beside_its_tasks) {
  const temporary_folder folder;
  write_file(folder / "layer.py",
             "import pathlib\npathlib.Path(" + json(folder / "trace").text() + ").write_text('x')\n" + good_model);
  const auto refused = run_cudal1({"tasks", "import", folder / "layer.py", "--out", folder / "a", "--confined"});
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_THAT(refused.out, HasSubstr("layer was refused: the file raised PermissionError"));
  EXPECT_FALSE(fs::exists(folder / "trace"));
  write_file(folder / "layer.py", good_model);
  const auto p = run_cudal1({"tasks", "import", folder / "layer.py", "--out", folder / "b", "--confined", "--json"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_TRUE(at(document_of(p), "imported.0.verified").as_bool());
  EXPECT_TRUE(holds(load_task(folder / "b/layer.json", "cpu")));
}

TEST(model_import, an_interrupted_import_says_so_and_leaves_nothing) {
  const temporary_folder folder;
  for (const bool confined : {false, true}) {
    const std::string ready = confined ? folder / "tasks/ready" : folder / "ready";
    write_file(folder / "sleeps.py",
               "import os, time\nopen(" + json(ready).text() + ", 'w').close()\ntime.sleep(400)\n");
    std::vector<std::string> words = {"tasks", "import", folder / "sleeps.py", "--out", folder / "tasks"};
    if (confined) words.emplace_back("--confined");
    running_program p(words);
    while (!fs::exists(ready))
      std::this_thread::yield();
    p.signal(SIGINT);
    const auto ended = p.finish();
    EXPECT_EQ(ended.code, 130);
    EXPECT_THAT(ended.err, testing::MatchesRegex("cudal1: interrupted after 0:[0-9]+: nothing was imported\n"));
    fs::remove(ready);
  }
}

TEST(model_import, that_its_python_is_executed_is_said_once_for_a_data_folder) {
  const temporary_folder folder;
  write_file(folder / "broken.py", "class Model(:\n");
  const std::vector<std::string> words = {"run", folder / "broken.py", "--data", folder / "data"};
  EXPECT_THAT(run_cudal1(words).err, HasSubstr("A model's Python is executed as you, unconfined"));
  EXPECT_THAT(run_cudal1(words).err, Not(HasSubstr("is executed as you")));
}

TEST(model_import, missing_files_are_reported_before_anything_is_created) {
  const temporary_folder folder;
  const auto nothing = run_cudal1({"tasks", "import", folder / "no_such_file.py", "--out", folder / "tasks"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("no_such_file.py"));
  write_file(folder / "layer.py", good_model);
  const auto no_python = run_cudal1({"tasks", "import", folder / "layer.py", "--out", folder / "tasks"},
                                    {{"CUDAL1_PYTHON", "/bin/false"}});
  EXPECT_EQ(no_python.code, 2);
  EXPECT_THAT(no_python.err, HasSubstr("$CUDAL1_PYTHON: /bin/false is not a working Python"));
  EXPECT_FALSE(fs::exists(folder / "tasks"));
  write_file(folder / "notes.txt", "no model");
  const auto no_model = run_cudal1({"run", folder / "notes.txt", "--data", folder / "data"});
  EXPECT_EQ(no_model.code, 2);
  EXPECT_THAT(no_model.err, HasSubstr("notes.txt is not a PyTorch model"));
  EXPECT_FALSE(fs::exists(folder / "data"));
}

}  // namespace
}  // namespace cudal1::cli
