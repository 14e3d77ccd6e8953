#!/usr/bin/env bash
# Makes a wheel of cudal1 (programs, their libraries, scripts, the client in Python) and tries it in clean systems:
#   tools/wheel.sh [--no-trial] [DIR]     (default: the build folder)
# It builds (tools/bootstrap.sh build, with its environment variables) and packs what `cmake --install` writes. The
# trial makes a bare Debian 12 and a bare Ubuntu 24.04 with debootstrap and is a plain user there, who installs the wheel
# with its torch from PyPI (3 GB each), asks `cudal1 doctor` and searches (tools/wheel/trial.sh); SUITE.log in
# build/trial has the time of each step. It needs root, the right to mount and debootstrap. A system that cannot
# be made here is named with the reason, and left out.
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
# The device cpu needs a C++ compiler; certificates are those with which PyPI is reached.
packages_of_trial=python3-venv,g++,ca-certificates minutes_of_trial="ten minutes, most of them for torch"
certificates=/etc/ssl/certs/ca-certificates.crt

die() { # $1: the status
  printf 'wheel: %s\n' "$2" >&2
  exit "$1"
}

usage() { sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

pack() {
  begin_step "packing the wheel" "half a minute"
  logged "$build/wheel.log" python3 "$root/tools/wheel/make_wheel.py" --build "$build" --out "$out" ||
    die 1 "the wheel was not made"
  wheel=$(tail -n 1 "$build/wheel.log")
  end_step "$(du -m "$wheel" | cut -f 1) MB"
}

try_in_tree() {
  local name=${wheel##*/}
  cp -r "$root/tools/python_client" "$wheel" "$root/tools/wheel/trial.sh" "$1/opt/" || return
  run_in_tree "$1" "
    useradd --create-home --shell /bin/bash someone
    chown -R someone /opt/python_client
    exec setpriv --reuid=someone --regid=someone --init-groups env HOME=/home/someone PIP_CERT=$certificates \
      bash /opt/trial.sh /opt/$name /opt/python_client" /etc/resolv.conf etc/resolv.conf "$certificates" "$certificates"
}

read_trial_arguments tools/wheel.sh "$@"
out=${destination:-$build}

"$root/tools/bootstrap.sh" build
plan_steps $((trial ? 3 : 1))
pack
[ $trial -eq 0 ] || try_in_clean_systems
bold "$wheel, after $(time_of_script)"
show_outcomes $trial
exit $failed
