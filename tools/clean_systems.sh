# Trials in clean systems: a bare Debian 12 and a bare Ubuntu 24.04, made with debootstrap. For bundle.sh and wheel.sh,
# which set `build`, `trials` (a folder), `packages_of_trial`, define die, usage, and try_in_tree TREE: what a trial does in one.
# Needs steps.sh. Environment: CUDAL1_DEBIAN_MIRROR, CUDAL1_UBUNTU_MIRROR, CUDAL1_DEBIAN_KEYRING, CUDAL1_UBUNTU_KEYRING.
# shellcheck shell=bash disable=SC2154

declare -A outcome
failed=0

# Of a script that ends in a trial. $1: the script; the rest: its arguments. Sets trial (0 with --no-trial) and
# destination ("" if none is named).
read_trial_arguments() {
  local script=$1 argument
  trial=1 destination=''
  shift
  for argument in "$@"; do
    case "$argument" in
      --no-trial) trial=0 ;;
      -h | --help)
        usage
        exit 0
        ;;
      -*) die 2 "there is no option $argument; see $script --help" ;;
      *) destination=$(realpath -m "$argument") ;;
    esac
  done
  [ $trial -eq 0 ] || check_trial_is_possible "$script"
}

# Before minutes of building.
check_trial_is_possible() { # $1: the script
  local or="; or leave the trial out: $1 --no-trial"
  [ "$(id -u)" -eq 0 ] || die 2 "the trial in clean systems needs root: run this as root$or"
  unshare --mount --pid --fork mount -t tmpfs none /mnt 2>/dev/null ||
    die 2 "the trial in clean systems mounts folders, which is not allowed here (a container without CAP_SYS_ADMIN?)$or"
  command -v debootstrap >/dev/null || die 2 "the trial in clean systems needs debootstrap: apt-get install debootstrap$or"
}

make_tree() { # $1: the folder, $2: suite, $3: mirror, $4: keyring, $5: components of the archive
  local script=()
  # All of Ubuntu's suites have one script; an older debootstrap does not know the newer names.
  [ -e "/usr/share/debootstrap/scripts/$2" ] || script=(/usr/share/debootstrap/scripts/gutsy)
  mkdir -p "$trials/packages"
  logged "$trials/$2.debootstrap.log" debootstrap --variant=minbase --include="$packages_of_trial" \
    --components="$5" --cache-dir="$trials/packages" --keyring="$4" "$2" "$1" "$3" "${script[@]}"
}

# Runs a script as root in namespaces of its own, whose root becomes the tree: not by chroot, after which the kernel
# allows no user namespaces, with which cudal1 confines its processes. $1: the tree, $2: the script. The rest, in pairs:
# a folder or file, and where it is mounted in the tree; to be read only.
run_in_tree() {
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -euc '
    tree=$1 script=$2
    shift 2
    mount --make-rprivate /
    mount --bind "$tree" "$tree"
    mkdir -p "$tree/old"
    while [ $# -ge 2 ]; do
      if [ -d "$1" ]; then mkdir -p "$tree/$2"; else mkdir -p "$(dirname "$tree/$2")" && touch "$tree/$2"; fi
      mount --bind "$1" "$tree/$2"
      mount -o remount,bind,ro "$tree/$2"
      shift 2
    done
    mount --rbind /dev "$tree/dev"
    mount --bind /sys "$tree/sys"
    mount -t proc proc "$tree/proc"
    cd "$tree"
    pivot_root . old
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 bash -euc "umount -l /old; $script"' bash "$@"
}

try_in() { # $1: the system, $2: suite, $3: mirror, $4: keyring, $5: the variable that names it, $6: components
  local tree=$trials/$2 log=$trials/$2.log why
  begin_step "trying it on $1" "$minutes_of_trial"
  rm -rf --one-file-system "$tree"
  if [ ! -f "$4" ]; then
    why="there is no ${4}, with which its packages are checked: install the keyring's package, or name the file in $5"
  elif ! make_tree "$tree" "$2" "$3" "$4" "$6"; then
    why="debootstrap could not make it from $3"
  fi
  if [ -n "${why:-}" ]; then
    outcome[$1]="NOT tried: $why"
  elif logged "$log" try_in_tree "$tree"; then
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
    outcome["Debian 12"]="NOT tried: these programs need glibc $ours or newer, and Debian 12 has 2.36; build them there"
    skip_step "trying it on Debian 12" "${outcome["Debian 12"]}"
    return
  fi
  try_in "Debian 12" bookworm "${CUDAL1_DEBIAN_MIRROR:-http://deb.debian.org/debian}" \
    "${CUDAL1_DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}" CUDAL1_DEBIAN_KEYRING main
}

try_on_ubuntu() {
  try_in "Ubuntu 24.04" noble "${CUDAL1_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}" \
    "${CUDAL1_UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}" CUDAL1_UBUNTU_KEYRING main,universe
}

try_in_clean_systems() {
  mkdir -p "$trials"
  try_on_debian
  try_on_ubuntu
}

show_outcomes() { # $1: 1 if there was a trial
  local system
  for system in "${!outcome[@]}"; do printf '      %s: %s\n' "$system" "${outcome[$system]}" >&2; done
  [ "$1" -eq 1 ] || printf '      not tried in a clean system (--no-trial)\n' >&2
}
