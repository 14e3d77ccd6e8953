# What a long shell script shows of its work: numbered steps with a typical and the taken time, and how far a command
# is whose output goes to a log. On a terminal one line that changes; else a plain line every half minute.
#   plan_steps 4; begin_step "building" "12 minutes"; logged build.log ninja ...; end_step
# All of it goes to standard error.
# shellcheck shell=bash

steps_planned=0 step_number=0 step_began=0 script_began=$SECONDS
seconds_between_lines=30
lines_of_failure=30

plan_steps() { steps_planned=$1; }

bold() { if [ -t 2 ]; then printf '\033[1m%s\033[0m\n' "$*" >&2; else printf '%s\n' "$*" >&2; fi; }

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# $2: how long it usually takes.
begin_step() {
  step_number=$((step_number + 1)) step_began=$SECONDS
  bold "[$step_number/$steps_planned] $1${2:+ (usually $2)}"
}

# $1: what came of it, if there is something to say.
end_step() {
  printf '      done in %s%s\n' "$(clock $((SECONDS - step_began)))" "${1:+: $1}" >&2
}

# A step with nothing to do, in one line.
skip_step() {
  step_number=$((step_number + 1))
  bold "[$step_number/$steps_planned] $1: $2"
}

# How far a command is by the last line of its output. Ninja's lines begin with [finished/all].
progress_text() { # $1: the line, $2: seconds so far
  local line=${1##*$'\r'} taken=$2 left=''
  line=${line//[[:cntrl:]]/}
  if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\  ]]; then
    local finished=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
    if [ "$finished" -ge 10 ] && [ "$taken" -ge 10 ] && [ "$finished" -lt "$all" ]; then
      left=$((taken * (all - finished) / finished))
      if [ $left -ge 90 ]; then left=", about $(((left + 30) / 60)) min left"; else left=", about $left s left"; fi
    fi
    printf '%s of %s (%d%%), %s so far%s' "$finished" "$all" $((100 * finished / all)) "$(clock "$taken")" "$left"
  else
    printf '%s so far%s' "$(clock "$taken")" "${line:+: $line}"
  fi
}

columns_of_terminal() {
  local columns
  columns=$(stty size <&2 2>/dev/null | cut -d ' ' -f 2)
  if [ "${columns:-0}" -ge 20 ]; then echo "$columns"; else echo 80; fi
}

# Writes standard input to the log $1, and shows how far it is.
show_output() {
  local line='' last='' status now began=$SECONDS shown=$SECONDS columns=0 log
  if [ -t 2 ]; then
    columns=$(columns_of_terminal)
    trap 'printf "\n" >&2; exit 130' INT
  fi
  exec {log}>"$1"
  while true; do
    status=0
    IFS= read -r -t 1 line || status=$? # above 128: a second without a line
    if [ $status -eq 0 ] || [ -n "$line" ]; then
      printf '%s\n' "$line" >&"$log"
      last=$line
    fi
    if [ $status -ne 0 ] && [ $status -le 128 ]; then break; fi
    now=$SECONDS
    if [ "$columns" -gt 0 ]; then
      line="      $(progress_text "$last" $((now - began)))"
      printf '\r\033[K%s' "${line:0:$((columns - 1))}" >&2
    elif [ $((now - shown)) -ge $seconds_between_lines ]; then
      printf '      %s\n' "$(progress_text "$last" $((now - began)))" >&2
      shown=$now
    fi
  done
  if [ "$columns" -gt 0 ]; then printf '\r\033[K' >&2; fi
}

# The part of a log that says why: from ninja's first failure on, else the end.
show_failure() { # $1: the log
  local first
  first=$(grep -n -m 1 '^FAILED: ' "$1" | cut -d : -f 1 || true)
  printf '      from %s:\n' "$1" >&2
  if [ -n "$first" ]; then tail -n "+$first" "$1" | head -n $lines_of_failure; else tail -n $lines_of_failure "$1"; fi |
    sed 's/^/      | /' >&2
}

# Runs a command whose output goes to the log $1. Where it fails: its status, after the log's telling lines.
logged() {
  local log=$1 status=0
  shift
  "$@" </dev/null 2>&1 | show_output "$log" || status=$?
  if [ $status -ne 0 ] && [ $status -ne 130 ]; then show_failure "$log"; fi
  return $status
}

time_of_script() { clock $((SECONDS - script_began)); }
