// A network's weights from a pretrained model, and where a network may be. Includes LibTorch: only for the model's
// library.
#pragma once

#include <string>

#include "policy/model/checkpoint/pretrained_weights.hpp"
#include "policy/model/network.hpp"

namespace cudal1 {

// errc::unsupported where LibTorch has no such device.
expected<torch::Device> device_of(const std::string& name);

torch::ScalarType scalar_type_of(model_precision precision);

// Of its size, in the network's type, on the CPU. Errors of pretrained_weights::read.
expected<torch::Tensor> read_weight(const pretrained_weights& from, const std::string& name,
                                    const std::vector<int64_t>& size, torch::ScalarType type);
// The weight with an adapter's change of it; computed in float32 on the CPU.
torch::Tensor merged(const torch::Tensor& weight, const low_rank_pair& change, const adapter_options& options);
// All of them, copied one by one. LibTorch's failures are exceptions.
expected<void> read_weights(network& into, const pretrained_weights& from, torch::Device device);

}  // namespace cudal1
