"""What verifiers loads by the id cudal1_verifiers."""

from cudal1.adapters.verifiers_env import KernelEnv, KernelTaskset

__all__ = ["KernelEnv", "KernelTaskset"]
