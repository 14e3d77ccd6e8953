#!/usr/bin/env bash
# An export for KernelBench that is interrupted, and goes on: what is there after Ctrl-C, and what the second call does
# again. To be run by hand on the machine of a search, with its data folder.
#
#   tests/gpu/check_resumed_export.sh BIN DATA FOLDER [SECONDS [EXPORT OPTIONS]]
#
# BIN has cudal1, DATA the search, FOLDER is new. The first call gets Ctrl-C after SECONDS (60). Exits with 0 if files
# were there then, the second call took their checks from the first, and the export is complete.
set -euo pipefail
bin=$(cd "$1" && pwd)
data=$2
folder=$3
seconds=${4:-60}
command=("$bin/cudal1" export "$folder" --format kernelbench --data "$data" "${@:5}")
files() {
  find "$folder" -name '*_kernel.py' | wc -l
}

begin=$SECONDS
"${command[@]}" 2>"$folder.first.log" &
sleep "$seconds"
kill -TERM $!  # as Ctrl-C, which what a script starts in the background ignores
code=0
wait $! || code=$?
before=$(files)
echo "interrupted after $((SECONDS - begin)) s: exit code $code, $before files"
[ "$code" = 130 ] && [ "$before" -gt 0 ] || { echo "there should be files, and exit code 130" >&2; exit 1; }

begin=$SECONDS
"${command[@]}" 2>"$folder.second.log"
known=$(grep -o '([0-9]* known before)' "$folder.second.log" | tail -1)
echo "the second call took $((SECONDS - begin)) s: $(files) files $known"
[ -n "$known" ] && grep -q '"complete": true' "$folder/index.json"
