#!/bin/sh
# tour.sh: cowbox in two minutes, in a folder and a store of its own that are gone afterwards.
#
#   sh examples/tour.sh [--fast]     on a terminal it waits for Enter between the parts, unless --fast
#
# `./bootstrap.sh demo` builds cowbox and runs this.
set -eu

fast=
for word in "$@"; do
	case $word in
	--fast) fast=1 ;;
	-h | --help)
		sed -n '2,6s/^# \{0,1\}//p' "$0"
		exit 0
		;;
	*)
		echo "tour: unknown option '$word': --fast is the only one" >&2
		exit 2
		;;
	esac
done

# The build of this tree, else what is installed.
tree=$(cd "$(dirname "$0")/.." && pwd)
if ! command -v cowbox >/dev/null 2>&1 || [ -x "$tree/build/release/cowbox" ]; then
	PATH=$tree/build/release:$PATH
fi
command -v cowbox >/dev/null 2>&1 || {
	echo "tour: no cowbox: run 'make' first" >&2
	exit 4
}

# The traps first: a signal during mktemp is taken once the name is known. A second one must not end the cleaning.
place=""
trap 'trap "" INT TERM HUP; cd / && [ -z "$place" ] || rm -rf "$place"' EXIT
trap 'trap "" INT TERM HUP; exit 130' INT TERM HUP
place=$(mktemp -d "${TMPDIR:-/tmp}/cowbox-tour-XXXXXX")
mkdir "$place/home" "$place/project" "$place/project/src"
unset COWBOX_BOX COWBOX_CONFIG XDG_CONFIG_HOME XDG_DATA_HOME COWBOX_PAGER || true
HOME=$place/home
COWBOX_STORE=$place/store
COWBOX_WHO=${COWBOX_WHO:-you}
PAGER="cat"
export HOME COWBOX_STORE COWBOX_WHO PAGER PATH
cd "$place/project"

bold="" dim="" plain=""
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
	bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
fi

number=0
part() {
	if [ $number -gt 0 ] && [ -z "$fast" ] && [ -t 0 ] && [ -t 1 ]; then
		printf '\n%s(Enter goes on, Ctrl-C ends)%s ' "$dim" "$plain"
		read -r _ || true
	fi
	number=$((number + 1))
	printf '\n%s%s. %s%s\n' "$bold" "$number" "$1" "$plain"
}

say() {
	printf '%s\n' "$@"
}

# Prints a line as it would be typed, then runs it.
run() {
	printf '\n%s$ %s%s\n' "$bold" "$1" "$plain"
	eval "$1"
}

# The same for a line that is to be refused with a status.
refused() {
	wanted=$1
	printf '\n%s$ %s%s\n' "$bold" "$2" "$plain"
	status=0
	eval "$2" 2>&1 || status=$?
	[ $status -eq "$wanted" ] || {
		echo "tour: status $status instead of $wanted: please report it" >&2
		exit 70
	}
}

cat >greet.sh <<'END'
#!/bin/sh
name=${1:-world}
echo "hello, $name"
END
chmod +x greet.sh
cat >src/list.txt <<'END'
apples
bread
cheese
END
echo '# Greeter' >README.md

say "${bold}cowbox in two minutes${plain}" '' \
	'An agent (or you) works in a box; every change is a step that can be seen, taken back, forked and merged.' \
	"Here is a small project in $place/project:"
run 'ls'

part 'Import'
say 'A box with the files of this folder. The folder itself is not touched from now on.'
run 'cowbox new demo --from .'
run 'cowbox tree demo'

part 'Work, and break things'
run "cowbox edit demo:/work/greet.sh --old 'hello, ' --new 'good morning, '"
run "echo 'butter' | cowbox append demo:/work/src/list.txt"
run 'cowbox rm -r demo:/work/src'
say '' 'That last one was a mistake.'

part 'See every step'
run 'cowbox log demo --oneline'
run 'cowbox diff demo@1 demo'

part 'Undo'
run 'cowbox undo demo'
run 'cowbox cat demo:/work/src/list.txt'

part 'Run real programs'
say 'A program sees the box as /, and nothing of the host but /usr: no home, no environment, no network. What it changes is one step.'
run "cowbox exec demo --sh 'sh greet.sh tour; id -un; ls /; echo made >made.txt'"
run 'cowbox show demo'
refused 3 "cowbox exec demo --on-fail undo --sh 'rm -rf src; echo oops; exit 3'"
run 'cowbox ls demo'

part 'A checkpoint, and two tries'
say 'A checkpoint names a step, a fork is a box that starts there. Neither copies anything.'
run 'cowbox checkpoint save demo before-tries'
run 'cowbox fork demo try-1'
run 'cowbox fork demo try-2'
run "cowbox --who agent-1 edit try-1:/work/src/list.txt --old bread --new 'rye bread'"
run "cowbox --who agent-2 edit try-2:/work/src/list.txt --old bread --new 'white bread'"
run "cowbox --who agent-2 write try-2:/work/NOTES.md 'white bread is softer'"

part 'Compare'
run 'cowbox diff try-1 try-2'

part 'Merge'
say 'The first merges by itself. The second changed the same line: a conflict is named and changes nothing, until you decide.'
run 'cowbox merge try-1 --into demo'
refused 9 'cowbox merge try-2 --into demo'
run 'cowbox merge try-2 --into demo --prefer try-2'
run 'cowbox blame demo:/work/src/list.txt'

part 'Go back'
say 'Any file or folder of any step, or all of it. Going back is a step as well: nothing is lost.'
run 'cowbox restore demo@before-tries:/work/src/list.txt'
run 'cowbox diff demo@-1 demo'
run 'cowbox undo demo'

part 'Bring it home'
say 'What the box changed goes back to the folder it came from, when you say so.'
run 'cowbox apply demo --dry-run'
run 'cowbox apply demo'
run 'cat src/list.txt NOTES.md'

part 'Hand it over'
run 'cowbox pack demo >../demo.cowbox'
run 'cowbox unpack ../demo.cowbox copy'
run 'cowbox list'

part 'Who did what'
run 'cowbox audit --by agent-2'

say '' "That was it: $place is removed now." \
	"Next: 'cowbox help', docs/concepts.md, docs/agents.md; every command takes --help and --json." '' 'Done.'
