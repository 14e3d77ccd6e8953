#!/usr/bin/env bash
# Sets up cudal1 on a bare Debian 12 or Ubuntu 24.04 machine: installs packages and LibTorch, builds, and then
#   tools/bootstrap.sh demo     search all built-in tasks, print the table, compare four with PyTorch (4 minutes)
#   tools/bootstrap.sh test     build everything and run the tests
#   tools/bootstrap.sh build    only build
#   tools/bootstrap.sh bench    build and run the benchmarks
# Arguments after the first go to the program that is run (cudal1 run, ctest, cudal1-bench). A second run does only
# what changed and needs no network.
#
# Environment:
#   CUDAL1_BUILD   the build folder (default: build in the repository)
#   CUDAL1_TORCH   an existing torch 2.11: its torch folder (.../site-packages/torch) or a python that imports it
#   CUDAL1_JOBS    parallel compile jobs (default: one per core, at most one per 2 GB of memory)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${CUDAL1_BUILD:-$root/build}
# Clones in different folders share what ccache has compiled: its keys have paths relative to each.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
torch_version=2.11.0
# What KernelBench's tasks import beside torch; expecttest is for PyTorch's operator database, which a test uses.
python_wheels=(numpy==2.4.6 einops==0.8.2 expecttest==0.3.0)
# Headers for programs that ask for them: CUDA's, CUB's and libcu++'s, CUTLASS's. They belong to the CUDA of that torch.
header_wheels=(nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 nvidia-cutlass==4.2.0.0)
packages=(g++ cmake ninja-build ccache pkg-config git python3 python3-venv
  libcaf-dev librocksdb-dev libboost1.81-dev libboost-context1.81-dev libboost-json1.81-dev
  libspdlog-dev libfmt-dev libcli11-dev libtomlplusplus-dev libexpected-dev libseccomp-dev libcapstone-dev
  libxxhash-dev libmimalloc-dev libssl-dev openssl ca-certificates zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev clang-format clang-tidy)

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
die() {
  printf 'bootstrap: %s\n' "$*" >&2
  exit 1
}

usage() {
  sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit "${1:-0}"
}

# Ubuntu 24.04 has Boost 1.83 by default; Debian 12 has 1.81 beside its default 1.74.
fit_packages_to_system() {
  # shellcheck disable=SC1091
  local id version
  id=$(. /etc/os-release && echo "${ID:-}")
  version=$(. /etc/os-release && echo "${VERSION_ID:-}")
  if [ "$id" = ubuntu ] && [ "${version%%.*}" -ge 24 ] 2>/dev/null; then
    packages=("${packages[@]/libboost1.81-dev/libboost-dev}")
    packages=("${packages[@]/libboost-context1.81-dev/libboost-context-dev}")
    packages=("${packages[@]/libboost-json1.81-dev/libboost-json-dev}")
  fi
}

install_packages() {
  command -v dpkg-query >/dev/null || die "this is neither Debian nor Ubuntu: install the equivalents of: ${packages[*]}"
  fit_packages_to_system
  local missing=() p
  for p in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing packages: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      die "these packages are missing, and this user is not root and cannot use sudo. Ask an administrator to run:
  apt-get install --no-install-recommends ${missing[*]}"
    fi
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# Prints the folder of the torch that a python imports, if it is the right version.
torch_of_python() {
  "$1" - "$torch_version" <<'PYTHON' 2>/dev/null
import importlib.util, pathlib, re, sys
folder = pathlib.Path(importlib.util.find_spec("torch").origin).parent
version = re.search(r"__version__\s*=\s*['\"](\d+\.\d+)", (folder / "version.py").read_text()).group(1)
if version != ".".join(sys.argv[1].split(".")[:2]):
    sys.exit(1)
print(folder)
PYTHON
}

find_torch() {
  local want=${CUDAL1_TORCH:-} found
  if [ -n "$want" ]; then
    if [ -f "$want/version.py" ]; then
      grep -q "__version__ *= *['\"]${torch_version%.*}" "$want/version.py" ||
        die "CUDAL1_TORCH=$want is not torch ${torch_version%.*}: $(grep __version__ "$want/version.py" | tail -1)"
      torch=$want
    elif found=$(torch_of_python "$want"); then
      torch=$found
    else
      die "CUDAL1_TORCH=$want is neither a torch folder nor a python that imports torch ${torch_version%.*}"
    fi
    return
  fi
  if [ -x "$build/venv/bin/python" ] && found=$(torch_of_python "$build/venv/bin/python"); then
    torch=$found
    install_python_packages
    install_headers
    return
  fi
  say "installing torch $torch_version into $build/venv (4.6 GB; one to three minutes)"
  local python=python3
  [ -x /usr/bin/python3 ] && python=/usr/bin/python3
  "$python" -m venv "$build/venv"
  "$build/venv/bin/pip" install --quiet --disable-pip-version-check "torch==$torch_version" >&2
  torch=$(torch_of_python "$build/venv/bin/python") || die "torch $torch_version did not install into $build/venv"
  install_python_packages
  install_headers
}

# As the headers: only into this script's own environment. Elsewhere an import names the package that it lacks.
install_python_packages() {
  local packages_folder
  packages_folder=$(dirname "$torch")
  if [ -d "$packages_folder/numpy" ] && [ -d "$packages_folder/einops" ] && [ -d "$packages_folder/expecttest" ]; then
    return
  fi
  say "installing numpy, einops and expecttest into $build/venv"
  "$build/venv/bin/pip" install --quiet --disable-pip-version-check "${python_wheels[@]}" >&2 ||
    say "no numpy, no einops: models that import them will be refused (no network?)"
}

# Only into the environment that this script has made. Elsewhere a program that asks for headers is told which wheel is
# missing.
install_headers() {
  local packages_folder
  packages_folder=$(dirname "$torch")
  if [ -f "$packages_folder/nvidia/cu13/include/cccl/cub/cub.cuh" ] &&
    [ -f "$packages_folder/nvidia/cu13/include/crt/mma.h" ] &&
    [ -f "$packages_folder/cutlass_library/source/include/cutlass/cutlass.h" ]; then return; fi
  say "installing the headers of CUDA, CUB and CUTLASS into $build/venv"
  # --no-deps: only the headers are needed.
  "$build/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "${header_wheels[@]}" >&2 ||
    say "could not install the headers (no network?): programs that need them will be refused"
}

jobs() {
  if [ -n "${CUDAL1_JOBS:-}" ]; then
    echo "$CUDAL1_JOBS"
    return
  fi
  local cores memory_gb by_memory
  cores=$(nproc)
  memory_gb=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  by_memory=$((memory_gb / 2 > 0 ? memory_gb / 2 : 1))
  echo $((cores < by_memory ? cores : by_memory))
}

# $1: ON or OFF, whether tests and benchmarks are built too. Once a build folder has them, they stay on.
configure_and_build() {
  mkdir -p "$build"
  find_torch
  local with=$1
  if [ -f "$build/CMakeCache.txt" ] && grep -q '^CUDAL1_TESTS:BOOL=ON' "$build/CMakeCache.txt"; then with=ON; fi
  local stamp="$torch $with $root"
  if [ ! -f "$build/build.ninja" ] || [ "$(cat "$build/.configured" 2>/dev/null)" != "$stamp" ]; then
    say "configuring in $build"
    cmake -S "$root" -B "$build" -G Ninja -DLibTorch_ROOT="$torch" -DCUDAL1_TESTS="$with" -DCUDAL1_BENCHMARKS="$with" >"$build/configure.log" 2>&1 ||
      { tail -30 "$build/configure.log" >&2 && die "configuring failed; the whole log is $build/configure.log"; }
    echo "$stamp" >"$build/.configured"
  fi
  say "building"
  cmake --build "$build" --parallel "$(jobs)" >&2
}

command=${1:-}
[ $# -gt 0 ] && shift
case "$command" in
  demo)
    install_packages
    configure_and_build OFF
    say "searching: every built-in task, on this machine's device"
    "$build/bin/cudal1" run --data "$build/demo" --time 205s "$@"
    [ $# -eq 0 ] || exit 0 # another search than the demo's
    say "four of the tasks beside PyTorch's own process"
    exec "$build/bin/cudal1" baseline --data "$build/demo" --kinds eager \
      --task gated_silu --task linear_gelu --task mse_loss --task softmax
    ;;
  test)
    install_packages
    configure_and_build ON
    say "testing"
    cd "$build" && exec ctest --output-on-failure --parallel "$(nproc)" "$@"
    ;;
  build)
    install_packages
    configure_and_build "${CUDAL1_WITH_TESTS:-OFF}"
    ;;
  bench)
    install_packages
    configure_and_build ON
    exec "$build/bin/cudal1-bench" "$@"
    ;;
  "" | -h | --help | help) usage 0 ;;
  *)
    printf 'bootstrap: there is no command "%s"\n\n' "$command" >&2
    usage 2 >&2
    ;;
esac
