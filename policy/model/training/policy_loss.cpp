#include "policy/model/training/policy_loss.hpp"

namespace cudal1 {

policy_token_losses losses_of(const policy_tokens& t, const grpo_options& how) {
  const auto ratio = (t.now - t.before).exp();
  const auto clipped = ratio.clamp(1 - how.ratio_clip, 1 + how.ratio_clip);
  auto gain = torch::minimum(ratio * t.advantage, clipped * t.advantage);
  if (t.importance.defined()) gain = gain * t.importance;
  policy_token_losses out{-gain, {}, ratio != clipped};
  if (t.reference.defined()) {
    const auto ahead = t.reference - t.now;
    out.kl = ahead.exp() - ahead - 1;
    out.loss = how.kl_weight * out.kl - gain;
  }
  return out;
}

}  // namespace cudal1
