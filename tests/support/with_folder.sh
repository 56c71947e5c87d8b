#!/bin/sh
# with_folder.sh COMMAND...: runs a test with a TMPDIR of its own and removes it when the test ends,
# also if the test fails. A test that is killed, as after a time limit, leaves its folder to the
# next call.
base=${TMPDIR:-/tmp}
for left in "$base"/syntorch-test.*; do
    [ -d "$left" ] && [ ! -d "/proc/${left##*.}" ] && rm -rf "$left" 2>/dev/null
done
folder=$base/syntorch-test.$$
mkdir "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 143' HUP INT TERM
TMPDIR=$folder "$@"
