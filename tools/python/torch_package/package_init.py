"""Fast variants of a model's forward, found and measured by cudal1.

    fast = NAME.optimize(model)        # a module with the model's parameters, state_dict and signature
    print(NAME.report())               # which calls ran a variant, and why others ran the model's own forward
    with NAME.eager(): ...             # calls of this thread run the model's own forward
"""

import pathlib as _pathlib

from ._cudal1.package import Package as _Package
from ._cudal1.program import PackageError

_package = _Package(__name__, _pathlib.Path(__file__).resolve().parent)
models = _package.models
optimize = _package.optimize
model_class = _package.model_class
report = _package.report
eager = _package.eager

__all__ = ["PackageError", "eager", "model_class", "models", "optimize", "report"]
__version__ = _package.index["version"]
