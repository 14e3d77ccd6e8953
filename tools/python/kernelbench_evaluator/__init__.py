"""KernelBench's own evaluator, unchanged, on files that `cudal1 export --format kernelbench` wrote."""
