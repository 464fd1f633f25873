#!/usr/bin/perl
# log, show, diff and blame on a terminal and in a pipe: pager, colours, bytes that would drive the terminal.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

my $world = world();
$ENV{TERM} = 'xterm';
cow('new', 'demo');
my $evil = "x\e]0;owned\a\e[31m\nb\xff";
cow('write', 'demo:/work/a.txt', {in => "plain\n"});
cow('write', 'demo:/work/a.txt', {in => "red \e[31m bell \a \xff back \b\nsecond\tline\n"});
cow('write', "demo:/work/$evil", {in => "text\n"});
cow('--who', "eve\e[2J", 'kv', 'set', 'demo', "key\e[1m\nline", 'value');

spill("$world/pager", "#!/bin/sh\necho 'PAGED <'\ncat\necho '> PAGED'\n");
chmod 0755, "$world/pager";
$ENV{PAGER} = "$world/pager";
my %commands = (log => 'log demo', show => 'show demo@2', diff => 'diff demo@1 demo', blame => 'blame demo:a.txt');
for my $name (sort keys %commands) {
	my $line = "cowbox $commands{$name}";
	like(pty($line), qr/PAGED <.*> PAGED/s, "$name: through the pager on a terminal");
	unlike(pty("$line --no-pager"), qr/PAGED/, "$name: --no-pager");
	unlike(pty("$line | cat"), qr/PAGED/, "$name: no pager in a pipe");
	unlike(pty("cowbox --json $commands{$name}"), qr/PAGED|\e/, "$name: no pager and no colour with --json");
	like(pty("$line --no-pager"), qr/\e\[3[0-9]m/, "$name: colours on a terminal");
	unlike(pty("NO_COLOR=1 $line --no-pager"), qr/\e\[/, "$name: NO_COLOR");
	unlike(pty("TERM=dumb $line --no-pager"), qr/\e\[/, "$name: a dumb terminal");
	unlike(pty("$line --no-pager --color=never"), qr/\e\[/, "$name: --color=never");
	like(cowbox('--color=always', split ' ', $commands{$name})->{out}, qr/\e\[3[0-9]m/, "$name: --color=always in a pipe");
	# Whatever the box holds: on a terminal only our own colours.
	my $shown = pty("$line --no-pager");
	$shown =~ s/\e\[[0-9]*m//g;
	unlike($shown, qr/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xff/, "$name: no control byte of the box reaches the terminal");
}
for my $line ('undo demo', 'redo demo', 'log demo --patch', 'log demo --stat', 'log demo --oneline', 'diff demo@1 demo --stat', 'diff demo@1 demo --name-status',
	'show demo@3', 'show demo', 'show demo:/work', 'show demo:/work/a.txt', 'restore demo@2:/work/a.txt') {
	my $shown = pty("cowbox --no-pager $line");
	$shown =~ s/\e\[[0-9]*m//g;
	unlike($shown, qr/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xff/, "$line: nothing drives the terminal");
	ok(length $shown, "$line: but something is shown");
}
like(pty('cowbox --no-pager diff demo@1 demo --color=never'), qr/\+red \\x1b\[31m bell \\x07 \\xff back \\x08/, 'escaped where it stands');
like(pty('cowbox --no-pager show demo@2:a.txt'), qr/red \\x1b\[31m.*\r?\nsecond\tline/, 'lines and tabs of a file stay');
like(cow('diff', 'demo@1', 'demo'), qr/^\+red \e\[31m bell \a \xff back \x08$/m, 'a diff in a pipe is exact');
is(cow('show', 'demo@2:a.txt'), "red \e[31m bell \a \xff back \b\nsecond\tline\n", 'a file in a pipe is exact');
is(cow('diff', 'demo@2', 'demo@3', '--name-only', '-z'), "/work/$evil\0", 'a name in a pipe is exact');
like(cow('diff', 'demo@2', 'demo@3'), qr{^\+\+\+ "b/work/x\\033\]0;owned\\a\\033\[31m\\nb\\377"$}m, 'in a patch it is quoted as git does');
like(cow('diff', 'demo@3', 'demo@4'), qr{\A# key "key\\033\[1m\\nline": added\n\z}, 'a key is one line behind the patch');
my $quoted = qr{"/work/x\\033\]0;owned\\a\\033\[31m\\nb\xff"};
like(cow('diff', 'demo@2', 'demo@3', '--name-only'), qr{\A$quoted\n\z}, 'and in a list of names');
like(cow('diff', 'demo@2', 'demo@3', '--name-status'), qr{\AA\t$quoted\n\z}, 'with its status');
like(cow('diff', 'demo@2', 'demo@3', '--stat'), qr{\A $quoted \| 1 \+\n 1 path}, 'with its lines counted');
like(cow('log', 'demo', '-n', '1', '--stat'), qr{^ key "key\\033\[1m\\nline" \| added$}m, 'in a log');
my $json = json('diff', 'demo@2', 'demo@3');
ok($json->{changes}[0]{path_base64}, 'json: exact bytes of a name that is not UTF-8');
like(pty('cowbox --no-pager log demo -n 1'), qr/ (?:just now|(?:seconds|minutes) ago)/, 'times for people on a terminal');
like(cow('log', 'demo', '-n', '1'), qr/When: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z/, 'exact in a pipe');

# A pager that is quit early ends the command, not with an error.
spill("$world/quitter", "#!/bin/sh\nhead -n 1 >/dev/null\n");
chmod 0755, "$world/quitter";
cow('write', 'demo:/work/big', {in => "line\n" x 100_000});
my $quit = pty("PAGER=$world/quitter cowbox diff demo@0 demo; echo done");
like($quit, qr/\Adone\s*\z/, 'a pager that is quit early');

# One that cannot be started is done without; it is told only when somebody named it.
my $plain = pty('cowbox --no-pager log demo --oneline');
is(pty("PATH=$world/nothing PAGER= && unset PAGER && ${\program()} log demo --oneline"), $plain, 'no less: not paged');
for my $pager ('nosuch', 'nosuch -R', "$world/nosuch") {
	is(pty("PAGER='$pager' cowbox log demo --oneline"), "cowbox: the pager '$pager' cannot be started: No such file or directory\r\n$plain", "PAGER='$pager'");
}
is(pty('PAGER="tr a-z A-Z" cowbox log demo --oneline'), uc pty('cowbox --no-pager --color always log demo --oneline'), 'a pager with options');
like(pty("PAGER='tr a-z A-Z | tr A B' cowbox log demo --oneline --color never"), qr/DEMO|WRITE/, 'a line for the shell');

# Ctrl-C reaches both: the command waits for the pager.
spill("$world/stays", "#!/bin/sh\ntrap '' INT\nhead -n 1 >/dev/null\nkill -INT \$PPID\nsleep 0.3\necho quit\n");
chmod 0755, "$world/stays";
is(pty("PAGER=$world/stays cowbox log demo; echo then \$?"), "quit\r\nthen 130\r\n", 'Ctrl-C does not leave the pager behind');

done_testing();
