"""Rewards for trainers, over the client."""

from .reward import Judge, Judged, RewardRule, python_of

__all__ = ["Judge", "Judged", "RewardRule", "python_of"]
