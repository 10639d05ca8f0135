#!/usr/bin/env bash
# Make a folder of notebooks, as `lae book --elsewhere` writes it, the branch that Colab and Binder open.
#   ci/publish_notebooks.sh [FOLDER [REMOTE]]      (default _build/elsewhere, to origin)
# The branch holds this one commit and no history: every publication replaces it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-_build/elsewhere}
remote=${2:-origin}
branch=notebooks # BRANCH in lae_core/book/elsewhere.py
if [ ! -f "$folder/requirements.txt" ]; then
  echo "ci/publish_notebooks.sh: $folder is invalid; expected a folder that lae book --elsewhere has written" >&2
  exit 2
fi
index=$(mktemp -d)
trap 'rm -rf "$index"' EXIT
export GIT_INDEX_FILE=$index/index # the checkout's own index stays as it is
export GIT_AUTHOR_NAME="${GIT_AUTHOR_NAME:-publish the book}" GIT_AUTHOR_EMAIL="${GIT_AUTHOR_EMAIL:-book@localhost}"
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
git --work-tree="$folder" add --all --force .
commit=$(git commit-tree "$(git write-tree)" -m "Notebooks executed at $(git rev-parse HEAD)")
git push --force "$remote" "$commit:refs/heads/$branch"
