#!/bin/sh
# bootstrap.sh: from a fresh Debian 12 to a built and checked cowbox.
#
#   ./bootstrap.sh build    install what is missing, build the release variant
#   ./bootstrap.sh check    the same, then everything CI runs; the last line is "N passed, N failed"
#   ./bootstrap.sh demo     the same as build, then a guided tour of two minutes (--fast: without pauses)
#
# Packages come from Debian by apt-get (with sudo when you are not root). Where all are there nothing is installed.
set -eu
cd "$(dirname "$0")"

# libclang-rt-14-dev holds clang's sanitizer and libFuzzer runtimes; e2fsprogs and sqlite3 serve the crash and format tests, groff-base the man
# pages, bsdutils (script) the tests on a terminal;
# python3-venv and what follows are run in boxes; bubblewrap is what a start is measured against.
packages='gcc g++ clang clang-format make pkg-config perl git libsqlite3-dev libxxhash-dev libpcre2-dev libzstd-dev libclang-rt-14-dev e2fsprogs sqlite3 patch groff-base bsdutils
	python3-venv gdb strace vim-tiny openssh-client xz-utils bubblewrap'
# Only the tests use these: PROGRAM:PACKAGE. Boxes see /usr, so that is where the program must be; one that did not come from Debian serves as well,
# and Debian's package might not even go beside it.
programs='cargo:cargo rustc:rustc node:nodejs npm:npm javac:default-jdk-headless zsh:zsh fish:fish'

fail() {
	echo "bootstrap: $1" >&2
	exit 1
}

usage() {
	sed -n '2,8s/^# \{0,1\}//p' "$0"
}

# missing_packages PROGRAMS
missing_packages() {
	for package in $packages; do
		state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
		case $state in
		ii*) ;;
		*) echo "$package" ;;
		esac
	done
	for pair in $1; do
		[ -x "/usr/bin/${pair%%:*}" ] || echo "${pair#*:}"
	done
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# install_missing PROGRAMS: what is missing of the packages and of these programs.
install_missing() {
	command -v dpkg-query >/dev/null || fail "this is not Debian: install by hand what matches: $packages $programs; then run 'make check'"
	missing=$(missing_packages "$1" | tr '\n' ' ')
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
		fail "not root and no sudo: as root run 'apt-get install $missing', then run this again"
	fi
	echo "bootstrap: installing $missing"
	# shellcheck disable=SC2086
	if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >/dev/null 2>&1; then
		# The package lists are absent or old: fetch them, once.
		as_root apt-get update -q || fail "apt-get update failed: check the network and /etc/apt/sources.list"
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing ||
			fail "apt-get could not install $missing: see its message above"
	fi
}

jobs=$(nproc 2>/dev/null || echo 2)

build() {
	make -j"$jobs" VARIANT=release lib build/release/cowbox build/release/cowbox-box || fail "the build failed: see the compiler's message above"
}

case ${1:-} in
build)
	install_missing ''
	build
	;;
check)
	install_missing "$programs"
	JOBS=$jobs exec tools/check # not through make, whose own error line would follow the totals
	;;
demo)
	install_missing ''
	build
	shift
	exec sh examples/tour.sh "$@"
	;;
-h | --help | help)
	usage
	;;
*)
	usage >&2
	exit 2
	;;
esac
