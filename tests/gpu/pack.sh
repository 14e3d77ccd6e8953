#!/usr/bin/env bash
# Packs what the tests on a GPU need into one archive, for a machine that has a GPU, nvcc and a Python with torch 2.11,
# but cannot build cudal1: the installed bundle, the tests of a real GPU, what exports are accepted by, and the models.
#
#   tests/gpu/pack.sh BUILD ARCHIVE.txz [KERNELBENCH]
#
# BUILD was configured with -DCUDAL1_TESTS=ON. KERNELBENCH: a checkout of KernelBench, whose evaluator then travels, too.
# There: tar xJf ARCHIVE.txz, then cudal1-gpu/accept.sh --help, or cudal1-gpu/compare_arms.sh.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
archive=$(realpath -m "$2")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
target=$scratch/cudal1-gpu

cmake --install "$build" --prefix "$target" >/dev/null
for test in cuda_session_tests cuda_runner_tests cuda_pool_tests honest_tests library_tests; do
  [ -x "$build/bin/$test" ] || { echo "$build has no $test: configure it with -DCUDAL1_TESTS=ON and build" >&2; exit 2; }
  cp "$build/bin/$test" "$target/bin/"
  strip "$target/bin/$test"
  # The libraries that only tests use; those of the programs are there, and LibTorch's and CUDA's are the machine's.
  ldd "$build/bin/$test" | awk '$3 ~ /^\/(usr\/)?lib/ {print $3}' |
    grep -E '/lib(gtest|gmock|boost|fmt|spdlog|capstone|xxhash|rocksdb|caf|seccomp|stdc)' | xargs -r cp -Lnt "$target/lib"
done
cp "$root"/tests/gpu/{accept.sh,compare_arms.sh,check_exports.sh,check_counters.sh,check_packages.sh,check_precision.py,check_resumed_export.sh,load_times.py} "$target/"
cp -r "$root/tools/bench/plans" "$target/"
mkdir -p "$target/tests/tools" "$target/tools"
for part in accept_exports operator_database exported_module_test.py torch_package_test.py serve_load.py served_node.py; do
  cp -r "$root/tests/tools/$part" "$target/tests/tools/"
done
mkdir -p "$target/tests/gpu" "$target/config"
cp -r "$root"/config/{tasks,programs} "$target/config/"  # of serve_load.py
cp -r "$root"/tests/gpu/{referee_on_gpu.py,submissions} "$target/tests/gpu/"
cp "$build/bin/write_model_files" "$target/bin/"
ln -s ../share/cudal1/python ../share/cudal1/python_client "$target/tools/"
if [ $# -ge 3 ]; then
  mkdir -p "$target/kernelbench"
  cp -r "$3/src" "$target/kernelbench/"
fi
tar cJf "$archive" -C "$scratch" cudal1-gpu
printf '%s: %s MiB\n' "$archive" "$(du -m "$archive" | cut -f1)"
