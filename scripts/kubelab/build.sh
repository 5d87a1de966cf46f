#!/usr/bin/env bash
# build.sh OUT: builds the kubelab binary. Versions are stamped, because clients
# that parse the server's version (kubectl is one) fail on an unstamped one.
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")"
export GOWORK=off CGO_ENABLED="${CGO_ENABLED:-1}"
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=$(cut -d. -f2 <<<"$version")
stamp="-s -w"
for pkg in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamp+=" -X $pkg.gitVersion=$version -X $pkg.gitMajor=1 -X $pkg.gitMinor=$minor"
  stamp+=" -X $pkg.gitTreeState=clean -X $pkg.gitCommit=$version -X $pkg.buildDate=1970-01-01T00:00:00Z"
done
go build -trimpath -ldflags="$stamp" -o "$out" .
