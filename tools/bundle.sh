#!/usr/bin/env bash
# Makes one packed file of cudal1 for machines that shall not compile it, and tries it in clean systems:
#   tools/bundle.sh [--no-trial] [FILE.tar.xz]    (default: cudal1-VERSION-MACHINE.tar.xz in the build folder)
# It builds (tools/bootstrap.sh build, with its environment variables), installs and packs. The trial makes a bare
# Debian 12 and a bare Ubuntu 24.04 with debootstrap, unpacks the bundle there, sets it up with the torch of this build
# (bin/cudal1-setup), asks `cudal1 doctor`, and searches for some seconds on cpu. It needs root, the right to mount and
# debootstrap. A system that cannot be made here is named with the reason, and left out.
#
# Environment:
#   CUDAL1_DEBIAN_MIRROR, CUDAL1_UBUNTU_MIRROR      where debootstrap takes packages from
#   CUDAL1_DEBIAN_KEYRING, CUDAL1_UBUNTU_KEYRING    what their signatures are checked with
# Exit status: 0 packed, and no trial failed; 1 a step or a trial failed; 2 the command line, or no trial is possible
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/steps.sh
. "$root/tools/steps.sh"
# shellcheck source=tools/clean_systems.sh
. "$root/tools/clean_systems.sh"
build=${CUDAL1_BUILD:-$root/build}
trials=$build/trial
packages_of_trial=g++ minutes_of_trial="two minutes" # the device cpu needs a C++ compiler

die() { # $1: the status
  printf 'bundle: %s\n' "$2" >&2
  exit "$1"
}

usage() { sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

install_and_pack() {
  local name=$1 into
  into=$(mktemp -d "$build/bundle.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$into'" EXIT
  begin_step "installing" "ten seconds"
  logged "$build/install.log" cmake --install "$build" --prefix "$into/$name" || die 1 "the bundle was not installed"
  end_step "$(du -sm "$into/$name" | cut -f 1) MB"
  begin_step "packing ${packed##*/}" "one minute"
  # Without owners, names of users and the order of a folder, so that equal bundles are equal files.
  logged "$build/pack.log" tar -C "$into" --sort=name --owner=0 --group=0 --numeric-owner -I 'xz -T0' -cf "$packed" \
    "$name" || die 1 "the bundle was not packed"
  end_step "$(du -m "$packed" | cut -f 1) MB"
}

try_in_tree() {
  local torch
  torch=$(sed -n 's/^LibTorch_ROOT:[A-Z]*=//p' "$build/CMakeCache.txt")
  mkdir -p "$1/root/bundle"
  tar -C "$1/root/bundle" -xf "$packed" || return # here: a bare system has no xz
  run_in_tree "$1" "
    export PATH=/root/bundle/$name/bin:\$PATH
    grep PRETTY_NAME /etc/os-release
    cudal1-setup /opt/packages/torch
    cudal1 doctor --device cpu
    cudal1 run --device cpu --task gelu_by_hand --evaluations 4 --time 30s
    cudal1 best gelu_by_hand" "${torch%/*}" opt/packages
}

read_trial_arguments tools/bundle.sh "$@"

"$root/tools/bootstrap.sh" build
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
name=cudal1-$version-$(uname -m)
packed=${destination:-$build/$name.tar.xz}
plan_steps $((trial ? 4 : 2))
install_and_pack "$name"
[ $trial -eq 0 ] || try_in_clean_systems
bold "$packed, after $(time_of_script)"
show_outcomes $trial
exit $failed
