#!/usr/bin/env bash
# Builds base images for deploy/image/Dockerfile without an image registry: a minimal Debian by mmdebstrap, with the Node.js
# of npm's node-linux-* package. Needs root, mmdebstrap, npm; a Debian mirror and npm's registry. Writes two root file
# systems, the same bytes for the same versions of packages:
#
#   FOLDER/gatehouse-base.tar        Debian, libatomic1, node
#   FOLDER/gatehouse-build-base.tar  the same with npm, for the build stage
#
# DEBIAN_MIRROR, DEBIAN_SUITE, NODE_VERSION and NPM_VERSION override the values below. No file is younger than
# SOURCE_DATE_EPOCH (seconds).
set -euo pipefail

folder=${1:?usage: base-image.sh FOLDER}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=${DEBIAN_SUITE:-bookworm}
node=${NODE_VERSION:-26.10.0}
npm=${NPM_VERSION:-11.19.1}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}

case $(uname -m) in
  x86_64) platform=linux-x64 ;;
  aarch64) platform=linux-arm64 ;;
  *) echo "no node-linux-* package for $(uname -m)" >&2; exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

# libatomic1: Node.js 26 needs it. ca-certificates: TLS to mail servers and identity providers.
mmdebstrap --quiet --format=directory --variant=minbase --include=ca-certificates,libatomic1,libstdc++6 \
  "$suite" "$root" "$mirror" 2>"$work/log" || { tail -20 "$work/log" >&2; exit 1; }
# As in the slim images. Licences are kept.
find "$root/usr/share/doc" -mindepth 2 ! -name copyright ! -type d -delete
rm -rf "$root"/usr/share/{man,info,locale,lintian} "$root"/var/cache/{apt,debconf,ldconfig}/* \
  "$root"/var/lib/apt/lists/* "$root"/var/log/*
# What is of this machine must not be in the image.
rm -f "$root/etc/apt/sources.list" "$root/etc/resolv.conf" "$root/etc/hostname"

fetch() { # fetch PACKAGE TARGET: unpacks an npm package; npm checks its integrity
  local archive
  archive=$(cd "$work" && npm pack --silent "$1")
  mkdir -p "$2" && tar -xzf "$work/$archive" -C "$2" --strip-components=1 --no-same-owner
}
pack() {
  tar -C "$root" --sort=name --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --clamp-mtime -cf "$folder/$1.tar" .
}

mkdir -p "$folder"
fetch "node-$platform@$node" "$work/node"
install -m 0755 "$work/node/bin/node" "$root/usr/local/bin/node"
pack gatehouse-base

fetch "npm@$npm" "$root/usr/local/lib/node_modules/npm"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
pack gatehouse-build-base
