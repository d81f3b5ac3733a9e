# shellcheck shell=bash
# What all scripts share: messages, the environment, stamped steps. Sourced, not run.
# Environment:
#   VENV    folder of the virtual environment (default: .venv in the project); used when it exists
#   PYTHON  the interpreter to make it from (default: python3)

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SCRIPT=$(basename "$0")
VENV=${VENV:-$ROOT/.venv}
[[ $VENV == /* ]] || VENV=$PWD/$VENV
# shellcheck disable=SC2034  # used by the scripts that source this one
TOOLS=$ROOT/fairseq_rope/tools
# shellcheck disable=SC2034
USER_DIR=$ROOT/fairseq_rope
export PYTHONUNBUFFERED=1 PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}
export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}

say() { printf '[%s] %s\n' "${SCRIPT%.sh}" "$*" >&2; }
die() { printf '%s: error: %s\n' "$SCRIPT" "$*" >&2; exit 1; }
usage_error() { printf '%s: error: %s (see %s --help)\n' "$SCRIPT" "$*" "$SCRIPT" >&2; exit 2; }

# The header comment of the calling script is its help.
show_help() { sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;p}}' "$0"; exit 0; }

# need_value OPTION REMAINING: an option that takes a value has one.
need_value() { (($2 >= 2)) || usage_error "$1 needs a value"; }
need_number() { [[ $2 =~ ^(0|[1-9][0-9]*)$ ]] || usage_error "$1 must be a whole number, not '$2'"; }
# need_free_flags FLAG...: flags of fairseq-train that may come from outside
need_free_flags() {
  local flag
  for flag in "$@"; do
    case ${flag%%=*} in
      --seed | --arch | --max-update | --save-dir | --save-interval-updates | --keep-interval-updates | --user-dir)
        usage_error "$flag does not go among the flags of fairseq-train: it has an option of its own, or is set here"
        ;;
    esac
  done
}

use_environment() {
  if [[ -x $VENV/bin/python ]]; then PATH=$VENV/bin:$PATH; export PATH; fi
  local tool
  for tool in python "$@"; do
    command -v "$tool" >/dev/null 2>&1 || die "$tool not found: run scripts/install.sh, or activate an environment with the project installed"
  done
}

# step FOLDER NAME OUTPUT COMMAND...: run COMMAND, which makes FOLDER/OUTPUT, once. A stamp in FOLDER remembers the settings of this step and of all
# before it in the same process (add to them with `setting`); it is skipped while they stay the same, redone when
# they change or the output is gone.
SETTINGS=
setting() { SETTINGS+="$*"$'\n'; }
step() {
  local _stamp=$1/.stamps/$2 _name=$2 _output=$1/$3 # COMMAND is a function and would see other names
  shift 3
  setting "step $_name"
  if [[ -e $_output && -f $_stamp && $(<"$_stamp") == "${SETTINGS%$'\n'}" ]]; then
    say "$_name: done before with the same settings"
    return
  fi
  rm -f "$_stamp"
  say "$_name"
  local _start=$SECONDS
  "$@"
  say "$_name: $((SECONDS - _start)) s"
  mkdir -p "$(dirname "$_stamp")"
  printf '%s' "$SETTINGS" >"$_stamp.tmp"
  mv "$_stamp.tmp" "$_stamp"
}

# logged LOG COMMAND...: run COMMAND with all its output in LOG; on failure say its last error in one line.
logged() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 || log_failure "$log" "$1"
}
log_failure() { die "$2 failed: $(last_error "$1") (log: $1)"; }
last_error() { # LOG: the last line of it that says why
  local reason=''
  [[ ! -f $1 ]] || reason=$(tail -n 400 "$1" | sed 's/^\[rank[0-9]*\]: //' | grep -v ChildFailedError |
    grep -E '^[A-Za-z_.]*(Error|Exception|Exit|Interrupt)\b|: error: |^error: |^[a-zA-Z_.]+Error:|No module named' | tail -n 1 | cut -c 1-300) || true
  echo "${reason:-no reason given}"
}

# load_recipe NAME: the variables of scripts/recipes/NAME.sh; nothing when NAME is empty.
load_recipe() {
  [[ $1 ]] || return 0
  local file=$ROOT/scripts/recipes/$1.sh
  [[ $1 =~ ^[A-Za-z0-9_]+$ && -f $file ]] ||
    usage_error "unknown recipe '$1'; there are: $(cd "$ROOT/scripts/recipes" && printf '%s ' ./*.sh | sed 's|\./||g; s|\.sh||g')"
  # shellcheck source=/dev/null
  source "$file"
}

# check_data RUN DATA: the run was trained on the data, as they are now.
check_data() {
  [[ ! -f $1/settings ]] || grep -qx "data $(sha256sum <"$2/.stamps/binarize" | cut -c 1-64)" "$1/settings" ||
    die "$1 was trained on other data than $2 holds now: give the folder it was trained on"
}
