#!/bin/sh
# captious gate as a script of CI calls it. Needs: captious
set -u
demo=$(python -c 'from captious.data import DEMO; print(DEMO)') || exit 1

# Once, on the main branch: lock what the base scores. The lock file goes into the repository.
captious gate gate.lock.json "$demo/predictions/solid.json" --references "$demo/references.json" \
  --metrics cider,rouge --update > /dev/null || exit 1

# In every pull request: test the captions of the new model. The exit code is the verdict.
try() {
  what=$1 new=$2
  shift 2
  captious gate gate.lock.json "$new" --references "$demo/references.json" --junit gate.xml --markdown gate.md "$@" \
    > gate.log 2>&1
  echo "$what: exit code $?"
}

try "an equal system" "$demo/predictions/solid.json" --margin 0
try "a better system" "$demo/predictions/expert.json" --margin 5%
try "a worse system" "$demo/predictions/parrot.json" --margin 5%
try "60 items that cannot tell" "$demo/predictions/sloppy.json" --margin 10%
try "a file that is not there" missing.json --margin 5%
