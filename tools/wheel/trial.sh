#!/usr/bin/env bash
# What wheel.sh does in a clean system, as a plain user: from nothing to the first table, with the time of each step;
# then the same wheel in a read-only environment, in one that was moved, by --user and --target, beside the client alone;
# and what an uninstallation leaves.
#   trial.sh WHEEL CLIENT     CLIENT: a copy of tools/python_client
set -euo pipefail

wheel=$1 client=$2 began=$SECONDS last=$SECONDS

step() {
  printf '== %s: %d s\n' "$1" $((SECONDS - last))
  last=$SECONDS
}
die() {
  printf 'trial: %s\n' "$*" >&2
  exit 1
}
search() { # the command; the rest: more arguments
  local command=$1
  shift
  "$command" run --task softmax --device cpu "$@" | tee "$HOME/table"
  grep -q '^softmax  *[0-9.]* [mµ]s ' "$HOME/table" || die "$command shows no table"
  # Other programs of this machine may disturb the clock; nothing else may fail.
  grep -qE '(none failed|failed: unmeasurable [0-9]+)\.$' "$HOME/table" || die "evaluations of $command failed"
  "$command" stop --node
}

cd
grep PRETTY_NAME /etc/os-release
python3 --version
mkdir "a folder"
env="a folder/env"
python3 -m venv "$env"
step "venv"
"$env/bin/pip" install --no-cache-dir --progress-bar off "$wheel"
step "pip install"
"$env/bin/cudal1" doctor
step "doctor"
search "$env/bin/cudal1" --time 20s
printf '== from nothing to the first table: %d s\n' $((SECONDS - began))

chmod -R a-w "$env"
search "$env/bin/cudal1" --evaluations 2 --time 20s
step "a read-only environment"
chmod -R u+w "$env"

mv "a folder" "another folder"
env="$HOME/another folder/env"
search "$env/bin/cudal1" --evaluations 3 --time 20s
step "a moved environment"
mkdir own
cat >own/model.py <<'PYTHON'
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1

def get_inputs():
    return [torch.randn(64, 4096)]

def get_init_inputs():
    return []
PYTHON
"$env/bin/cudal1" run own/model.py --device cpu --evaluations 2 --time 20s --data own/data
"$env/bin/cudal1" stop --node --data own/data
step "a model of PyTorch"

# The pip of a moved environment is run by its Python. torch is another environment's here.
pip() { "$env/bin/python3" -m pip --disable-pip-version-check --no-cache-dir "$@"; }
packages=$("$env/bin/python3" -c 'import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))')
export PYTHONPATH=$packages
PYTHONPATH='' pip --python /usr/bin/python3 install --user --break-system-packages --no-deps --no-warn-script-location "$wheel"
search "$HOME/.local/bin/cudal1" --evaluations 4 --time 20s
PYTHONPATH='' pip --python /usr/bin/python3 uninstall --break-system-packages -y cudal1
step "pip install --user"
PYTHONPATH='' pip install --no-deps --target "$HOME/a target" "$wheel"
search "$HOME/a target/bin/cudal1" --evaluations 5 --time 20s
PYTHONPATH="$HOME/a target:$packages" python3 -c 'import cudal1; print(cudal1.__file__)'
step "pip install --target"
unset PYTHONPATH

pip install "$client"
[ ! -e "$env/bin/cudal1" ] || die "the client alone did not replace the wheel"
"$env/bin/python3" -c 'import cudal1'
pip install --no-deps "$wheel"
"$env/bin/cudal1" --version
pip uninstall -y cudal1
left=$(find "$env" "$HOME"/.local/[bl]* -name '*cudal1*' 2>/dev/null || true)
[ -z "$left" ] || die "pip uninstall left $left"
step "the client alone, and uninstalling"
