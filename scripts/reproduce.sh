#!/usr/bin/env bash
# Runs a recipe, from one system to a sweep of architectures, variants and seeds: prepare, then for each of them train,
# average and score; ends in a table and the report (report.html, report.md), which is made again whenever a run ends.
# What was finished with the same settings is skipped, here or on another machine (its file in --results counts), and
# what was killed goes on from its last checkpoint: call it again. When one training fails the others go on.
#
# Usage: scripts/reproduce.sh RECIPE [options] [-- fairseq-train flags]
#   RECIPE             a file of scripts/recipes without .sh: demo, multi30k, multi30k_cpu (an eighth of its budget), mix
#                      (low resource), wmt14_en_de, wmt14_en_de_shaw (the setting of Shaw et al. 2018), wmt14_en_de_big
#                      (the schedule of Vaswani et al. 2017 for big)
#   --data FOLDER      folder with the recipe's raw text (default: data/RECIPE in the project, if it is there; WMT14 is
#                      downloaded without it)
#   --mirror URL_OR_FOLDER, --news-commentary N     as in scripts/download.sh
#   --archs "A B"      architectures (default: the recipe's); "*_multi30k" stands for all families at this size
#   --variant "NAME ARCH FLAGS"   also ARCH with these fairseq-train flags, under this name; any number of times
#   --seeds "1 2"      seeds (default: 1); all systems have the first one before any has the second
#   --jobs N           runs at a time (default: 1), each with its share of the cores and on one GPU; their output goes to
#                      files. A small model leaves most of a large GPU idle: 4 or more then
#   --out FOLDER       gets data/, ARCH/seedN/, results/ and report/ (default: runs/RECIPE in the project)
#   --results FOLDER   gets one small file for each run; those that are there count as finished (default: OUT/results)
#   --report FOLDER    gets the report about all of them (default: OUT/report)
#   --max-update N, --save-every N, --device-tokens N, --processes N     as in scripts/train.sh
#   --baseline ARCH    what the report compares with (default: sinusoidal positions)
#
# Example: scripts/reproduce.sh multi30k --data ~/multi30k --archs "roformer_multi30k transformer_sinusoidal_multi30k"
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[[ ${1:-} != --help && ${1:-} != -h ]] || show_help
[[ ${1:--} != -* ]] || usage_error "the recipe is needed"
recipe=$1
shift
raw='' archs='' seeds=1 out='' results='' report='' jobs=1 train_options=() download_options=() baseline='' variants=() max_update=''
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --data) need_value "$1" $#; raw=$2; shift 2 ;;
    --archs | --seeds | --out | --results | --report) need_value "$1" $#; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
    --baseline) need_value "$1" $#; baseline=$2; shift 2 ;;
    --variant) need_value "$1" $#; variants+=("$2"); shift 2 ;;
    --mirror | --news-commentary) need_value "$1" $#; download_options+=("$1" "$2"); shift 2 ;;
    --jobs) need_value "$1" $#; need_number "$1" "$2"; jobs=$2; shift 2 ;;
    --max-update | --save-every | --device-tokens | --processes)
      need_value "$1" $#
      need_number "$1" "$2"
      train_options+=("$1" "$2")
      [[ $1 != --max-update ]] || max_update=$2
      shift 2
      ;;
    --) shift; break ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
flags=("$@")
need_free_flags "$@"
[[ ${NODES:-1} == 1 ]] ||
  die "NODES=$NODES: several machines train with scripts/train.sh, one run at a time; unset it to prepare, score and report here"
((jobs > 0)) || usage_error "--jobs must be at least 1"
DOWNLOAD=no SAME_DATA_AS='' AVERAGE_LAST=5 JOIN_TEST=() MAX_UPDATE=100000
load_recipe "$recipe"
: "${out:=$ROOT/runs/${SAME_DATA_AS:-$recipe}}" "${max_update:=$MAX_UPDATE}"
: "${results:=$out/results}" "${report:=$out/report}"
runs=$out
[[ ! $SAME_DATA_AS ]] || runs=$out/${recipe#"${SAME_DATA_AS}_"} # beside those of the recipe whose data it shares
read -ra archs <<<"${archs:-${DEFAULT_ARCHS[*]}}"
read -ra seeds <<<"$seeds"
((${#archs[@]} && ${#seeds[@]})) || usage_error "--archs and --seeds must not be empty"
for seed in "${seeds[@]}"; do need_number --seeds "$seed"; done
need_once() { # OPTION WORD...: two runs of one name would be in one folder
  local twice
  twice=$(printf '%s\n' "${@:2}" | sort | uniq -d | head -n 1)
  [[ ! $twice ]] || usage_error "$1 names '$twice' twice: name it once"
}
need_once --seeds "${seeds[@]}"
[[ $baseline != *[^A-Za-z0-9_]* ]] || usage_error "--baseline must be one architecture, not '$baseline'"
use_environment fairseq-train
known=$(python -m fairseq_rope --check-arch "${archs[@]}") || exit 1
read -ra archs <<<"$known"
systems=("${archs[@]}") names=() # each is: ARCH [VARIANT FLAGS...]
for variant in ${variants[@]+"${variants[@]}"}; do
  read -r name arch rest <<<"$variant"
  [[ $name =~ ^[A-Za-z0-9_.]+$ && $arch =~ ^[A-Za-z0-9_]+$ && $rest == --* ]] ||
    usage_error "--variant is \"NAME ARCH FLAGS\", as in \"half roformer_base --rope-layout half\", not '$variant'"
  [[ $rest != *[\'\"\\]* ]] ||
    usage_error "--variant splits its flags at spaces and knows no quotes: write --flag=value without spaces, not '$rest'"
  read -ra words <<<"$rest"
  need_free_flags "${words[@]}"
  names+=("$name $arch")
  systems+=("$arch $name $rest")
done
need_once --variant ${names[@]+"${names[@]}"}
[[ ! ${names[*]:-} && ! $baseline ]] ||
  python -m fairseq_rope --check-arch "${systems[@]%% *}" ${baseline:+"$baseline"} >/dev/null || exit 1

if [[ ! $raw && $DOWNLOAD == yes ]]; then
  raw=$out/raw
  "$ROOT/scripts/download.sh" --out "$raw" ${download_options[@]+"${download_options[@]}"}
else
  ((${#download_options[@]} == 0)) || usage_error "${download_options[0]} is for recipes that download, without --data"
  : "${raw:=$ROOT/data/${SAME_DATA_AS:-$recipe}}"
  [[ -d $raw ]] || die "$raw not found: give the folder with the raw text of ${SAME_DATA_AS:-$recipe} as --data FOLDER"
fi
exec {lock}<"$raw"
flock "$lock" 2>/dev/null || true # two sweeps prepare one after the other; some file systems know no locks
tests=() subsets=()
# shellcheck disable=SC2153  # TESTS is the recipe's
for i in "${!TESTS[@]}"; do
  tests+=(--test "$raw/${TESTS[i]}")
  subsets+=("test${i#0}=${TESTS[i]}")
done
for count in ${JOIN_TEST[@]+"${JOIN_TEST[@]}"}; do # of the first test set, so that the same text comes in longer sentences
  joined=${TESTS[0]}_x$count
  mkdir -p "$out/joined"
  python "$TOOLS/corpus.py" join "$raw/${TESTS[0]}" "$out/joined/$joined" --source en --target de \
    --sentences "$count" >/dev/null || exit 1
  subsets+=("test${#subsets[@]}=$joined")
  tests+=(--test "$out/joined/$joined")
done
"$ROOT/scripts/prepare.sh" --train "$raw/$TRAIN" --valid "$raw/$VALID" "${tests[@]}" --out "$out/data" "${PREPARE_FLAGS[@]}"
exec {lock}<&-
subsets+=("valid=$VALID") # what decisions are made by

# choose SYSTEM SEED: what a run is called, where it is, and how it is trained
choose() {
  local words
  read -ra words <<<"$1"
  arch=${words[0]} variant=${words[1]:-} seed=$2
  run=$runs/$arch${variant:+-$variant}/seed$seed file=$results/$recipe-$arch${variant:+-$variant}-seed$seed.json
  training=(--data "$out/data" --arch "$arch" --recipe "$recipe" --seed "$seed" --out "$run"
    ${train_options[@]+"${train_options[@]}"} -- ${flags[@]+"${flags[@]}"} "${words[@]:2}")
}
collect() { # FLAGS...: the run's result file
  python "$TOOLS/results.py" --run "$run" --data "$out/data" --recipe "$recipe" --subsets "${subsets[*]}" --out "$file" "$@" \
    ${variant:+"variant=$variant"} >/dev/null
}
finished() { # status 3: the file is of a finished run with other settings
  [[ -f $file ]] && python "$TOOLS/sweep.py" finished "$file" --subsets "${subsets[*]}" --max-update "$max_update" \
    --settings "$("$ROOT/scripts/train.sh" --print-settings "${training[@]}")"
}
make_report() { # one at a time, if another sweep has the same results
  {
    flock 9 2>/dev/null || true
    "$ROOT/scripts/report.sh" --results "$results" --out "$report" ${baseline:+--baseline "$baseline"} --about "$recipe" \
      --archs "${archs[*]}" --seeds "${seeds[*]}"
  } 9<"$results/."
}
one_run() { # trained, averaged, scored, and its result file
  local entry state=0 old
  [[ ! ${gpus[*]} ]] || export CUDA_VISIBLE_DEVICES=${gpus[slot % ${#gpus[@]}]}
  say "$arch${variant:+ ($variant)}, seed $seed: $run"
  "$ROOT/scripts/train.sh" "${training[@]}" &&
    "$ROOT/scripts/average.sh" --run "$run" --data "$out/data" --last "$AVERAGE_LAST" || return 1
  for entry in "${subsets[@]}"; do
    "$ROOT/scripts/score.sh" --run "$run" --data "$out/data" --subset "${entry%%=*}" \
      --name "$arch${variant:+ ($variant)} seed $seed" >/dev/null || return 1
  done
  LOGLEVEL=WARNING python -m fairseq_rope.tools.position_summary "$run" >/dev/null || return 1
  finished || state=$?
  if ((state == 3)); then # as train.sh does with such a run
    old=$file.old-$(date +%Y%m%d-%H%M%S)
    say "$file is of a run with other settings: it moves to $old"
    mv "$file" "$old"
  fi
  collect
}

gpus=()
export RUNS_AT_A_TIME=$jobs
if ((jobs > 1)); then
  cores=$(nproc)
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > jobs ? cores / jobs : 1))}
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  [[ ${CUDA_VISIBLE_DEVICES+set} ]] || read -ra gpus <<<"$(python -c 'import torch; print(*range(torch.cuda.device_count()))')"
fi
pids=() running=() # of each place: its process group, and the run in it
exec 3>&2
start() { # in the place `slot`, in a process group of its own, so that it can be ended as a whole
  local log='' name="$arch${variant:+ ($variant)}, seed $seed" to=3
  if ((jobs > 1)); then
    log=$runs/logs/$arch${variant:+-$variant}-seed$seed.log
    mkdir -p "$runs/logs"
    exec {to}>"$log"
    say "$name: begins (log: $log)"
  fi
  set -m
  {
    if one_run; then
      say "$name: finished${log:+, $(python "$TOOLS/sweep.py" summary "$file")}" 2>&3
    else
      reason=$(last_error "${log:-$run/train.log}")
      [[ $log || ! -f $run/.stamps/train ]] || reason='trained, but not averaged or not scored'
      collect --unfinished "$reason" 2>/dev/null || true
      say "$name: not finished${log:+ (log: $log)}" 2>&3
    fi
  } >&"$to" 2>&1 </dev/null &
  set +m
  pids[slot]=$! running[slot]="$system|$seed"
  [[ ! $log ]] || exec {to}>&-
}
free_place() { # sets `slot`
  while :; do
    for ((slot = 0; slot < jobs; slot++)); do
      [[ ${pids[slot]:-} ]] && kill -0 "${pids[slot]}" 2>/dev/null || return 0
    done
    wait -n || true
    ended=yes
  done
}
stop() { # SIGNAL EXIT: what runs is ended and listed as cut
  trap '' HUP INT TERM
  local slot
  for slot in "${!pids[@]}"; do kill -TERM -- "-${pids[slot]}" 2>/dev/null || unset "running[slot]"; done
  wait || true
  for slot in "${!running[@]}"; do
    choose "${running[slot]%|*}" "${running[slot]##*|}"
    collect --unfinished "ended by a signal ($1)" 2>/dev/null || true
  done
  make_report >/dev/null 2>&1 || true
  say "ended by a signal ($1): call again to go on"
  exit "$2"
}
trap 'stop INT 130' INT
trap 'stop TERM 143' TERM
trap 'stop HUP 129' HUP # the runs are in groups of their own, which a terminal that closes does not reach
mkdir -p "$results"
for seed in "${seeds[@]}"; do
  for system in "${systems[@]}"; do
    choose "$system" "$seed"
    if finished; then
      say "$arch${variant:+ ($variant)}, seed $seed: finished before ($file)"
      continue
    fi
    ended=no
    free_place
    start
    [[ $ended == no ]] || make_report >/dev/null || true
  done
done
while [[ $(jobs -rp) ]]; do
  wait -n || true
  [[ ! $(jobs -rp) ]] || make_report >/dev/null || true
done

files=() failed=()
for system in "${systems[@]}"; do
  for seed in "${seeds[@]}"; do
    choose "$system" "$seed"
    if finished; then files+=("$file"); else failed+=("$arch${variant:+ ($variant)} seed $seed"); fi
  done
done
((${#files[@]})) || { make_report >/dev/null || true; die "no run succeeded: ${failed[*]}"; }
echo
echo "Recipe $recipe"
table=$runs/table.txt
mkdir -p "$runs"
python "$TOOLS/sweep.py" table "${files[@]}" | tee "$table.$$"
mv "$table.$$" "$table"
echo
make_report # all recipes that share the data are in one report
((${#failed[@]} == 0)) || die "not finished: $(printf '%s; ' "${failed[@]}")see above; call again to go on"
