#!/bin/sh
# Which programs the tests want that Python packages do not bring. With CI set, installs the missing ones by apt if this
# is root; else says which tests skip. Never fails: a test without its program skips with the reason.
missing=
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing=chromium
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
[ -n "$missing" ] || exit 0

if [ -n "$CI" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086 # one word a package
  apt-get update -qq && apt-get install -qq --yes --no-install-recommends $missing && exit 0
  echo "apt-get could not install:$missing"
fi
echo "Tests of the studio that need these skip. To run them, install (Debian): apt-get install $missing"
exit 0
