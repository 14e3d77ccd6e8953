// The parameters of a training with their optimiser's state. Includes LibTorch: only for the model's library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "config/base/error.hpp"
#include "policy/model/language_model.hpp"

namespace cudal1 {

// Each has a float32 master, which the optimiser changes; where the model computes in another type, the parameter that
// it reads is a rounded copy.
class trained_parameters {
 public:
  struct parameter {
    std::string name;
    torch::Tensor read, master;  // the same tensor where no copy is needed
  };

  // `read` wants a gradient from now on.
  void add(std::string name, torch::Tensor read);
  const std::vector<parameter>& all() const { return all_; }
  int64_t elements() const;
  int64_t steps() const { return steps_; }

  void forget_gradients();
  // A step of AdamW with the gradients that have gathered. Returns their norm before it was clipped.
  // errc::invalid_argument where it is not finite; then nothing is changed.
  expected<double> step(const optimizer_options& how);
  // The model's copies are made of the masters again.
  void copy_masters();

  // Masters and moments in a safetensors file.
  expected<void> save(const std::string& path) const;
  expected<void> load(const std::string& path, int64_t steps);

 private:
  std::vector<torch::Tensor> masters() const;
  void make_optimizer(const optimizer_options& how);

  std::vector<parameter> all_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;  // none before the first step
  int64_t steps_ = 0;
};

}  // namespace cudal1
