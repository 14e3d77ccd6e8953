"""Rewards for trainers, over the client."""

from .reward import Judge, Judged, RewardRule

__all__ = ["Judge", "Judged", "RewardRule"]
