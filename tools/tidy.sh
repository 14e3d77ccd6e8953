#!/usr/bin/env bash
# clang-tidy on the sources that changed since a commit, in parallel; any finding fails.
#   tools/tidy.sh [BASE]     BASE: default, the last commit that is at least four hours older than HEAD
# Environment: CUDAL1_BUILD, as in bootstrap.sh (a configured build folder is needed for the compile commands).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
build=${CUDAL1_BUILD:-$root/build}
[ -f "$build/compile_commands.json" ] || { echo "tidy: $build holds no compile_commands.json; run tools/bootstrap.sh test first" >&2 && exit 1; }

empty_tree=$(git hash-object -t tree /dev/null)
base=${1:-$(git rev-list -1 --before="$(($(git log -1 --format=%ct) - 4 * 3600))" HEAD)}
base=${base:-$empty_tree}
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" HEAD -- '*.cpp' |
  while read -r f; do grep -q "\"file\": \"$root/$f\"" "$build/compile_commands.json" && echo "$f"; done)
echo "tidy: ${#changed[@]} files"
[ ${#changed[@]} -eq 0 ] && exit 0
printf '%s\n' "${changed[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option 2> >(grep -v 'warnings\? generated\|^Suppressed\|^Use ' >&2)
echo "tidy: clean"
