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
build=${CUDAL1_BUILD:-$root/build}
trials=$build/trial
declare -A outcome

die() { # $1: the status
  printf 'bundle: %s\n' "$2" >&2
  exit "$1"
}

usage() { sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# Before minutes of building.
check_trial_is_possible() {
  local or="; or leave the trial out: tools/bundle.sh --no-trial"
  [ "$(id -u)" -eq 0 ] || die 2 "the trial in clean systems needs root: run this as root$or"
  unshare --mount --pid --fork mount -t tmpfs none /mnt 2>/dev/null ||
    die 2 "the trial in clean systems mounts folders, which is not allowed here (a container without CAP_SYS_ADMIN?)$or"
  command -v debootstrap >/dev/null || die 2 "the trial in clean systems needs debootstrap: apt-get install debootstrap$or"
}

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

# A bare system with a C++ compiler, which the device cpu needs.
make_tree() { # $1: the folder, $2: suite, $3: mirror, $4: keyring
  local script=()
  # All of Ubuntu's suites have one script; an older debootstrap does not know the newer names.
  [ -e "/usr/share/debootstrap/scripts/$2" ] || script=(/usr/share/debootstrap/scripts/gutsy)
  mkdir -p "$trials/packages"
  logged "$trials/$2.debootstrap.log" debootstrap --variant=minbase --include=g++ --cache-dir="$trials/packages" \
    --keyring="$4" "$2" "$1" "$3" "${script[@]}"
}

# Runs in namespaces of its own, whose root becomes the tree: not by chroot, after which the kernel allows no user
# namespaces, with which cudal1 confines its processes. $1: the tree, $2: the bundle, $3: its name, $4: site-packages.
enter_and_try() {
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -euc '
    mount --make-rprivate /
    mount --bind "$1" "$1"
    mkdir -p "$1/opt/packages" "$1/old" "$1/root/bundle"
    mount --bind "$4" "$1/opt/packages"
    mount -o remount,bind,ro "$1/opt/packages"
    mount --rbind /dev "$1/dev"
    mount --bind /sys "$1/sys"
    mount -t proc proc "$1/proc"
    tar -C "$1/root/bundle" -xf "$2"
    cd "$1"
    pivot_root . old
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 bash -euc "
      umount -l /old
      export PATH=/root/bundle/$0/bin:\$PATH
      grep PRETTY_NAME /etc/os-release
      cudal1-setup /opt/packages/torch
      cudal1 doctor --device cpu
      cudal1 run --device cpu --task gelu_by_hand --evaluations 4 --time 30s
      cudal1 best gelu_by_hand
    " "$3"' "$3" "$1" "$2" "$3" "$4"
}

try_in() { # $1: the system, $2: suite, $3: mirror, $4: keyring, $5: the variable that names it
  local tree=$trials/$2 log=$trials/$2.log torch why
  torch=$(sed -n 's/^LibTorch_ROOT:[A-Z]*=//p' "$build/CMakeCache.txt")
  begin_step "trying it on $1" "two minutes"
  rm -rf --one-file-system "$tree"
  if [ ! -f "$4" ]; then
    why="there is no ${4}, with which its packages are checked: install the keyring's package, or name the file in $5"
  elif ! make_tree "$tree" "$2" "$3" "$4"; then
    why="debootstrap could not make it from $3"
  fi
  if [ -n "${why:-}" ]; then
    outcome[$1]="NOT tried: $why"
  elif logged "$log" enter_and_try "$tree" "$packed" "$name" "${torch%/*}"; then
    outcome[$1]="works"
  else
    outcome[$1]="FAILED, see $log"
    failed=1
  fi
  rm -rf --one-file-system "$tree"
  end_step "${outcome[$1]}"
}

# A program runs with the glibc that it was linked with, and newer ones.
try_on_debian() {
  local ours
  ours=$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)
  if [ "$(printf '2.36\n%s\n' "$ours" | sort -V | tail -n 1)" != 2.36 ]; then
    outcome["Debian 12"]="NOT tried: this bundle needs glibc $ours or newer, and Debian 12 has 2.36; build it there"
    skip_step "trying it on Debian 12" "${outcome["Debian 12"]}"
    return
  fi
  try_in "Debian 12" bookworm "${CUDAL1_DEBIAN_MIRROR:-http://deb.debian.org/debian}" \
    "${CUDAL1_DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}" CUDAL1_DEBIAN_KEYRING
}

try_on_ubuntu() {
  try_in "Ubuntu 24.04" noble "${CUDAL1_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}" \
    "${CUDAL1_UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}" CUDAL1_UBUNTU_KEYRING
}

trial=1 packed='' failed=0
for argument in "$@"; do
  case "$argument" in
    --no-trial) trial=0 ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*) die 2 "there is no option $argument; see tools/bundle.sh --help" ;;
    *) packed=$(realpath -m "$argument") ;;
  esac
done
[ $trial -eq 0 ] || check_trial_is_possible

"$root/tools/bootstrap.sh" build
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
name=cudal1-$version-$(uname -m)
packed=${packed:-$build/$name.tar.xz}
plan_steps $((trial ? 4 : 2))
install_and_pack "$name"
if [ $trial -eq 1 ]; then
  mkdir -p "$trials"
  try_on_debian
  try_on_ubuntu
fi
bold "$packed, after $(time_of_script)"
for system in "${!outcome[@]}"; do printf '      %s: %s\n' "$system" "${outcome[$system]}" >&2; done
[ $trial -eq 1 ] || printf '      not tried in a clean system (--no-trial)\n' >&2
exit $failed
