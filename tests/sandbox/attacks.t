#!/usr/bin/perl
# Every attack of the attack program (tests/sandbox/attack*.c; docs/security-tests.md lists them) against a real box, over overlayfs and over a plain
# folder; then traps that a program leaves behind, programs that do not want to end, and --weak with what it is known not to hold. As
# whoever runs it; attacks_user.t does the same as an ordinary user when that is root.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use Range;
use Run;
use Time::HiRes qw(sleep time);

our $ordinary; # set by attacks_user.t
my $root = $> == 0 && !$ordinary;
my $world = run_world();
my $base = run_user($ordinary ? ordinary_uid() : 0);
my $attack = (program() =~ s{/cowbox$}{}r) . '/tests/sandbox/attack';
my $list = attack_list($attack);
ok(keys %$list >= 100, scalar(keys %$list) . ' attacks') or BAIL_OUT("$attack is not built");

# ---- the range ----

mkdir "$world/open";
mkdir "$world/open/$_" for qw(range bind);
chmod 0777, "$world/open/bind";
spill("$world/open/bind/file", "host\n");
chmod 0666, "$world/open/bind/file";
spill("$world/open/bind/root", 'cowbox-' . "canary-root\n");
chmod 0600, "$world/open/bind/root";
system('cp', $attack, "$world/open/bind/setuid") == 0 or die;
chmod 04755, "$world/open/bind/setuid";
my $submount = "/dev/shm/cowbox-range-$$";
mkdir $submount;
chmod 0777, $submount;
spill("$submount/file", "host\n");
chmod 0666, "$submount/file";
END { system('rm', '-rf', $submount) if $submount }

my %at = range("$world/open/range", store => $ENV{COWBOX_STORE}, helper => "$world/cowbox-box");
my $bystander = bystander();
chmod 0777, "$world/cowbox-box"; # its modes must not be what protects it
my $helper_before = slurp("$world/cowbox-box");
my %secret = (ATTACK_CANARY => canary_value());

sub params { my %more = @_; return map { my $v = {%at, %more}->{$_}; defined $v ? "$_=$v" : () } sort keys %{{%at, %more}} }

sub in_box {
	my ($box, $options, @words) = @_;
	return run_words({env => \%secret, seconds => 100}, "$world/cowbox", 'exec', $box, @$options, '--', @words);
}

# A box with the attack program and a few files, and another one that holds a canary and has been run in.
sub new_box {
	my ($name) = @_;
	cow_as('new', $name);
	mkdir "$world/prepared/seed";
	mkdir "$world/prepared/seed/$_" for qw(sub folder);
	spill("$world/prepared/seed/$_", "old\n") for qw(file sub/leaf folder/in);
	system('cp', $attack, "$world/prepared/seed/attack") == 0 or die;
	cow_as('import', "$world/prepared/seed", "$name:/work", '--quiet');
}

# The verdicts must be there, one for each name, and as expected: HELD, or what %$expected says.
sub judge {
	my ($where, $r, $names, $expected) = @_;
	my $got = parse_verdicts($r->{out});
	for my $name (@$names) {
		my ($word, $why) = @{$got->{$name} || ['NOTHING', "status $r->{status} signal $r->{signal}: $r->{err}"]};
		my $wanted = ($expected || {})->{$name} || 'HELD';
		ok($wanted eq 'ANY' ? $word ne 'NOTHING' : $word eq $wanted, "$where: $name: $why") or diag("$word, not $wanted");
	}
	return $got;
}

sub unharmed {
	my ($where) = @_;
	my $alive = kill 0, $bystander;
	my $nice = $alive ? getpriority(0, $bystander) : undef;
	ok($alive && $nice == getpriority(0, $$), "$where: processes of the host go on as they were");
	ok(slurp("$world/cowbox-box") eq $helper_before, "$where: the helper is what it was");
	ok(slurp("$world/open/bind/file") eq "host\n", "$where: a bound file is what it was");
}

# ---- inside ----

my @inside = attack_names(sub { !grep { $_[0]{flags}{$_} } qw(alone trap outside bound) });

sub inside {
	my ($where, $box, @options) = @_;
	my @targets = params(marker => "inside-$$");
	judge($where, in_box($box, \@options, '/work/attack', @targets, @inside), \@inside);
	for my $name (attack_names(sub { $_[0]{flags}{alone} })) {
		judge($where, in_box($box, \@options, '/work/attack', @targets, $name), [$name]);
	}
	my $r = in_box($box, \@options, '/work/attack', '--controls');
	ok($r->{status} == 0 && $r->{out} =~ /^WORKS/m, "$where: what ordinary programs need works") or diag($r->{out} . $r->{err});
	unharmed($where);
}

sub bound_folders {
	my ($where, $box, @options) = @_;
	my @names = qw(write-bind write-submount);
	push @names, qw(read-root-file setuid-run) if $> == 0;
	my @binds = ('--bind-ro', "$world/open/bind:/mnt/bind", '--bind-ro', '/dev/shm:/mnt/shm', '--bind-ro', '/dev:/mnt/dev');
	my $r = in_box($box, [@options, @binds], '/work/attack', 'bind=/mnt/bind', "submount=/mnt$submount", 'root_file=/mnt/bind/root',
		'setuid=/mnt/bind/setuid', @names);
	judge("$where, bound", $r, \@names);
}

# A bound may end the program (then its verdict is missing, and the reason says which) or refuse it more.
sub bounded {
	my ($where, $box, $option, $key, $value, $reason, @names) = @_;
	for my $name (@names) {
		my $r = run_words({env => \%secret, seconds => 100}, "$world/cowbox", '--json', 'exec', $box, $option, $value, '--discard', '--', '/work/attack',
			"$key=$value", $name);
		my $json = eval { JSON::PP->new->utf8->decode($r->{out}) } || {};
		my $verdict = parse_verdicts($json->{stdout} || '')->{$name};
		if ($verdict) { ok($verdict->[0] eq 'HELD', "$where: $name: $verdict->[1]") or diag($verdict->[0]) }
		else { like($json->{reason} || '', $reason, "$where: $name is ended, with a reason") or diag($r->{err} . $r->{out}) }
	}
}

# ---- traps ----

sub json_of { my ($r) = @_; return eval { JSON::PP->new->utf8->decode($r->{out}) } || {} }

sub next_command {
	my ($where, $box, @options) = @_;
	my $r = in_box($box, \@options, '/bin/sh', '-c', 'test ! -e /work/evil/ran && ls / >/dev/null && echo next');
	ok($r->{status} == 0 && $r->{out} eq "next\n", "$where: the next command runs") or diag("$r->{status} $r->{err}$r->{out}");
}

sub traps {
	my ($where, $box, @options) = @_;
	my @names = qw(trap-names trap-loops trap-whiteouts trap-overlay trap-hardlinks trap-modes trap-times trap-special trap-swapped);
	my $r = in_box($box, \@options, '/bin/sh', '-c', "for t in @names; do cd /work; /work/attack \$t; done");
	# trap-special and trap-swapped both move sub/leaf: the first has it.
	judge($where, $r, \@names, {'trap-swapped' => 'ANY'});
	is($r->{status}, 0, "$where: a step of all traps") or diag($r->{err});
	my $names = cow_json('ls', "$box:/work/names")->{entries} || [];
	is(scalar @$names, 10, "$where: ten hostile names");
	my $shown = pty(join ' ', as_user("$world/cowbox", 'ls', "$box:/work/names"));
	unlike($shown, qr/\033\]0;|\033\[2J/, "$where: names do not drive the terminal");
	is(cow_as('cat', "$box:/work/wh/.wh.x") . cow_as('cat', "$box:/work/wh/x"), 'ac', "$where: whiteout names are plain names");
	is(cow_as('cat', "$box:/work/ox/inside"), 'inside', "$where: user.overlay attributes hide nothing");
	is(cow_as('cat', "$box:/work/closed/in/x"), 'x', "$where: files below mode 000 are captured");
	like(cow_as('stat', "$box:/work/folder", {any => 1})->{out}, qr/link/, "$where: a folder that became a link is a link");
	my $tree = cow_as('find', "$box:/", {any => 1})->{out};
	unlike($tree, qr{^/?(work/folder|work/loops/root|work/etc-link)/}m, "$where: nothing below the links");
	unlike($tree, qr{^/(usr|etc|proc|dev|bin|lib|run|var)\b}m, "$where: nothing of the system");
	for my $name (qw(file fifo)) {
		isnt(cow_as('cat', "$box:/work/$name", {any => 1})->{status}, 0, "$where: no FIFO in the box: $name");
	}
	next_command("$where, traps", $box, @options);
	# In a stack of layers made of this tree, and in a folder.
	for my $tier (qw(overlay folder)) {
		$r = in_box($box, ['--tier', $tier], '/bin/sh', '-c', 'cat /work/ox/inside /work/ox/file /work/wh/.wh.x; ls /work/wh/.wh.d/.wh.f');
		is($r->{out}, "insidefilea/work/wh/.wh.d/.wh.f\n", "$where, then $tier: the same files are there") or diag($r->{err});
	}
}

sub root_traps {
	my ($where, $box, @options) = @_;
	my $r = in_box($box, \@options, '/work/attack', 'trap-root');
	judge($where, $r, ['trap-root']);
	is($r->{status}, 0, "$where: a step of the names at the root") or diag($r->{err});
	next_command("$where, names at the root", $box, @options);
	$r = in_box($box, \@options, '/work/attack', 'trap-cache');
	judge($where, $r, ['trap-cache']);
	next_command("$where, cache", $box, @options);
	unlike(cow_as('find', "$box:/", {any => 1})->{out}, qr{/(kept|evil/ran)$}m, "$where: the cache is not in the box");
}

sub large_traps {
	my ($where, $box, @options) = @_;
	my $r = in_box($box, \@options, '/work/attack', 'trap-sparse');
	my $stat = cow_as('--json', 'stat', "$box:/work/sparse", {any => 1});
	my $kept = $stat->{status} == 0 && $stat->{out} =~ /"size":\s*8796093022208\b/;
	ok($r->{status} == 0 ? $kept || $r->{out} =~ /no file so large/ : $r->{err} =~ /\S/, "$where: 8 TiB without data are kept as holes, or refused")
		or diag("$r->{status} $r->{err}$r->{out}$stat->{out}");
	cow_as('rm', "$box:/work/sparse") if $kept;
	$r = in_box($box, \@options, '/work/attack', 'trap-deep');
	judge($where, $r, ['trap-deep']);
	ok($r->{status} == 0 || $r->{err} =~ /\S/, "$where: a deep tree is kept, or refused: $r->{err}");
	next_command("$where, large", $box, @options);
}

sub many_traps {
	my ($where, $box, @options) = @_;
	my $r = in_box($box, \@options, '/work/attack', 'n=100000', 'trap-many');
	judge($where, $r, ['trap-many']);
	is($r->{status}, 0, "$where: 100,000 entries are a step") or diag($r->{err});
	cow_as('rm', '-r', "$box:/work/many");
	next_command("$where, many", $box, @options);
}

# ---- programs that do not want to end ----

sub none_left {
	my ($where, $marker) = @_;
	my @left = running("marker=$marker");
	is("@left", '', "$where: nothing is left running");
	kill 'KILL', @left;
}

sub stubborn {
	my ($where, $box, @options) = @_;
	my %status = ('trap-ignore' => 124, 'trap-stop' => 124, 'trap-daemon' => 0, 'trap-fork-exit' => 0, 'trap-swapping' => 0);
	for my $name (sort keys %status) {
		my $marker = "$name-$$-" . int rand 1e9;
		my @limit = $status{$name} ? ('--timeout', '1s') : ();
		my $r = in_box($box, [@options, @limit], '/work/attack', "marker=$marker", $name);
		is($r->{status}, $status{$name}, "$where: $name ends") or diag("signal $r->{signal} $r->{err}$r->{out}");
		none_left("$where, $name", $marker);
	}
	my $marker = "flood-$$";
	my $r = in_box($box, [@options, '--timeout', '1s', '--output-limit', '64K'], '/work/attack', "marker=$marker", 'trap-flood');
	ok(length $r->{out} < 200_000, "$where: a flood of output is cut") or diag(length $r->{out});
	none_left("$where, flood", $marker);
}

sub caller_killed {
	my ($where, $box, @options) = @_;
	my $marker = "orphan-$$-" . int rand 1e9;
	my $pid = spawn_words({}, as_user("$world/cowbox", 'exec', $box, @options, '--', '/bin/sh', '-c',
		"echo kept >/work/kept-by-kill; exec /work/attack marker=$marker trap-ignore >/dev/null"));
	my $end = time + 60;
	sleep 0.02 until grep({ (readlink "/proc/$_/exe" || '') =~ /attack/ } running("marker=$marker")) || time > $end;
	sleep 0.1;
	kill 'KILL', $pid;
	waitpid $pid, 0;
	$end = time + 60;
	sleep 0.02 while running("marker=$marker") && time < $end;
	none_left("$where, caller killed", $marker);
	next_command("$where, caller killed", $box, @options);
	is(cow_as('cat', "$box:/work/kept-by-kill", {any => 1})->{out}, "kept\n", "$where: what it had written is in the box");
}

# ---- made from outside ----

sub odd_starts {
	my ($where, $box, @options) = @_;
	my $canary = $at{tmp_canary};
	for my $cwd ((map { "/proc/self/fd/$_" } 3 .. 9), '/proc/1/root', '/proc/1/cwd', '/proc/self/root') {
		my $r = in_box($box, [@options, '--cwd', $cwd], '/bin/sh', '-c', "cat .$canary ../../../../../..$canary; pwd");
		unlike($r->{out}, qr/cowbox-canary/, "$where: --cwd $cwd gives nothing of the host");
	}
	for my $program (map({ "/proc/self/fd/$_" } 0 .. 7), map({ "/proc/self/fd/$_/bin/id" } 3 .. 7), '/proc/self/exe', '/proc/1/exe') {
		my $r = in_box($box, \@options, $program);
		isnt($r->{status}, 0, "$where: $program is no program");
	}
	for my $line ('#!/proc/self/exe', '#!/proc/self/exe hold', '#!/proc/self/exe init', '#!/proc/1/exe') {
		my $r = in_box($box, \@options, '/bin/sh', '-c', "printf '%s\\n' '$line' >/work/script; chmod 755 /work/script");
		$r = in_box($box, \@options, '/work/script');
		isnt($r->{status}, 0, "$where: a script that begins with $line");
	}
	unharmed("$where, odd starts");
}

sub log_file {
	my ($where, $box, @options) = @_;
	my $log = "$base/tmp/log";
	my $words = join ' ', map { "'$_'" } as_user("$world/cowbox", 'exec', $box, @options, '--');
	script_ok("echo before >$log; $words sh -c ': >/proc/self/fd/1; : >/dev/stdout; echo after' >>$log 2>>$log", "$where: output to a log");
	is(slurp($log), "before\nafter\n", "$where: the log keeps what it had");
	my @names = qw(host-terminal stdio-kind other-terminals tiocsti tiocsti-high tioclinux tiocsetd proc-others);
	for my $tty ([], ['--tty']) {
		my $shown = pty(join ' ', as_user("$world/cowbox", 'exec', $box, @options, @$tty, '--', '/work/attack', @names));
		$shown =~ s{\r|\^[\@D]}{}g; # script(1) types an end of input
		judge("$where, on a terminal @$tty", {out => $shown, status => 0, signal => 0, err => $shown}, \@names);
	}
}

sub tar_entry {
	my ($name, $mode, $type, $major, $minor, $body) = @_;
	my $head = pack 'a100 a8 a8 a8 a12 a12 A8 a1 a100 a6 a2 a32 a32 a8 a8 a155 a12', $name, sprintf('%07o', $mode), '0000000', '0000000',
		sprintf('%011o', length $body), '00000000000', '', $type, '', 'ustar', '00', 'root', 'root', sprintf('%07o', $major), sprintf('%07o', $minor), '', '';
	substr $head, 148, 8, sprintf "%06o\0 ", unpack '%32C*', $head;
	return $head . $body . "\0" x (-length($body) % 512);
}

sub tar_device {
	my ($where, $box, @options) = @_;
	spill("$world/prepared/evil.tar", tar_entry('t/mem', 0666, 3, 1, 1, '') . tar_entry('t/disk', 0666, 4, 8, 0, '')
		. tar_entry('t/suid', 04755, 0, 0, 0, "#!/bin/sh\n") . tar_entry('t/sgid/', 02755, 5, 0, 0, '') . "\0" x 1024);
	cow_as('cp', "$world/prepared/evil.tar", "$box:/work/evil.tar");
	my $r = in_box($box, \@options, '/bin/sh', '-c', 'cd /work && tar xpf evil.tar; find t -type c -o -type b -o -perm /6000');
	is($r->{out}, '', "$where: tar makes no device and no setuid file");
	my $bits = `find '$ENV{COWBOX_STORE}' \\( -type b -o -perm /6000 \\) 2>/dev/null`;
	is($bits, '', "$where: no setuid file and no disk in the store's folder");
}

sub secrets {
	my ($where, $box, @options) = @_;
	my $value = 'very-' . "secret-$$";
	my $r = run_words({env => {TOKEN => "$value-2"}}, "$world/cowbox", 'exec', $box, @options, '--env', "SECRET=$value", '--env', 'TOKEN', '--',
		'/bin/sh', '-c', 'test -n "$SECRET" && test -n "$TOKEN" && echo both');
	is($r->{out}, "both\n", "$where: values are passed") or diag($r->{err});
	is(system("grep -raqs -e '$value' -e '" . canary_value() . "' '$ENV{COWBOX_STORE}'") >> 8, 1, "$where: no value is in the store");
	$r = in_box($box, \@options, '/bin/sh', '-c', 'echo 1 >/tmp/a; echo 2 >~/b');
	$r = in_box($box, \@options, '/bin/sh', '-c', 'cat /tmp/a /home/agent/b');
	is($r->{out}, "1\n2\n", "$where: what one command leaves the next one finds");
}

sub at_once {
	my ($where, $box, @options) = @_;
	my @pids = map { spawn_words({}, as_user("$world/cowbox", 'exec', $box, @options, '--', '/bin/sh', '-c', "echo $_ >/work/once-$_; sleep 0.3; ls /work | grep -c once")) } 1 .. 3;
	waitpid $_, 0 for @pids;
	is(join('', map { cow_as('cat', "$box:/work/once-$_", {any => 1})->{out} } 1 .. 3), "1\n2\n3\n", "$where: commands at once do not lose each other's files");
}

# ---- all of it ----

for my $tier (qw(overlay folder)) {
	my $box = "box-$tier";
	my @options = ('--tier', $tier);
	my $where = ($root ? 'root' : 'user') . ", $tier";
	new_box($box);
	new_box("other-$tier");
	# The other box has a work folder with a canary in it, and keeps it.
	my $r = in_box("other-$tier", \@options, '/bin/sh', '-c', 'echo cowbox-"canary"-other >/work/canary');
	is($r->{status}, 0, "$where: a program runs") or BAIL_OUT("exec does not work: $r->{err}");
	chomp($at{other_file} = `find '$ENV{COWBOX_STORE}/work' -name canary 2>/dev/null | head -n 1` || '');
	($at{store_file}) = grep { -f } glob "$ENV{COWBOX_STORE}/*";
	inside($where, $box, @options);
	bound_folders($where, $box, @options);
	traps($where, $box, @options);
	root_traps($where, $box, @options);
	stubborn($where, $box, @options);
	caller_killed($where, $box, @options);
	tar_device($where, $box, @options);
	secrets($where, $box, @options);
	if ($tier eq 'overlay') {
		large_traps($where, $box, @options);
		odd_starts($where, $box, @options);
		log_file($where, $box, @options);
		at_once($where, $box, @options);
		bounded($where, $box, '--pids', 'pids', 128, qr/./, qw(fork-bomb thread-bomb));
		bounded($where, $box, '--mem', 'mem', 64 << 20, qr/memory/, qw(memory-one memory-many memory-memfd memory-hidden memory-unreadable memory-shm));
	}
	bounded($where, $box, '--disk', 'disk', 16 << 20, qr/disk|space|bytes|written/, qw(disk-one disk-many disk-unlinked disk-unlinked-many disk-cache));
	bounded($where, $box, '--files', 'files', 500, qr/files/, 'files-many');
	many_traps($where, $box, @options) if $tier eq 'overlay' && !$root;
}

# ---- --weak: what it holds, and what it is known not to hold ----

{
	new_box('weak');
	my $where = ($root ? 'root' : 'user') . ', --weak';
	my %expected = map { my $f = $list->{$_}{flags}; $_ => $f->{either} ? 'ANY' : $f->{weak} ? 'BROKEN' : 'HELD' } @inside;
	$expected{'key-names'} = 'HELD' if $root; # the reserved uid has none
	# Its root is the host's: the box's folders have other paths there.
	my $r = in_box('weak', ['--weak'], './attack', params(), @inside);
	judge($where, $r, \@inside, \%expected);
	unharmed($where);
}

# ---- the document ----

if (!$ordinary) {
	my $document = root_of() . '/docs/security-tests.md';
	is(-e $document ? slurp($document) : '', `'$attack' --markdown`, 'docs/security-tests.md is what attack --markdown says');
}
done_testing();
