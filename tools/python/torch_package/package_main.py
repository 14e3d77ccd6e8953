import importlib
import sys

from ._cudal1.verify import main

sys.exit(main(importlib.import_module(__package__)._package, sys.argv[1:]))
