#!/bin/sh
# Builds a plugin in JavaScript into one component: build.sh PLUGIN.mjs [OUT.wasm]
#
# The compiler is installed into a node_modules of its own below the target directory (TARGET, or `target` beside this script),
# never into the system; exit code 69 says that this could not be done. A plugin imports modules below its own folder, and the
# example those of this one.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
[ $# -ge 1 ] && [ -f "$1" ] || { echo "usage: build.sh PLUGIN.mjs [OUT.wasm]" >&2; exit 64; }
folder=$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd)
target=${TARGET:-$here/target}
out=${2:-$target/$(basename -- "$1" .mjs).wasm}

# A change of what is pinned makes another folder.
pinned=$(cksum < "$here/package-lock.json" | cut -d ' ' -f 1)
tools=$target/tools-$pinned
if [ ! -e "$tools/ready" ]; then
  rm -rf "$tools"
  mkdir -p "$tools"
  cp "$here/package.json" "$here/package-lock.json" "$tools/"
  # stdout is for the component's path alone.
  if ! (cd "$tools" && npm ci --no-fund --no-audit --loglevel=error) >&2; then
    echo "build.sh: the compiler could not be installed; it takes Node 20 or later with npm, and a registry that answers" >&2
    exit 69
  fi
  touch "$tools/ready"
fi

case $folder in
  "$here"/*) modules=$here ;;
  *) modules=$folder ;;
esac

# --sync: Tidegate's calls are plain ones. WASI is not stubbed: the host grants a transform nothing of it, but takes what QuickJS
# says of an exception from stderr into the error and the log.
"$tools/node_modules/.bin/componentize-qjs" --sync --wit "$here/../../wit" --world transform-columns-plugin \
  --module-root "$modules" --js "$folder/$(basename -- "$1")" --output "$out.part" >&2
mv "$out.part" "$out"
echo "$out"
