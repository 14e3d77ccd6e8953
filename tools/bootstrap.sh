#!/usr/bin/env bash
# Sets up cudal1 on a bare Debian 12 or Ubuntu 24.04 machine: installs packages and LibTorch, builds, and then
#   tools/bootstrap.sh demo     search all built-in tasks, print the table, compare four with PyTorch (4 minutes)
#   tools/bootstrap.sh test     build everything and run the tests
#   tools/bootstrap.sh build    only build
#   tools/bootstrap.sh bench    build and run the benchmarks
# Arguments after the first go to the program that is run (cudal1 run, ctest, cudal1-bench); those of `demo` replace
# its own limit and data folder. A second run does only what changed and needs no network. It shows its steps and how
# far they are; what apt, pip, cmake and ninja say is in packages.log, torch.log, python.log, headers.log,
# configure.log and build.log in the build folder.
#
# Environment:
#   CUDAL1_BUILD   the build folder (default: build in the repository)
#   CUDAL1_TORCH   an existing torch 2.11: its torch folder (.../site-packages/torch) or a python that imports it
#   CUDAL1_JOBS    parallel compile jobs (default: one per core, at most one per 2 GB of memory)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/steps.sh
. "$root/tools/steps.sh"
build=${CUDAL1_BUILD:-$root/build}
# Clones in different folders share what ccache has compiled: its keys have paths relative to each.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
torch_version=2.11.0 torch=''
# What KernelBench's tasks import beside torch; expecttest is for PyTorch's operator database, which a test uses.
python_wheels=(numpy==2.4.6 einops==0.8.2 expecttest==0.3.0)
# Headers for programs that ask for them: CUDA's, CUB's and libcu++'s, CUTLASS's. They belong to the CUDA of that torch.
header_wheels=(nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 nvidia-cutlass==4.2.0.0)
packages=(g++ cmake ninja-build ccache pkg-config git python3 python3-venv python3-dev
  libcaf-dev librocksdb-dev libboost1.81-dev libboost-context1.81-dev libboost-json1.81-dev
  libspdlog-dev libfmt-dev libcli11-dev libtomlplusplus-dev libexpected-dev libseccomp-dev libcapstone-dev
  libxxhash-dev libmimalloc-dev libssl-dev openssl ca-certificates zlib1g-dev libpcre2-dev libutf8proc-dev
  libgtest-dev libgmock-dev libbenchmark-dev clang-format clang-tidy)

# Minutes that one core compiles: for the durations that are shown.
core_minutes_of_programs=10 core_minutes_with_tests=18

say() { printf '      %s\n' "$*" >&2; }
die() {
  printf 'bootstrap: %s\n' "$*" >&2
  exit 1
}

usage() {
  sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
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
  if [ ${#missing[@]} -eq 0 ]; then
    skip_step "packages of the system" "all ${#packages[@]} are installed"
    return
  fi
  begin_step "installing ${#missing[@]} packages of the system" "one to three minutes"
  say "${missing[*]}" | fold -s -w 74 >&2
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      die "these packages are missing, and this user is not root and cannot use sudo. Ask an administrator to run:
  apt-get install --no-install-recommends ${missing[*]}"
    fi
  fi
  # A password is asked for here, not behind the progress.
  [ ${#as_root[@]} -eq 0 ] || sudo -v
  logged "$build/packages.log" apt_install "${missing[@]}" || die "the packages were not installed"
  end_step
}

apt_install() {
  "${as_root[@]}" apt-get update -q || return
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
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

# Sets `torch`: the folder that CUDAL1_TORCH names.
use_named_torch() {
  local want=$1 found
  if [ -f "$want/version.py" ]; then
    grep -q "__version__ *= *['\"]${torch_version%.*}" "$want/version.py" ||
      die "CUDAL1_TORCH=$want is not torch ${torch_version%.*}: $(grep __version__ "$want/version.py" | tail -1)"
    torch=$want
  elif found=$(torch_of_python "$want"); then
    torch=$found
  else
    die "CUDAL1_TORCH=$want is neither a torch folder nor a python that imports torch ${torch_version%.*}"
  fi
}

pip_install() { # $1: the log
  local log=$1
  shift
  logged "$build/$log" "$build/venv/bin/pip" install --disable-pip-version-check --progress-bar off "$@"
}

find_torch() {
  if [ -n "${CUDAL1_TORCH:-}" ]; then
    use_named_torch "$CUDAL1_TORCH"
    skip_step "LibTorch" "that of CUDAL1_TORCH"
    return
  fi
  if [ -x "$build/venv/bin/python" ] && torch=$(torch_of_python "$build/venv/bin/python") && has_python_packages; then
    skip_step "LibTorch" "torch $torch_version is in build/venv"
    return
  fi
  begin_step "installing LibTorch (torch $torch_version, 4.6 GB)" "one to three minutes"
  if [ -z "$torch" ]; then
    local python=python3
    [ -x /usr/bin/python3 ] && python=/usr/bin/python3
    "$python" -m venv "$build/venv"
    pip_install torch.log "torch==$torch_version" || die "torch $torch_version was not installed into $build/venv"
    torch=$(torch_of_python "$build/venv/bin/python") || die "torch $torch_version did not install into $build/venv"
  fi
  install_python_packages
  end_step
}

# Only into the environment that this script has made: elsewhere an import names the package that it lacks, and a
# program that asks for headers is told which wheel is missing.
has_numpy_and_einops() {
  local folder=${torch%/*}
  [ -d "$folder/numpy" ] && [ -d "$folder/einops" ] && [ -d "$folder/expecttest" ]
}
has_headers() {
  local folder=${torch%/*}
  [ -f "$folder/nvidia/cu13/include/cccl/cub/cub.cuh" ] && [ -f "$folder/nvidia/cu13/include/crt/mma.h" ] &&
    [ -f "$folder/cutlass_library/source/include/cutlass/cutlass.h" ]
}
has_python_packages() { has_numpy_and_einops && has_headers; }

install_python_packages() {
  if ! has_numpy_and_einops; then
    say "numpy, einops and expecttest"
    pip_install python.log "${python_wheels[@]}" ||
      say "no numpy, no einops: models that import them will be refused (no network?)"
  fi
  if ! has_headers; then
    say "the headers of CUDA, CUB and CUTLASS"
    # --no-deps: only the headers are needed.
    pip_install headers.log --no-deps "${header_wheels[@]}" ||
      say "could not install the headers (no network?): programs that need them will be refused"
  fi
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

# $1: ON or OFF, whether tests and benchmarks are built too. Once a build folder has them, they stay on. The rest: the
# targets, by default all.
configure_and_build() {
  find_torch
  local with=$1 jobs minutes=$core_minutes_of_programs
  if [ -f "$build/CMakeCache.txt" ] && grep -q '^CUDAL1_TESTS:BOOL=ON' "$build/CMakeCache.txt"; then with=ON; fi
  [ "$with" = OFF ] || minutes=$core_minutes_with_tests
  local stamp="$torch $with $root"
  if [ ! -f "$build/build.ninja" ] || [ "$(cat "$build/.configured" 2>/dev/null)" != "$stamp" ]; then
    begin_step "configuring" "ten seconds"
    logged "$build/configure.log" cmake -S "$root" -B "$build" -G Ninja -DLibTorch_ROOT="$torch" \
      -DCUDAL1_TESTS="$with" -DCUDAL1_BENCHMARKS="$with" || die "configuring failed"
    echo "$stamp" >"$build/.configured"
    end_step
  else
    skip_step "configuration" "unchanged"
  fi
  jobs=$(jobs)
  begin_step "building, $jobs at a time" "$(((minutes + jobs - 1) / jobs)) min; less with ccache's help"
  shift
  NINJA_STATUS='[%f/%t] ' logged "$build/build.log" cmake --build "$build" --parallel "$jobs" ${1:+--target "$@"} ||
    die "building failed"
  end_step "the programs are in $build/bin"
}

# The steps of a command: those up to the build, and its own.
begin() { # $1: how many are its own
  plan_steps $((4 + $1))
  mkdir -p "$build"
  install_packages
}

# What a search needs: on a machine without a GPU not the programs for GPUs.
search_targets() {
  if [ ! -e /dev/nvidiactl ]; then echo cudal1 cudal1-node cudal1-worker; fi
}

# Whether one of the options in $1 is among the other arguments, as in `--time 4m` or `--time=4m`.
has_option() {
  local argument options=" $1 "
  shift
  for argument in "$@"; do
    if [[ $options == *" ${argument%%=*} "* ]]; then return 0; fi
  done
  return 1
}

# Every built-in task, on this machine's device. With arguments it is another search, which has the demo's limit and
# data folder unless the arguments have their own.
demo() {
  local own=()
  has_option "--data" "$@" || own+=(--data "$build/demo")
  has_option "--time --evaluations --device-time --resume" "$@" || own+=(--time 205s)
  if [ $# -gt 0 ]; then
    begin_step "cudal1 run $*"
    "$build/bin/cudal1" run "${own[@]}" "$@"
    end_step
    return
  fi
  begin_step "searching all built-in tasks" "three and a half minutes"
  "$build/bin/cudal1" run "${own[@]}"
  end_step
  begin_step "comparing four of the tasks with PyTorch" "half a minute"
  "$build/bin/cudal1" baseline --data "$build/demo" --kinds eager \
    --task gated_silu --task linear_gelu --task mse_loss --task softmax
  end_step
}

run_tests() {
  local how=()
  if [ -t 1 ]; then how=(--progress); fi
  begin_step "testing" "half an hour on two cores" # ctest's own lines are the result
  (cd "$build" && ctest --output-on-failure --parallel "$(nproc)" "${how[@]}" "$@")
  end_step
}

main() {
  local command=${1:-}
  [ $# -eq 0 ] || shift
  case "$command" in
    demo)
      begin $(($# > 0 ? 1 : 2))
      # shellcheck disable=SC2046
      configure_and_build OFF $(search_targets)
      demo "$@"
      ;;
    test)
      begin 1
      configure_and_build ON
      run_tests "$@"
      ;;
    build)
      begin 0
      configure_and_build "${CUDAL1_WITH_TESTS:-OFF}"
      ;;
    bench)
      begin 1
      configure_and_build ON
      begin_step "measuring" "some minutes"
      "$build/bin/cudal1-bench" "$@"
      end_step
      ;;
    "" | -h | --help | help) usage 0 ;;
    *)
      printf 'bootstrap: there is no command "%s"\n\n' "$command" >&2
      usage 2 >&2
      ;;
  esac
  bold "$command: done in $(time_of_script)"
  local next="export PATH=$build/bin:\$PATH"
  case "$command" in
    demo)
      has_option --data "$@" || next="$next CUDAL1_DATA=$build/demo"
      say "next: $next"
      say "      cudal1 best; cudal1 doctor"
      ;;
    build) say "next: $next; cudal1 doctor" ;;
  esac
}

# Tests read the functions alone.
if [ "${BASH_SOURCE[0]}" = "$0" ]; then main "$@"; fi
