#!/usr/bin/env bash
# ensure.sh: prints the path of a kubelab binary built from these sources. A
# cold build takes about 600 CPU-seconds, so the binary is kept under a key made
# of the sources and the Go version, and built only when that key is new. The
# tests in e2e/ are a module of their own and no part of the key.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
key=$( (cd "$here" && go version && cat go.mod go.sum ./*.go build.sh) | sha256sum | cut -c1-16)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/kubelab/$key
if [ ! -x "$dir/kubelab" ]; then
  mkdir -p "$dir"
  exec 9>"$dir/lock"
  flock 9 # two callers at once: the second finds the binary of the first
  if [ ! -x "$dir/kubelab" ]; then
    echo "kubelab: building (cold: about 10 minutes on two cores)" >&2
    nice "$here/build.sh" "$dir/kubelab.new" >&2
    mv "$dir/kubelab.new" "$dir/kubelab"
  fi
fi
echo "$dir/kubelab"
