"""The loss of a language model: log-softmax in float32 and the next tokens' mean, 4 x 512 tokens of 32000 classes."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits, tokens):
        log_probs = F.log_softmax(logits[:, :-1].float(), dim=-1)
        return F.nll_loss(log_probs.flatten(0, 1), tokens[:, 1:].flatten())


def get_inputs():
    return [torch.randn(4, 512, 32000, dtype=torch.bfloat16), torch.randint(0, 32000, (4, 512))]


def get_init_inputs():
    return []
