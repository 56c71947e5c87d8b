#!/usr/bin/env bash
# support/with_folder.sh removes a test's temporary files when the test passes, fails, is skipped or
# is killed.
set -euo pipefail
run="$SYN_SOURCE/tests/support/with_folder.sh"
mine=$(mktemp -d)
trap 'rm -rf "$mine"' EXIT
export TMPDIR=$mine
failed=0

# expect CODE COMMAND: checks that the test exits with CODE and leaves no files.
expect() {
    local code=0
    sh "$run" bash -c "$2" || code=$?
    [ "$code" = "$1" ] || { echo "'$2' ended with $code, not $1" && failed=1; }
    [ -z "$(ls -A "$mine")" ] || { echo "'$2' has left $(ls -A "$mine")" && failed=1; }
}

expect 0 'mktemp -d >"$TMPDIR/a"'
expect 1 'mkdir "$TMPDIR/b"; touch "$TMPDIR/b/c"; exit 1'
expect 77 'exit 77'
expect 0 'sh "$SYN_SOURCE/tests/support/with_folder.sh" touch "$TMPDIR/d"'
expect 137 'touch "$TMPDIR/e"; kill -9 $$'
sh "$run" bash -c 'touch "$TMPDIR/f"; kill -9 $PPID' 2>/dev/null || true
[ "$(ls "$mine"/syntorch-test.*)" = f ] || { echo "what was killed: $(ls -R "$mine")" && failed=1; }
expect 0 '[ "$(ls "$(dirname "$TMPDIR")" | wc -l)" = 1 ]'
exit $failed
