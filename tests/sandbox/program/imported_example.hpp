// A small imported task: a task file with its blobs.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <stdlib.h>

#include "config/base/hash.hpp"
#include "sandbox/program/safetensors.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// A temporary folder that the destructor removes. y = (x w' + b)[:, index], x [rows, 4], w [3, 4]; index belongs to the
// definition. The first tensor is one byte long, so that the others are unaligned in their file.
struct imported_example {
  static constexpr std::size_t width = 4, units = 3;
  std::size_t rows = 8;
  std::string folder, task_file, blob, source;
  std::vector<float> weight, bias;
  std::vector<int64_t> index{2, 0};

  explicit imported_example(const std::string& draw = R"({"distribution": "normal", "mean": 0, "std": 0.5})") {
    namespace fs = std::filesystem;
    folder = (fs::temp_directory_path() / "cudal1-imported-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
    fs::create_directory(folder + "/blobs");
    for (std::size_t i = 0; i < units * width; ++i)
      weight.push_back(0.25F * static_cast<float>(i) - 1);
    bias = {0.5F, -1.5F, 2.5F};
    const char flag = 1;
    const stored_tensors tensors = {{"a_flag", {dtype::bool_, {1}, std::as_bytes(std::span(&flag, 1))}},
                                    {"fc.bias", {dtype::float32, {units}, std::as_bytes(std::span(bias))}},
                                    {"fc.weight", {dtype::float32, {units, width}, std::as_bytes(std::span(weight))}},
                                    {"index", {dtype::int64, {2}, std::as_bytes(std::span(index))}}};
    if (const auto written = write_safetensors(folder + "/w", tensors); !written)
      throw std::runtime_error(written.error().message);
    blob = keep("w", ".safetensors");
    std::ofstream(folder + "/m") << "# a model\n";
    source = keep("m", ".py");
    task_file = folder + "/layer.json";
    std::ofstream(task_file) << text(draw);
  }
  ~imported_example() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  imported_example(const imported_example&) = delete;
  imported_example& operator=(const imported_example&) = delete;

  std::string blobs() const { return folder + "/blobs"; }

  std::string text(const std::string& draw) const {
    return fmt::format(R"({{"format": 1, "name": "layer", "summary": "a layer", "family": "matmul",
  "origin": {{"kind": "kernelbench", "level": 1, "problem": 23, "source": "{source}", "seed": 42}},
  "inputs": [{{"name": "x", "dtype": "float32", "shape": [{rows}, 4]}}],
  "weights": [
    {{"name": "fc_weight", "dtype": "float32", "shape": [3, 4], "draw": {draw}, "content": {{"file": "{blob}", "tensor": "fc.weight"}}}},
    {{"name": "fc_bias", "dtype": "float32", "shape": [3], "draw": {draw}, "content": {{"file": "{blob}", "tensor": "fc.bias"}}}},
    {{"name": "index", "dtype": "int64", "shape": [2], "content": {{"file": "{blob}", "tensor": "index", "fixed": true}}}}],
  "steps": [
    {{"aten": "aten::linear", "args": {{"input": "x", "weight": "fc_weight", "bias": "fc_bias"}}, "out": ["h"]}},
    {{"aten": "aten::index_select", "args": {{"self": "h", "dim": 1, "index": "index"}}, "out": ["y"]}}],
  "outputs": ["y"]}})",
                       fmt::arg("source", source), fmt::arg("rows", rows), fmt::arg("draw", draw),
                       fmt::arg("blob", blob));
  }

  task load() const {
    auto t = load_task(task_file, "cpu");
    if (!t) throw std::runtime_error(t.error().message);
    return *t;
  }

  // The expected outputs for one row x.
  std::vector<float> answer(const float* x) const {
    std::vector<float> y;
    for (const int64_t unit : index) {
      const auto u = static_cast<std::size_t>(unit);
      float sum = bias[u];
      for (std::size_t i = 0; i < width; ++i)
        sum += x[i] * weight[u * width + i];
      y.push_back(sum);
    }
    return y;
  }

 private:
  std::string keep(const std::string& file, const std::string& ending) const {
    std::ifstream in(folder + "/" + file, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    std::string name = sha256_hex(bytes) + ending;
    std::filesystem::rename(folder + "/" + file, blobs() + "/" + name);
    return name;
  }
};

// Changes one byte of a file in place.
inline void damage(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x55');
}

}  // namespace cudal1
