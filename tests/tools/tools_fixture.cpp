#include "tests/tools/tools_fixture.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/hash.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1::cli {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) ADD_FAILURE() << "cannot read " << path;
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out) ADD_FAILURE() << "cannot write " << path;
}

std::string examples_folder() {
  return CUDAL1_SOURCE "/tools/examples";
}

std::string builtin_tasks() {
  return CUDAL1_SOURCE "/config/tasks";
}

running_program::running_program(const std::vector<std::string>& arguments,
                                 const std::map<std::string, std::string>& variables) {
  int out[2], err[2];
  if (::pipe(out) != 0 || ::pipe(err) != 0) {
    ADD_FAILURE() << "no pipe";
    return;
  }
  std::vector<std::string> words = {CUDAL1_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = {"PATH=" + std::string(std::getenv("PATH")), "HOME=/nonexistent",
                                          "TMPDIR=/tmp", "CUDAL1_TASKS=" + builtin_tasks()};
  for (const auto& [name, value] : variables)
    environment.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (auto& word : words)
    argv.push_back(word.data());
  for (auto& variable : environment)
    envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    for (const int fd : {out[0], out[1], err[0], err[1]})
      ::close(fd);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  out_fd_.reset(out[0]);
  err_fd_.reset(err[0]);
}

running_program::~running_program() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

bool running_program::read_some() {
  pollfd waiting[2] = {{out_fd_.get(), POLLIN, 0}, {err_fd_.get(), POLLIN, 0}};
  if (!out_fd_ && !err_fd_) return false;
  if (::poll(waiting, 2, -1) < 0) return errno == EINTR;
  char buffer[4096];
  const auto take = [&](unique_fd& fd, const pollfd& p, std::string& text) {
    if (!fd || p.revents == 0) return;
    const auto n = ::read(fd.get(), buffer, sizeof buffer);
    if (n > 0)
      text.append(buffer, static_cast<std::size_t>(n));
    else
      fd.reset();
  };
  take(out_fd_, waiting[0], so_far_.out);
  take(err_fd_, waiting[1], so_far_.err);
  return true;
}

bool running_program::wait_for(const std::string& text) {
  while (so_far_.out.find(text) == std::string::npos)
    if (!read_some()) return false;
  return true;
}

void running_program::signal(int number) const {
  ::kill(pid_, number);
}

finished_program running_program::finish() {
  while (read_some()) {
  }
  int status = 0;
  if (pid_ > 0) ::waitpid(pid_, &status, 0);
  pid_ = -1;
  so_far_.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return so_far_;
}

finished_program run_cudal1(const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& variables) {
  return running_program(arguments, variables).finish();
}

json document_of(const finished_program& p) {
  auto parsed = json::parse(p.out);
  if (!parsed) {
    ADD_FAILURE() << parsed.error().message << "\nin: " << p.out << "\nstderr: " << p.err;
    return {};
  }
  return *parsed;
}

json at(const json& document, const std::string& path) {
  const json* here = &document;
  std::string rest = path;
  while (here != nullptr && !rest.empty()) {
    const auto dot = rest.find('.');
    const auto key = rest.substr(0, dot);
    rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
    if (here->is_array()) {
      const auto index = static_cast<std::size_t>(std::atoi(key.c_str()));
      here = index < here->as_array().size() ? &here->as_array()[index] : nullptr;
    } else {
      here = here->find(key);
    }
  }
  if (here == nullptr) {
    ADD_FAILURE() << "there is no " << path << " in " << document.text(2);
    return {};
  }
  return *here;
}

namespace {

class store_builder {
 public:
  store_builder(const std::string& data, environment where, std::string profile)
      : where_(std::move(where)), profile_(std::move(profile)) {
    std::filesystem::create_directories(data);
    auto opened = store::open(data + "/store");
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      std::abort();
    }
    store_ = std::move(*opened);
  }

  std::string add_task(const std::string& name) { return add_file(builtin_tasks() + "/" + name + ".json"); }

  std::string add_file(const std::string& path) {
    const auto t = load_task(path, profile_);
    EXPECT_TRUE(holds(t));
    EXPECT_TRUE(holds(store_->put_task({t->id, t->name, t->summary, t->family, t->profile, canonical_text(*t)})));
    return t->id;
  }

  void add_eager(const std::string& task, const std::string& variant, double eager_us, double variant_us) {
    baseline_record b;
    b.task = task;
    b.kind = "eager";
    b.environment_id = where_.id;
    b.call_us = eager_us;
    b.call_interval = {eager_us, eager_us};
    b.variant = variant;
    b.variant_us = variant_us;
    b.variant_interval = {variant_us, variant_us};
    EXPECT_TRUE(holds(store_->put_baseline(b, where_)));
  }

  void add_experiment(const std::vector<std::string>& tasks) {
    experiment_record e;
    e.device = where_.device;
    e.policy = "evolutionary";
    e.tasks = tasks;
    e.evaluations_per_task = 24;
    e.seed = 1;
    e.created_unix_ms = 1764000000000;
    auto created = store_->create_experiment(e);
    ASSERT_TRUE(holds(created));
    experiment_ = *created;
    experiment_.active_s = 2;
    experiment_.state = experiment_state::finished;
    ASSERT_TRUE(holds(store_->update_experiment(experiment_)));
  }

  // Adds a variant whose program is the example `file` with `mark` in its source, and its verdict.
  std::string add(const std::string& task, const std::string& file, const std::string& mark, const verdict& like) {
    return add_path(task, examples_folder() + "/" + file, mark, like);
  }

  std::string add_path(const std::string& task, const std::string& path, const std::string& mark, const verdict& like) {
    variant_record v;
    v.program = read_file(path) + "// " + mark + "\n";
    const auto read = read_program(v.program);
    EXPECT_TRUE(holds(read));
    v.program = print_program(*read);
    v.id = program_id(*read);
    v.task = task;
    v.schedule = "fuse(steps=0..1); block(group=0, threads=256)";
    v.origin = "policy evolutionary";
    v.explanation = {"fuse: steps 0 to 1 run as one kernel, so their intermediate stays in a register",
                     "block: 256 threads"};
    v.experiment = experiment_.id;
    v.time_unix_ms = 1764000000000;
    const auto attempt = store_->reserve(v, experiment_.id);
    EXPECT_TRUE(holds(attempt));
    verdict result = like;
    result.task = task;
    result.variant = v.id;
    result.attempt = attempt->number;
    result.stage_ms = {{"time", 60}, {"check", 30}, {"open", 10}, {"compile", 400}, {"wait", 7}};
    result.environment_id = where_.id;
    result.time_unix_ms = 1764000001000;
    EXPECT_TRUE(holds(store_->commit(*attempt, result, where_)));
    return v.id;
  }

  const experiment_record& experiment() const { return experiment_; }

 private:
  environment where_;
  std::string profile_;
  std::unique_ptr<store> store_;
  experiment_record experiment_;
};

verdict timed(double score, double low, double high, double reference_us, bool confirmed) {
  verdict v;
  v.result = outcome::correct;
  v.reason = "right on all draws";
  v.gates = {{"1 form", true, "float32[640, 512], contiguous"},
             {"2 close", true, "0 of 327680 elements outside 1e-4"},
             {"3 error", true, "relative error 3.1e-8, at most 5.0e-6"}};
  for (int i = 0; i < 12; ++i)
    v.samples.push_back({i / 4, i % 2 == 0, reference_us + i, reference_us / score + 0.1 * i});
  v.score = score;
  v.score_interval = {low, high};
  v.reference_us = reference_us;
  v.variant_us = reference_us / score;
  v.confirmed = confirmed;
  return v;
}

verdict with_device_times(verdict v, double reference_us, double variant_us) {
  v.reference_device_us = reference_us;
  v.variant_device_us = variant_us;
  for (auto& s : v.samples) {
    s.reference_device_us = reference_us;
    s.variant_device_us = variant_us;
  }
  return v;
}

}  // namespace

void write_gpu_tasks(const std::string& folder) {
  std::filesystem::create_directories(folder);
  const std::string head = R"({"format": 1, "summary": "s", "family": "f", "name": )";
  write_file(folder + "/diagonal_matmul.json", head + R"("diagonal_matmul",
    "inputs": [{"name": "a", "dtype": "float32", "shape": [4096, 4096], "facts": ["diagonal"]},
               {"name": "b", "dtype": "float32", "shape": [4096, 4096]}],
    "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"]}], "outputs": ["y"]})");
  write_file(folder + "/product.json", head + R"("product",
    "inputs": [{"name": "a", "dtype": "float32", "shape": [8192, 4096]},
               {"name": "b", "dtype": "float32", "shape": [4096, 4096]}],
    "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"]}], "outputs": ["y"]})");
  write_file(folder + "/softmax.json", head + R"("softmax",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [16384, 4096]}],
    "steps": [{"aten": "aten::softmax.int", "args": {"self": "x", "dim": 1}, "out": ["y"]}], "outputs": ["y"]})");
}

prepared prepare_store(const std::string& data) {
  store_builder b(data, {"cpu", "a processor with 2 cores", "AVX2; 1 thread; LibTorch 2.11.0", "environment-1"}, "cpu");
  prepared p;
  p.diagonal = b.add_task("diagonal_matmul");
  p.softmax = b.add_task("softmax");
  b.add_experiment({p.diagonal, p.softmax});
  p.experiment = b.experiment().id;
  p.best = b.add(p.diagonal, "row_scale.cu1", "first", timed(22.9, 22.14, 23.46, 4123.4, true));
  p.slower = b.add(p.diagonal, "row_scale.cu1", "second", timed(1.834, 1.801, 1.864, 4100, false));
  verdict wrong;
  wrong.result = outcome::wrong_answer;
  wrong.reason = "gate 2: 163840 of 327680 elements outside 1e-4";
  wrong.gates = {{"1 form", true, "float32[640, 512]"}, {"2 close", false, "163840 of 327680 elements outside 1e-4"}};
  p.wrong = b.add(p.diagonal, "wrong_row_scale.cu1", "third", wrong);
  p.even = b.add(p.softmax, "softmax_rows.cu1", "fourth", timed(0.97, 0.95, 0.99, 2950, false));
  return p;
}

void prepare_doubtful_store(const std::string& data, const std::string& why_ill_conditioned, int64_t reference_parts) {
  store_builder b(data, {"cpu", "a processor with 2 cores", "AVX2; 1 thread; LibTorch 2.11.0", "environment-1"}, "cpu");
  const auto diagonal = b.add_task("diagonal_matmul"), softmax = b.add_task("softmax");
  b.add_experiment({diagonal, softmax});
  b.add(diagonal, "row_scale.cu1", "first", timed(4, 3.9, 4.1, 4000, true));
  verdict doubtful = timed(3, 2.71, 3.4, 3000, false);
  doubtful.ill_conditioned = why_ill_conditioned;
  doubtful.reference_parts = reference_parts;
  b.add(softmax, "softmax_rows.cu1", "second", doubtful);
}

prepared prepare_gpu_store(const std::string& data, const std::string& model) {
  store_builder b(data, {"cuda:0", model, "driver 570.86.15, LibTorch 2.11.0", "environment-2"}, "cuda");
  prepared p;
  write_gpu_tasks(data + "/tasks");
  p.diagonal = b.add_file(data + "/tasks/diagonal_matmul.json");
  p.softmax = b.add_file(data + "/tasks/softmax.json");
  b.add_experiment({p.diagonal, p.softmax});
  p.experiment = b.experiment().id;
  // The roof of diagonal_matmul on an H200: 4 (4096 + 2 4096 4096) bytes at 4.2 TB/s, 31.96 us; of softmax: 127.8 us.
  verdict fast = with_device_times(timed(50, 49, 51, 2750, true), 2740, 45);
  fast.resources = {{"row_scale", 32, 4096, 0, 0, 0}, {"spilling", 255, 0, 64, 16, 24}};
  fast.notes = {"graph: input \"a\" is copied"};
  p.best = b.add(p.diagonal, "row_scale.cu1", "first", fast);
  p.even =
      b.add(p.softmax, "softmax_rows.cu1", "second", with_device_times(timed(1.01, 0.98, 1.05, 200, true), 180, 400));
  return p;
}

namespace {

// DATA/level1_023.json, y = 2 x, with its source in DATA/blobs.
std::string write_imported_task(const std::string& data) {
  const std::string source =
      "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n\n"
      "def get_inputs():\n    return [torch.rand(64)]\n\ndef get_init_inputs():\n    return []\n";
  std::filesystem::create_directories(data + "/blobs");
  const auto name = sha256_hex(source) + ".py";
  write_file(data + "/blobs/" + name, source);
  write_file(data + "/level1_023.json",
             R"({"format": 1, "name": "level1_023", "summary": "twice", "family": "pointwise",
    "origin": {"kind": "kernelbench", "level": 1, "problem": 23, "seed": 42, "source": ")" +
                 name + R"("},
    "inputs": [{"name": "x", "dtype": "float32", "shape": [64]}],
    "steps": [{"aten": "aten::mul.Scalar", "args": {"self": "x", "other": 2}, "out": ["y"]}], "outputs": ["y"]})");
  return data + "/level1_023.json";
}

environment small_processor() {
  return {"cpu", "a processor with 2 cores", "AVX2; 1 thread; LibTorch 2.11.0", "environment-1"};
}

}  // namespace

void prepare_library_store(const std::string& data) {
  const auto program = [&](const std::string& name, const std::string& factor) {
    write_file(data + "/" + name, R"({"format": 1, "name": "twice",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [64]}],
    "steps": [{"aten": "aten::mul.Scalar", "args": {"self": "x", "other": )" +
                                      factor + R"(}, "out": ["y"]}], "outputs": ["y"]}
---
)");
    return data + "/" + name;
  };
  const auto file = write_imported_task(data);
  store_builder b(data, small_processor(), "cpu");
  auto task = b.add_file(file);
  b.add_experiment({task});
  b.add_path(task, program("off.cu1", "2.0005"), "first", timed(3, 2.9, 3.1, 30, true));
  b.add_path(task, program("right.cu1", "2.0"), "second", timed(2, 1.9, 2.1, 30, true));
}

void prepare_graph_store(const std::string& data) {
  write_file(data + "/graph.cu1", R"({"format": 1, "name": "twice",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [64]}],
    "steps": [{"aten": "aten::mul.Scalar", "args": {"self": "x", "other": 2}, "out": ["y"]}], "outputs": ["y"],
    "execution": {"graph": true, "lanes": 1}}
---
)");
  const auto file = write_imported_task(data);
  store_builder b(data, small_processor(), "cpu");
  auto task = b.add_file(file);
  b.add_experiment({task});
  b.add_path(task, data + "/graph.cu1", "first", timed(2, 1.9, 2.1, 30, true));
}

std::string prepare_imported_store(const std::string& data) {
  const auto file = write_imported_task(data);
  write_file(data + "/twice.cu1", R"({"format": 1, "name": "twice",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [64]}],
    "steps": [{"alloc": "y", "dtype": "float32", "shape": [64]},
              {"launch": "twice", "grid": [1, 1, 1], "block": [64, 1, 1], "args": [{"in": "x"}, {"out": "y"}]}],
    "outputs": ["y"]}
---
__global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2.0f * x[threadIdx.x]; }
)");
  store_builder b(data, small_processor(), "cpu");
  auto task = b.add_file(file);
  b.add_experiment({task});
  const auto variant = b.add_path(task, data + "/twice.cu1", "first", timed(2, 1.9, 2.1, 30, true));
  b.add_eager(task, variant, 48, 16);
  return task;
}

}  // namespace cudal1::cli
