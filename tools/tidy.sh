#!/usr/bin/env bash
# clang-tidy on the sources that changed since a commit, in parallel; any finding fails.
#   tools/tidy.sh [BASE]     BASE: default $CUDAL1_TIDY_BASE, else the commit before HEAD
# Environment: CUDAL1_BUILD, as in bootstrap.sh (a configured build folder is needed for the compile commands).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
build=${CUDAL1_BUILD:-$root/build}
[ -f "$build/CMakeCache.txt" ] || { echo "tidy: $build is not configured; run tools/bootstrap.sh test first" >&2 && exit 1; }
# Compile commands of each source alone.
torch=$(sed -n 's/^LibTorch_ROOT:[A-Z]*=//p' "$build/CMakeCache.txt")
cmake -S "$root" -B "$build/tidy" -G Ninja -DCUDAL1_UNITY=OFF -DLibTorch_ROOT="$torch" >"$build/tidy-configure.log" 2>&1 ||
  { tail -20 "$build/tidy-configure.log" >&2 && exit 1; }
build=$build/tidy

base=${1:-${CUDAL1_TIDY_BASE:-$(git rev-parse --quiet --verify HEAD~1 || git hash-object -t tree /dev/null)}}
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" HEAD -- '*.cpp' |
  while read -r f; do grep -q "\"file\": \"$root/$f\"" "$build/compile_commands.json" && echo "$f"; done)
echo "tidy: ${#changed[@]} files"
[ ${#changed[@]} -eq 0 ] && exit 0
printf '%s\n' "${changed[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument 2> >(grep -v 'warnings\? generated\|^Suppressed\|^Use ' >&2)
echo "tidy: clean"
