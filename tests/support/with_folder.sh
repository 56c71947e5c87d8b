#!/bin/sh
# with_folder.sh COMMAND...: runs a test with its own TMPDIR and removes the folder when the test
# ends, also if the test fails. If this script is killed, for example by a time limit, the next call
# removes the folder.
base=${TMPDIR:-/tmp}
for left in "$base"/syntorch-test.*; do
    [ -d "$left" ] && [ ! -d "/proc/${left##*.}" ] && rm -rf "$left" 2>/dev/null
done
folder=$base/syntorch-test.$$
mkdir "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 143' HUP INT TERM
TMPDIR=$folder "$@"
