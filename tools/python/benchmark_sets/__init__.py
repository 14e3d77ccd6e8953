"""Solutions of FlashInfer-Bench and SOL-ExecBench: read as submissions, and written of exported files."""
