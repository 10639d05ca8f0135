#!/usr/bin/env bash
# Execute every notebook on a machine with a GPU and bring back what came of it.
#   ci/gpu.sh PROFILE [DIRECTORY [DATA-SET ...]]
# PROFILE is paper (the printed protocol) or a reduced one such as smoke. The data sets are fetched first; smoke needs none.
# DIRECTORY (default _build/gpu) then holds html/ (the book), executed/ (every notebook and its verdicts) and records/ (one
# file a finished run, to be merged into a store).
# A run that was recorded before is not run again, so an interrupted job is resumed by starting it again.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${1:?give a profile: paper, or a reduced one such as smoke}
output=${2:-_build/gpu}
data=("${@:3}")
export LAE_RUNS=${LAE_RUNS:-runs}

make env
.venv/bin/python ci/require_cuda.py
.venv/bin/python -m pytest tests/pooling/test_cuda.py # the fused kernel, before anything rests on it
if [ ${#data[@]} -gt 0 ]; then .venv/bin/lae data "${data[@]}"; fi
.venv/bin/lae doctor

# Records are worth keeping whatever becomes of the book.
collect() {
  mkdir -p "$output/records" "$output/executed"
  if [ -d "$LAE_RUNS" ]; then cp -R "$LAE_RUNS/." "$output/records/"; fi
  if [ -d _build/executed ]; then cp -R _build/executed/. "$output/executed/"; fi
}
trap collect EXIT
.venv/bin/lae book --profile "$profile" --output "$output"
