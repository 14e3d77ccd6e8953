#!/usr/bin/env bash
# Runs the plan of a comparison of a language model's arms on a GPU, from the archive that tests/gpu/pack.sh made; again,
# it goes on. Answers, verdicts and adapters are in OUT; what is carried to another machine is OUT as a whole.
#
#   cudal1-gpu/compare_arms.sh MODEL.gguf|FOLDER OUT [--plan FILE] [--device cuda:0] [--time 9m]
#
# The plan is plans/smollm2_h200.toml unless another is named. Ends with the report in OUT/report.txt and
# OUT/report.json. CUDAL1_PYTHON: a Python with torch 2.11 (default python3).
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
model=$1 out=$2 plan=$here/plans/smollm2_h200.toml device=cuda:0 limit=()
shift 2
while [ $# -gt 0 ]; do
  case "$1" in
    --plan) plan=$2 && shift 2 ;;
    --device) device=$2 && shift 2 ;;
    --time) limit=(--time "$2") && shift 2 ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
  esac
done
export CUDAL1_PYTHON=${CUDAL1_PYTHON:-python3} CUDAL1_DATA=$out/unused
"$here/bin/cudal1-setup" "$CUDAL1_PYTHON" || exit 2
torch=$(readlink -f "$here/torch")
export LD_LIBRARY_PATH=$here/lib:$torch/lib:$torch/../nvidia/cu13/lib PATH=$here/bin:$PATH
mkdir -p "$out"
code=0
cudal1 compare --model "$model" --plan "$plan" --device "$device" --measured-on "$device" --out "$out" "${limit[@]}" ||
  code=$?
cudal1 report --comparison "$out" >"$out/report.txt" && cudal1 report --comparison "$out" --json >"$out/report.json"
exit "$code"
