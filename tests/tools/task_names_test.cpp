// Tasks by their names: built-in ones, imported ones of the same name, and versions of an edited model.
#include <chrono>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/program/task.hpp"
#include "store/store.hpp"
#include "tests/tools/tools_fixture.hpp"

namespace cudal1::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string task_named(const std::string& name, const std::string& summary, int factor) {
  return R"({"format": 1, "name": ")" + name + R"(", "summary": ")" + summary + R"(", "family": "pointwise",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [64]}],
    "steps": [{"aten": "aten::mul.Scalar", "args": {"self": "x", "other": )" +
         std::to_string(factor) + R"(}, "out": ["y"]}], "outputs": ["y"]})";
}

class task_names : public testing::Test {
 protected:
  // As `cudal1 run MODEL` leaves it, `hours` ago.
  std::string import(const std::string& key, const std::string& name, const std::string& summary, int factor,
                     int hours) {
    const auto folder = data_ / ("imported/" + key);
    fs::create_directories(folder);
    write_file(folder + "/" + name + ".json", task_named(name, summary, factor));
    write_file(folder + "/report", "{}");
    fs::last_write_time(folder + "/report", fs::file_time_type::clock::now() - std::chrono::hours(hours));
    return folder + "/" + name + ".json";
  }
  finished_program run(std::vector<std::string> words) const {
    words.insert(words.end(), {"--data", data_.path()});
    return run_cudal1(words);
  }
  temporary_folder data_;
};

TEST_F(task_names, an_imported_task_is_never_taken_for_the_built_in_one_of_its_name) {
  const auto imported = import("key", "softmax", "my own", 3, 0);
  const auto program = data_.write("p.cu1", "{}");
  for (const auto& words : std::vector<std::vector<std::string>>{{"tasks", "softmax"},
                                                                 {"prompt", "softmax"},
                                                                 {"run", "--task", "softmax", "--evaluations", "1"},
                                                                 {"evaluate", "softmax", program}}) {
    const auto p = run(words);
    EXPECT_EQ(p.code, 2) << words.front();
    EXPECT_THAT(p.err, AllOf(HasSubstr("there are two tasks \"softmax\""), HasSubstr(builtin_tasks() + "/softmax.json"),
                             HasSubstr(imported)))
        << words.front();
  }
  EXPECT_THAT(run({"tasks", imported}).out, HasSubstr("softmax: my own"));
  EXPECT_EQ(run({"tasks", builtin_tasks() + "/softmax.json"}).code, 0);
  EXPECT_EQ(run({"tasks", "diagonal_matmul"}).code, 0) << "others are not concerned";
}

TEST_F(task_names, of_several_versions_the_newest_is_meant_and_all_are_listed) {
  const auto old = import("b", "net", "the first", 2, 5), recent = import("a", "net", "the second", 3, 1);
  const auto p = run({"tasks", "net"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("net: the second"));
  EXPECT_THAT(p.err, AllOf(HasSubstr("net: the newest of 2 imported versions, of 20"), HasSubstr(old + " (20")));
  const auto list = run({"tasks"}).out;
  EXPECT_THAT(list, AllOf(HasSubstr(recent), HasSubstr("older"), HasSubstr(old)));
  EXPECT_LT(list.find(recent), list.find(old));
  EXPECT_EQ(at(document_of(run({"tasks", "--json"})), "imported.1.is_newest"), json(false));
  import("b", "net", "the first", 2, 0);  // it is meant again
  EXPECT_THAT(run({"tasks", "net"}).out, HasSubstr("net: the first"));
}

TEST_F(task_names, versions_are_told_apart_in_what_the_store_has) {
  std::vector<std::string> ids;
  {
    const auto s = store::open(data_ / "store").value();
    for (int version = 1; version <= 2; ++version) {
      const auto t = read_task(task_named("net", "version " + std::to_string(version), version + 1), "cpu").value();
      ASSERT_TRUE(holds(s->put_task({t.id, t.name, t.summary, t.family, t.profile, canonical_text(t)})));
      experiment_record e;
      e.device = "cpu";
      e.policy = "random";
      e.tasks = {t.id};
      e.created_unix_ms = 1764000000000 + version;
      const auto created = s->create_experiment(e);
      ASSERT_TRUE(holds(created));
      variant_record v;
      v.id = std::string(63, 'a') + std::to_string(version);
      v.task = t.id;
      const auto a = s->reserve(v, created->id);
      ASSERT_TRUE(holds(a));
      verdict wrong;
      wrong.task = t.id;
      wrong.variant = v.id;
      wrong.result = outcome::wrong_answer;
      wrong.environment_id = "environment-1";
      ASSERT_TRUE(holds(s->commit(*a, wrong, {"cpu", "a processor", "details", "environment-1"})));
      ids.push_back(t.id);
    }
  }
  const auto all = run({"best"}).out;
  for (const auto& id : ids)
    EXPECT_THAT(all, HasSubstr("net (" + id.substr(0, 6) + ")"));
  const auto newest = run({"best", "net"});
  ASSERT_EQ(newest.code, 0) << newest.err;
  EXPECT_THAT(newest.out, AllOf(HasSubstr("net: version 2"), HasSubstr("2 versions of net are in the store"),
                                HasSubstr(ids[0].substr(0, 12) + " (cpu, searched on 2025-11-24")));
  EXPECT_THAT(run({"best", ids[0].substr(0, 8)}).out, AllOf(HasSubstr("net: version 1"), Not(HasSubstr("2 versions"))));
  EXPECT_THAT(run({"best", "nte"}).err, HasSubstr("did you mean \"net\"?"));
}

}  // namespace
}  // namespace cudal1::cli
