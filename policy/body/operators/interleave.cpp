#include "policy/body/operators/interleave.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::interleave";

expected<void> build_interleave(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, b.joined_operand(s, "tensors", s.result_types[0].type));
  return b.bind(s, 0, x);
}

}  // namespace

operator_use interleave(const graph& g, const interleave_proof& of) {
  std::vector<tensor_argument> parts;
  for (const auto& part : of.parts)
    parts.push_back({part, g.type_of(part)});
  return {k_name, {{"tensors", std::move(parts)}}};
}

bool is_interleave(const graph_step& s) {
  return s.op() == k_name;
}

body_operator interleave_operator() {
  return {k_name, build_interleave, std::nullopt};
}

}  // namespace cudal1
