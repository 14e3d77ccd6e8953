#!/usr/bin/env bash
# `cudal1 profile` with Nsight Compute on a GPU: a softmax as a row kernel, a product on tensor cores and a convolution are
# evaluated and profiled. About two minutes.
#
#   tests/gpu/check_counters.sh OUT [NCU]
#
# cudal1 is on the PATH, CUDAL1_PYTHON is a Python with torch. NCU: default auto. In OUT afterwards: the CSV that ncu
# printed (NAME.csv), what `profile` printed (NAME.txt, NAME.err), the data folder with profiles/, a prompt and a page. Exits
# with 1 if counters were not read or a part of them is missing.
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out=$(realpath -m "$1")
ncu=${2:-auto}
mkdir -p "$out"
export CUDAL1_DATA=$out/data
device=${CUDAL1_DEVICE:-cuda:0}
bad=0

# Evaluates each schedule, so that the best that is right is profiled; where none is, a short search finds one.
profiled() {
  local task=$1 right=0
  shift
  for moves in "$@"; do
    if cudal1 evaluate "$task" --device "$device" --schedule "$moves" >"$out/evaluate.txt" 2>&1; then
      right=1
    else
      echo "$task: $moves: $(grep -E 'cudal1:|outcome|result' "$out/evaluate.txt" | tail -1 | cut -c1-200)"
    fi
  done
  [ $right = 1 ] || cudal1 run "$task" --device "$device" --time 20s >"$out/run.txt" 2>&1
  echo "== $task"
  cudal1 show "$task" --schedule
  cudal1 profile "$task" --ncu "$ncu" --ncu-csv "$out/$task.csv" >"$out/$task.txt" 2>"$out/$task.err" || bad=1
  cat "$out/$task.txt" "$out/$task.err"
  cudal1 prompt "$task" --device "$device" --exemplars 8 2>/dev/null >"$out/$task.prompt" || true
  grep -n -A1 'Counters of' "$out/$task.prompt" || { echo "$task: its prompt has no counters"; bad=1; }
}

profiled softmax 'row_kernel(steps=0)' 'row_kernel(steps=0); graph()'
profiled linear_gelu 'fuse(steps=1); product_kernel(steps=0..1, factors=halves)' \
  'fuse(steps=1); product_kernel(steps=0..1, factors=halves); graph()'
profiled conv2d_epilogue 'separate_bias(); fuse(steps=2..5); tensor_core_convolution(steps=1..5)' \
  'separate_bias(); fuse(steps=2..5); tensor_core_convolution(steps=1..5); graph()'

cudal1 report --html "$out/report.html" >/dev/null 2>&1
grep -q 'What limits its kernels' "$out/report.html" || { echo "the page has no counters"; bad=1; }
# What the parser did not find in what ncu printed.
"${CUDAL1_PYTHON:-python3}" - "$CUDAL1_DATA"/profiles/*.json <<'P' || bad=1
import json, sys
missing = 0
for file in sys.argv[1:]:
    for k in json.load(open(file))["kernels"]:
        lacks = [n for n, v in k.items() if v is None] + ([] if k["stalls"] else ["stalls"])
        missing += len(lacks)
        print(f"{k['kernel'][:60]}: {k['us']:.1f} us, lacks {', '.join(lacks) or 'nothing'}")
sys.exit(missing > 0 or len(sys.argv) < 2)
P
exit $bad
