#!/bin/sh
# Which programs the tests want that Python packages do not bring. With CI set, installs the missing ones by apt if this
# is root; else says which tests skip. Never fails: a test without its program skips with the reason.
missing=chromium
for browser in chromium-headless-shell chromium chromium-browser google-chrome; do
  command -v $browser >/dev/null && missing=
done
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
[ -n "$missing" ] || exit 0

if [ -n "$CI" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  # Chromium without a window is smaller and takes a third of the processor time; not every distribution has it.
  case "$missing" in chromium*)
    apt-cache show chromium-headless-shell >/dev/null 2>&1 && missing="chromium-headless-shell${missing#chromium}" ;;
  esac
  # shellcheck disable=SC2086 # one word a package
  apt-get install -qq --yes --no-install-recommends $missing && exit 0
  echo "apt-get could not install:$missing"
fi
echo "Tests of the studio that need these skip. To run them, install (Debian): apt-get install $missing"
exit 0
