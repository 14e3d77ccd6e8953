#!/usr/bin/env bash
# What a change must show on a GPU, part by part, from the archive that tests/gpu/pack.sh made. Each part prints its
# figures and one line with its time; all of them take about 25 minutes on an H200.
#
#   cudal1-gpu/accept.sh PART... [--device cuda:0] [--data DIR] [--problems FILE.jsonl|DIR] [--models DIR]
#
#   gates     programs that must be refused or accepted: state between calls, every honest surprise on 20 pools (3 min)
#   clock     the reference against itself 100 times, known durations, 500 faults among evaluations (4 min)
#   rate      the built-in tasks for a minute: evaluations a second (1 min)
#   search    imports --problems and the models of accept_exports, searches them, lists all failures (9 min)
#   parts     searches the networks (level 3) of --problems as a whole and by their parts, at most 24 whole programs and
#             6 s of device time each, beside eager (20 min)
#   precision evaluates the products of level 1 and 2 in 3xTF32, after search (3 min)
#   exports   exports 20 of these and the models, checked; a plain harness, KernelBench's evaluator if packed (8 min)
#   models    `cudal1 run` of each file of --models for 30 s as a user types it, then exports and the plain harness
#   users     exported modules in a user's hands (4 min)
#   packages  packages for PyTorch in a user's hands, searched, verified, applied (6 min)
#   operators PyTorch's operator database, a few samples of each operator (2 min)
#   referee   other people's kernels: PyTorch's own code as a submission, files, attacks and their honest twins (5 min)
#
# CUDAL1_PYTHON: a Python with torch 2.11 (default python3). Exits with 1 if a part failed.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
parts=() device=cuda:0 data=$here/data problems="" models=""
while [ $# -gt 0 ]; do
  case "$1" in
    --device) device=$2 && shift 2 ;;
    --data) data=$2 && shift 2 ;;
    --problems) problems=$2 && shift 2 ;;
    --models) models=$(realpath "$2") && shift 2 ;;
    gates | clock | rate | search | parts | precision | exports | models | users | packages | operators | referee) parts+=("$1") && shift ;;
    *) sed -n '2,23s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || { sed -n '2,23s/^# \{0,1\}//p' "$0" >&2; exit 2; }

export CUDAL1_PYTHON=${CUDAL1_PYTHON:-python3} CUDAL1_DATA=$data PYTHONUNBUFFERED=1
"$here/bin/cudal1-setup" "$CUDAL1_PYTHON" || exit 2
torch=$(readlink -f "$here/torch")
export LD_LIBRARY_PATH=$here/lib:$torch/lib:$torch/../nvidia/cu13/lib PATH=$here/bin:$PATH
mkdir -p "$data"
failed=0

wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }
part() {  # part NAME SECONDS COMMAND...: its output goes to DATA/NAME.log, the end of it here
  local name=$1 seconds=$2 start=$SECONDS status=0
  shift 2
  timeout "$seconds" "$@" >"$data/$name.log" 2>&1 || status=$?
  tail -n "${lines:-40}" "$data/$name.log" | cut -c1-220
  printf '== %s: %s after %d s\n' "$name" "$([ $status -eq 0 ] && echo passed || echo "FAILED ($status)")" $((SECONDS - start))
  [ $status -eq 0 ] || failed=1
}

cd "$here/bin" || exit 2
if wanted gates; then
  part state 150 ./cuda_session_tests --gtest_filter='state*'
  CUDAL1_TEST_DEVICE=$device CUDAL1_TEST_REPEAT=20 part honest 240 ./honest_tests --gtest_filter='*accepted*'
  part library 240 ./library_tests --gtest_filter='*gpu*'
fi
if wanted clock; then
  CUDAL1_AA_RUNS=100 part instrument 200 ./cuda_session_tests --gtest_filter='instrument*'
  CUDAL1_FAULT_EVALUATIONS=500 part faults 200 ./cuda_session_tests --gtest_filter='faults*:rate*'
  part runner 90 ./cuda_runner_tests
  part pool 90 ./cuda_pool_tests
fi
if wanted rate; then
  lines=60 part rate 120 cudal1 run --data "$data/rate" --device "$device" --time 60s --evaluations 60
fi
if wanted search; then
  jobs=$(($(nproc) > 1 ? $(nproc) - 1 : 1))
  [ -z "$problems" ] || lines=3 part import 400 cudal1 tasks import "$problems" --out "$data/tasks" --jobs "$jobs"
  lines=12 part import_models 200 cudal1 tasks import "$here/tests/tools/accept_exports/models" --out "$data/tasks" --jobs "$jobs"
  lines=60 part search 400 cudal1 run --device "$device" --tasks "$data/tasks" --evaluations 18 --time 270s --against program
  lines=60 part failures 60 cudal1 failures --all
fi
if wanted parts; then
  lines=3 part import_networks 400 cudal1 tasks import "$problems" --level 3 --out "$data/networks"
  budget=(--device "$device" --tasks "$data/networks" --evaluations 24 --device-time 6s --against eager)
  lines=60 part whole 500 cudal1 run --data "$data/whole" "${budget[@]}"
  lines=120 part parts 900 cudal1 run --data "$data/by_parts" "${budget[@]}" --parts 12
  lines=2 part carried 60 cudal1 parts export "$data/parts.jsonl.gz" --data "$data/by_parts"
fi
if wanted precision; then
  lines=120 part precision 300 "$CUDAL1_PYTHON" "$here/check_precision.py" cudal1 "$data/tasks" --device "$device" \
    --json "$data/precision.json"
fi
if wanted exports; then
  # The ten models, and of the others every so many, so that there are 20.
  mapfile -t names < <(cudal1 report --json | "$CUDAL1_PYTHON" -c '
import json, pathlib, sys
tasks = sorted(t["name"] for t in json.load(sys.stdin)["tasks"] if not t["is_reference"])
own = {p.stem for p in pathlib.Path(sys.argv[1]).glob("*.py")}
others = [t for t in tasks if t not in own]
print(*[t for t in tasks if t in own], *others[:: max(1, len(others) // 20)][:20], sep="\n")' "$here/tests/tools/accept_exports/models")
  chosen=()
  for name in "${names[@]}"; do chosen+=(--task "$name"); done
  lines=60 part export 500 cudal1 export "$data/exported" --format kernelbench --force "${chosen[@]}"
  evaluator=()
  [ ! -d "$here/kernelbench" ] || evaluator=(--kernelbench "$here/kernelbench")
  lines=60 part accept 500 "$CUDAL1_PYTHON" "$here/tests/tools/accept_exports" "$data/exported" --device "$device" \
    --json "$data/accept.json" "${evaluator[@]}"
fi
if wanted models; then
  [ -n "$models" ] || { echo "accept.sh: models: name a folder with --models (tests/tools/library_models writes one)" >&2; exit 2; }
  found=()
  for file in "$models"/*.py; do
    name=$(basename "$file" .py)
    found+=(--task "$name")
    lines=70 part "run_$name" 120 cudal1 run "$file" --device "$device" --time 30s --against program
  done
  part export_models 300 cudal1 export "$data/exported_models" --format kernelbench --no-check --force "${found[@]}"
  lines=60 part accept_models 400 "$CUDAL1_PYTHON" "$here/tests/tools/accept_exports" "$data/exported_models" \
    --device "$device" --json "$data/accept_models.json"
fi
if wanted users; then
  part exported_module 300 "$CUDAL1_PYTHON" "$here/tests/tools/exported_module_test.py" "$here/bin/cudal1" "$here/bin/write_model_files"
fi
if wanted packages; then
  EXPORT_DEVICE=$device part check_packages 600 "$here/check_packages.sh" "$here/bin" "$data/packages"
fi
if wanted operators; then
  part operator_database 300 "$CUDAL1_PYTHON" "$here/tests/tools/operator_database" --bin "$here/bin" --device "$device" --fast
fi
if wanted referee; then
  lines=90 part referee 600 "$CUDAL1_PYTHON" "$here/tests/gpu/referee_on_gpu.py"
fi
exit $failed
