// Variants that `cudal1 export --format cpp` wrote, called from C++ with LibTorch, without Python. This header and
// libcudal1_package.so are all that a program needs beside the package's folder and the LibTorch of its version.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace cudal1 {

namespace package {
class packaged_model;
struct package_files;
}  // namespace package

// A model of a package with one set of weights. Can be copied; thread-safe: calls of one variant are one after the
// other, and what they enqueue on a GPU is on LibTorch's current stream.
class packaged_module {
 public:
  // The tensors of the model's call in the order of its parameters; those that it returns, in their order. Without
  // gradients. Throws std::runtime_error where no variant fits: there is no model of yours to run in its place.
  // Weights may be changed in place: what set-up made of them is made again.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) const;
  // Why no variant fits such a call; "" if one does. Reads forms alone.
  std::string reason_against(const std::vector<at::Tensor>& inputs) const;

 private:
  friend class model_package;
  explicit packaged_module(std::shared_ptr<package::packaged_model> model) : model_(std::move(model)) {}
  std::shared_ptr<package::packaged_model> model_;
};

class model_package {
 public:
  // `folder`: the one that has index.json. Throws std::runtime_error, with what to do, here and below.
  explicit model_package(const std::string& folder);

  // Names of its models.
  std::vector<std::string> models() const;
  // What a model's module needs, by the names of its state_dict. Constants that the package has are left out.
  std::vector<std::string> weight_names(const std::string& model) const;
  // All of them on one device, with the dtypes and shapes that the variants were made for; others may be there, too. A
  // model that was searched with modules in training mode is called as if they were.
  packaged_module module(const std::string& model, std::map<std::string, at::Tensor> weights) const;
  // The variants as operators of PyTorch, cudal1::NAME(Tensor[] inputs, Tensor[] weights) -> Tensor[], as `import` of
  // the package does in Python: call it before a library of AOTInductor that was compiled with them is loaded. They
  // stay until the process ends.
  void register_operators() const;

 private:
  std::shared_ptr<package::package_files> files_;
};

}  // namespace cudal1
