"""Nsight Compute on a variant, for `cudal1 profile`: `reading` runs it, `counters` reads its CSV, `words` says what the
counters mean, `tables` prints them."""
