#!/bin/sh
# The command `cudal1` (or `cudal1-node`) of an installed wheel: starts the program of its own name. It is ENV/bin/NAME,
# and the programs are in SITE_PACKAGES/cudal1_programs/bin. It contains no path, so that an environment may be moved.
# Python is not started where LibTorch is in the same SITE_PACKAGES: there the programs find it by themselves.
set -eu

version=2.11 # of torch
self=$(readlink -f -- "$0")
name=${self##*/}
commands=${self%/*}
prefix=${commands%/*}
python=$commands/python3
[ -x "$python" ] || python=python3

die() {
  printf '%s: %s\n' "$name" "$*" >&2
  exit 3
}

# Prints the folder of a package that Python would import, without importing it; nothing if there is none. What lies in
# the current folder is not meant.
folder_of() {
  "$python" -c '
import sys
sys.path[:] = filter(None, sys.path)
import importlib.util
found = importlib.util.find_spec(sys.argv[1])
print(next(iter(found.submodule_search_locations or [""])) if found else "")' "$1" 2>/dev/null || true
}

# A later `pip install --upgrade torch` replaces it. What needs no torch still works.
warn_of_version() { # $1: a folder of torch
  while read -r word _ found; do
    case "$word $found" in
      "__version__ '$version."* | "__version__ \"$version."*) return ;;
      "__version__ "*)
        printf '%s: %s is torch %s, and these programs are for %s: %s -m pip install torch==%s.0\n' "$name" "$1" "$found" \
          "$version" "$python" "$version" >&2
        return
        ;;
    esac
  done <"$1/version.py"
}

# Beside the commands (pip install --target), or below lib. Of several Pythons (pip install --user) the newest one's.
packages=
for folder in "$prefix" "$prefix"/lib*/python3*/site-packages "$prefix"/lib*/python3*/dist-packages; do
  [ -x "$folder/cudal1_programs/bin/$name" ] || continue
  # shellcheck disable=SC3013 # -nt: every shell that is /bin/sh somewhere has it
  if [ -z "$packages" ] || [ "$folder/cudal1_programs" -nt "$packages/cudal1_programs" ]; then packages=$folder; fi
done
if [ -z "$packages" ]; then
  packages=$(folder_of cudal1_programs)
  [ -x "$packages/bin/$name" ] ||
    die "the programs are neither below $prefix nor where $python finds packages; install the wheel again"
  packages=${packages%/*}
fi

# The Pythons that the programs start find no package in a folder of --target by themselves. One of the user's own
# choice may be another version, for which these packages were not made.
if [ "$packages" = "$prefix" ] && [ -z "${CUDAL1_PYTHON:-}" ]; then
  export PYTHONPATH="$packages${PYTHONPATH:+:$PYTHONPATH}"
fi

# An environment may use the torch of another one (venv --system-site-packages). Without any torch the programs that
# need none still work; the others say what is missing.
torch=$packages/torch
if [ ! -e "$torch/lib/libtorch_cpu.so" ]; then
  torch=$(folder_of torch)
  if [ -n "$torch" ]; then
    export LD_LIBRARY_PATH="$torch/lib:${torch%/*}/nvidia/cu13/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  fi
fi
if [ -r "$torch/version.py" ]; then warn_of_version "$torch"; fi

exec "$packages/cudal1_programs/bin/$name" "$@"
