#!/usr/bin/env bash
# Execute every notebook on a machine with a GPU and bring back what came of it.
#   ci/gpu.sh [PROFILE [DIRECTORY]] [--plan] [--minutes M]
# PROFILE is gpu (default: the printed networks, an afternoon on one modern card), paper (the printed protocol), smoke, or
# cpu (drawn from committed records).
# --plan lists what would run, what is recorded, GPU-hours, data sets and disk, and starts nothing; it needs no GPU.
# --minutes M stops well before M minutes have passed: no further run starts, those under way keep a checkpoint, and the
# exit code is 3. Started again, the job resumes: a run that was recorded is not run again.
# DIRECTORY (default _build/gpu) then holds html/ (the book), executed/ (every notebook and its verdicts) and records/ (one
# file a finished run, for `lae records add`).
set -euo pipefail
cd "$(dirname "$0")/.."
refuse() { echo "ci/gpu.sh: $1" >&2 && exit 2; }
words=() plan="" minutes=""
while [ $# -gt 0 ]; do
  case $1 in
  --plan) plan=yes ;;
  --minutes)
    [ $# -gt 1 ] || refuse "--minutes needs a number"
    minutes=$2 && shift
    [[ $minutes =~ ^[1-9][0-9]*$ ]] || refuse "--minutes = '$minutes' is invalid; expected a whole number of at least 1"
    ;;
  -*) refuse "$1 is invalid; expected --plan or --minutes M" ;;
  *) words+=("$1") ;;
  esac
  shift
done
[ ${#words[@]} -le 2 ] || refuse "'${words[2]}' is invalid; expected at most PROFILE and DIRECTORY"
profile=${words[0]:-gpu}
[[ $profile =~ ^(gpu|paper|smoke|cpu)$ ]] || refuse "PROFILE = '$profile' is invalid; expected gpu, paper, smoke or cpu"
output=${words[1]:-_build/gpu}
export LAE_RUNS=${LAE_RUNS:-runs}
export LAE_WHERE=${LAE_WHERE-local(per_gpu=2)}
export LAE_EXECUTION=${LAE_EXECUTION-tf32,search}

make env
if [ -n "$plan" ]; then exec .venv/bin/lae book --profile "$profile" --plan; fi
.venv/bin/python ci/require_cuda.py
# The fused kernel first, before anything rests on it.
kernel="pytest tests/pooling/test_cuda.py"
.venv/bin/python -m $kernel || { echo "the kernels fail on this card; repeat it: .venv/bin/python -m $kernel -x" >&2; exit 1; }
.venv/bin/lae data --for "$profile"
.venv/bin/lae doctor

# Records are worth keeping whatever becomes of the book.
collect() {
  mkdir -p "$output/records" "$output/executed"
  if [ -d "$LAE_RUNS" ]; then (cd "$LAE_RUNS" && find . -name record.json -o -name store.json) | while read -r file; do
    mkdir -p "$output/records/$(dirname "$file")" && cp "$LAE_RUNS/$file" "$output/records/$file"
  done; fi
  if [ -d _build/executed ]; then cp -R _build/executed/. "$output/executed/"; fi
}
trap collect EXIT
limit=()
if [ -n "$minutes" ]; then limit=(--minutes "$((minutes - SECONDS / 60 > 1 ? minutes - SECONDS / 60 : 1))"); fi
.venv/bin/lae book --profile "$profile" --output "$output" "${limit[@]}"
