// What transformers, tokenizers and gguf have computed (references/make_references.py), for tests that compare with it.
#pragma once

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sandbox/program/safetensors.hpp"

namespace cudal1 {

inline std::string reference(const std::string& name) {
  return std::string(CUDAL1_MODEL_REFERENCES) + "/" + name;
}

// The elements of a tensor in a file of references.
template <class T>
std::vector<T> reference_values(const std::string& file, const std::string& tensor) {
  const auto read = safetensors_file::open(reference(file));
  if (!read) throw std::runtime_error(read.error().message);
  const auto found = read->find(tensor);
  if (!found) throw std::runtime_error(found.error().message);
  std::vector<T> out((*found)->bytes.size() / sizeof(T));
  std::memcpy(out.data(), (*found)->bytes.data(), (*found)->bytes.size());
  return out;
}

// Of tests that need them.
class with_references : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(reference("complete.txt")))
      GTEST_SKIP() << "the references are not there, since PyPI's packages could not be installed: see the test "
                      "model_references, or run tests/policy/model/references/make_references.py "
                   << CUDAL1_MODEL_REFERENCES;
  }
};

}  // namespace cudal1
