#!/usr/bin/env bash
# Build the book as it is published and lay it out for a web server. Where the address of a repository is set
# (LAE_REPOSITORY, or by GitHub), the notebooks that Colab and Binder open are left in _build/elsewhere.
#   ci/pages.sh [DIRECTORY]      (default _build/pages)
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-_build/pages}
make book OPTIONS=--elsewhere
rm -rf "$target"
mkdir -p "$target"
cp -R _build/html/. "$target/"
touch "$target/.nojekyll"  # directories such as _static must be served too
echo "the pages to publish are in $target"
