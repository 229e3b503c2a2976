#!/bin/sh
# Builds a plugin in Python into one component: build.sh PLUGIN.py [OUT.wasm]
#
# The compiler is installed into a virtual environment of its own below the target directory (TARGET, or `target` beside this
# script), never into the system; exit code 69 says that this could not be done. Modules are found in the plugin's own folder and
# in this one, which has `tidegate_columns`.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
[ $# -ge 1 ] && [ -f "$1" ] || { echo "usage: build.sh PLUGIN.py [OUT.wasm]" >&2; exit 64; }
name=$(basename -- "$1" .py)
folder=$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd)
target=${TARGET:-$here/target}
out=${2:-$target/$name.wasm}

# A change of the pinned version makes another environment.
pinned=$(sed 's/[^A-Za-z0-9.]/-/g' "$here/requirements.txt" | tr -d '\n')
tools=$target/tools-$pinned
if [ ! -e "$tools/ready" ]; then
  rm -rf "$tools"
  mkdir -p "$target"
  # stdout is for the component's path alone.
  if ! { python3 -m venv "$tools" && "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --requirement "$here/requirements.txt"; } >&2; then
    echo "build.sh: the compiler could not be installed; it takes Python 3.10 or later with venv and pip, and a registry that answers" >&2
    exit 69
  fi
  touch "$tools/ready"
fi

# The compiler looks for the class of an exported resource in a module named after the interface.
border=$target/border-$name
mkdir -p "$border"
echo "from $name import Processor" > "$border/transform_columns.py"

# VIRTUAL_ENV says where the compiler looks for further modules, which is nowhere but in these folders.
VIRTUAL_ENV=$tools "$tools/bin/componentize-py" --quiet --wit-path "$here/../../wit" --world transform-columns-plugin \
  componentize --stub-wasi --python-path "$folder" --python-path "$here" --python-path "$border" \
  --output "$out.part" "$name" >&2
mv "$out.part" "$out"
echo "$out"
