"""Other people's kernels, judged as strictly as ours: see README.md in this folder."""
