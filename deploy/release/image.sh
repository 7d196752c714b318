#!/usr/bin/env bash
# Builds the image as an OCI archive, the same bytes for the same commit, base and build tools: no daemon, no registry of
# images. Needs root, buildah, mmdebstrap, npm and GNU tar; a Debian mirror and npm's registry.
#
#   image.sh SOURCES ARCHIVE     VERSION, REVISION and SOURCE_DATE_EPOCH (seconds) are required variables
#
# BASE_FOLDER has the two root file systems of base-image.sh, else they are built. NPMRC and CA name files that the build
# needs for npm's registry; they are not in the image.
set -euo pipefail

sources=$(realpath "${1:?usage: image.sh SOURCES ARCHIVE}")
archive=$(realpath -m "${2:?usage: image.sh SOURCES ARCHIVE}")
: "${VERSION:?}" "${REVISION:?}" "${SOURCE_DATE_EPOCH:?}"
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
b() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }

base=${BASE_FOLDER:-$work/base}
[ -f "$base/gatehouse-base.tar" ] || "$sources/deploy/image/base-image.sh" "$base"
for name in gatehouse-base gatehouse-build-base; do
  container=$(b from scratch)
  b add --quiet "$container" "$base/$name.tar" / >/dev/null
  b config --cmd node --env PATH=/usr/local/bin:/usr/bin:/bin "$container"
  b commit --quiet --rm --timestamp "$SOURCE_DATE_EPOCH" "$container" "$name" >/dev/null
done

secrets=()
[ -z "${NPMRC:-}" ] || secrets+=(--secret "id=npmrc,src=$NPMRC")
[ -z "${CA:-}" ] || secrets+=(--secret "id=ca,src=$CA")
# Code that V8 has compiled is never the same twice (docs/decisions/releases.md).
b bud --quiet --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" --format oci -f "$sources/deploy/image/Dockerfile" \
  --build-arg BASE=localhost/gatehouse-base --build-arg BUILD_BASE=localhost/gatehouse-build-base \
  --build-arg VERSION="$VERSION" --build-arg REVISION="$REVISION" --build-arg COMPILE_CACHE=off \
  "${secrets[@]}" -t "gatehouse:$VERSION" "$sources" >&2
b push --quiet "gatehouse:$VERSION" "oci:$work/oci:gatehouse:$VERSION"
tar -C "$work/oci" --sort=name --numeric-owner --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" -cf "$archive" .
