#!/bin/sh
# Writes the digest of each image of others behind its version, in the Dockerfiles and Compose files of this checkout: what the
# registry has under that version now is what is pulled from then on, here and wherever the files are copied to. Called again,
# it writes the digests of today; compare what `git diff` shows with what you know from elsewhere.
set -eu
cd "$(dirname "$0")/.."
files="Dockerfile docker-compose.yml $(find deploy/compose -name Dockerfile -o -name '*.yml' | sort)"
# shellcheck disable=SC2086  several files
sed -nE 's/^FROM ([^ ]+).*/\1/p; s/.*\bimage: *([^ ,}#]+).*/\1/p' $files |
  sed 's/@.*//' | grep -v '^prio-' | sort -u | while read -r image; do
  docker pull --quiet "$image" >/dev/null </dev/null
  digest=$(docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$image" </dev/null |
    sed -nE "s|^(docker.io/)?(library/)?${image%%:*}@(sha256:[0-9a-f]{64})\$|\3|p" | head -n 1)
  case $digest in
    sha256:*) ;;
    *) echo "$image: the engine has no digest of it from a registry" >&2; exit 1 ;;
  esac
  # shellcheck disable=SC2086
  sed -i -E "s%([ :])$image(@sha256:[0-9a-f]+)?([ ,}#]|\$)%\1$image@$digest\3%" $files
  echo "$image@$digest"
done
