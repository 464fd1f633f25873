#!/usr/bin/perl
# exec: a program's streams, status, environment and bounds as the command line shows them; what it changed; signals and terminals.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;
use IO::Handle;
use IO::Socket::INET;
use IPC::Open3;
use Symbol 'gensym';

my $world = fixture();
need_sandbox();

sub decode { JSON::PP->new->utf8->decode($_[0]) }

# A run that goes on beside the test: {pid, in, out, err}.
sub start {
	my (@words) = @_;
	my $err = gensym;
	my $pid = open3(my $in, my $out, $err, program(), @words);
	$in->autoflush(1);
	return {pid => $pid, in => $in, out => $out, err => $err};
}
sub finish {
	my ($run) = @_;
	close $run->{in};
	local $/;
	my ($out, $err) = (scalar readline($run->{out}), scalar readline($run->{err}));
	waitpid $run->{pid}, 0;
	return {out => $out // '', err => $err // '', status => $? >> 8, signal => $? & 127};
}
sub newest { return json('log', 'demo', '-n', 1)->{steps}[0] }
sub box_file { my ($path) = @_; my $r = cowbox('cat', "demo:$path"); return $r->{status} ? undef : $r->{out} }

subtest 'streams' => sub {
	is(cow('exec', 'demo', '--', 'echo', 'hi'), "hi\n", 'output');
	my $r = cowbox('exec', 'demo', '--', 'sh', '-c', 'echo out; echo err >&2; exit 3');
	is_deeply([@$r{qw(out err status)}], ["out\n", "err\n", 3], 'both, and the status');
	is(cow('exec', 'demo', '--', 'cat', {in => "a\nb\n"}), "a\nb\n", 'input');
	is(cow('exec', 'demo', '--', 'cat', {in => ''}), '', 'no input');
	my $large = join '', map { "line $_ of many\n" } 1 .. 200000;
	ok(cow('exec', 'demo', '--', 'cat', {in => $large}) eq $large, 'much of both');
	is(cow('exec', 'demo', '--', 'head', '-c', 5, {in => $large}), 'line ', 'input that is not read');
	is(cow('exec', 'demo', '--', 'sh', '-c', 'exec 0<&-; sleep 0.1; echo still', {in => $large}), "still\n", 'input that is closed');
	is(cow('exec', 'demo', '--sh', 'echo a >/dev/stdout; echo b >/proc/self/fd/1; cat /dev/stdin', {in => "c\n"}), "a\nb\nc\n", 'streams opened again by name');
	is(cow('exec', 'demo', '--', 'echo', '--json', '-q', '--'), "--json -q --\n", 'words after -- are the program\'s');
	my $piped = shell('cowbox exec demo -- yes | head -n 1; cowbox exec demo -- cat /work/a.txt </dev/null');
	is($piped->{out}, "y\nhello\n", 'a reader that goes away ends the program');
	is(cow('exec', 'demo', '--', 'sh', '-c', 'yes | head -n 1'), "y\n", 'a broken pipe inside is as always');
	is(shell('cowbox use demo >/dev/null && cowbox exec -- echo chosen; cowbox use --none >/dev/null 2>&1')->{out}, "chosen\n", 'in the chosen box');
};

subtest 'statuses' => sub {
	my %ends = ('exit 0' => 0, 'exit 7' => 7, 'exit 255' => 255, 'kill -9 $$' => 137, 'kill -TERM $$' => 143, 'kill -SEGV $$' => 139);
	is(cowbox('exec', 'demo', '--', 'sh', '-c', $_)->{status}, $ends{$_}, $_) for sort keys %ends;
	my $r = cowbox('exec', 'demo', '--', 'no-such-program');
	is($r->{status}, 127, 'no such program');
	like($r->{err}, qr/\Acowbox: [^\n]*'no-such-program' could not be started: No such file or directory\n\z/, 'said in one line');
	like(cowbox('exec', 'demo', '-C', $_, '--', 'true')->{err}, qr/'true' could not be started in '(?:\/work)?\/nope': cannot enter the working folder/, 'a working folder that is not there is named') for '/nope', 'nope';
	cow('write', 'demo:/work/plain', 'text');
	my $plain = cowbox('exec', 'demo', '--', './plain');
	is($plain->{status}, 126, 'not executable');
	like($plain->{err}, qr/'\.\/plain' could not be started: Permission denied\n/, 'said so');
	is(cowbox('exec', 'demo', '--', '/work')->{status}, 126, 'a folder');
	fails(['exec', 'demo'], 'INVALID', 125, qr/no program.*'--'/);
	fails(['exec', 'demo', 'ls'], 'INVALID', 125, qr/after '--'/);
	fails(['exec', 'demo', '--sh', 'true', '--', 'ls'], 'INVALID', 125, qr/one of them/);
	fails(['exec', 'demo', '--no-such', '--', 'ls'], 'INVALID', 125, qr/unknown option/);
	fails(['exec', 'demo', '--net', 'some', '--', 'ls'], 'INVALID', 125, qr/none of none\|host/);
	fails(['exec', 'demo', '--cpus', 'x', '--', 'ls'], 'INVALID', 125, qr/--cpus/);
	fails(['exec', 'demo', '--timeout', '0', '--', 'ls'], 'INVALID', 125, qr/--timeout/);
	fails(['exec', 'demo', '--on-excess', 'cut', '--', 'ls'], 'INVALID', 125, qr/--output-limit/);
	fails(['exec', 'demo', '--env', '=x', '--', 'ls'], 'INVALID', 125, qr/NAME/);
	fails(['exec', 'demo', '--env', 'NOT_SET_HERE', '--', 'ls'], 'INVALID', 125, qr/not set/);
	fails(['exec', 'nobody', '--', 'ls'], 'NOTFOUND', 125, qr/nobody/);
	fails(['exec', 'demo@1', '--', 'ls'], 'INVALID', 125, qr/a box is wanted/);
	fails(['exec', 'demo', '--bind-ro', "$world/no-such", '--', 'ls'], 'NOTFOUND', 125, qr/no-such/);
	fails(['exec', 'demo', '--path', '/work/no-such', '--', 'ls'], 'NOTFOUND', 125, qr/no-such/);
};

subtest 'where it runs' => sub {
	is(cow('exec', 'demo', '--', 'pwd'), "/work\n", 'starts in /work');
	is(cow('exec', 'demo', '--cwd', 'src', '--', 'pwd'), "/work/src\n", 'a folder below it');
	is(cow('exec', 'demo', '-C', '/tmp', '--', 'pwd'), "/tmp\n", 'any folder');
	isnt(cowbox('exec', 'demo', '--cwd', '/work/none', '--', 'pwd')->{status}, 0, 'a folder that is not there');
	is(cow('exec', 'demo', '--', 'id', '-u'), "1000\n", 'as an ordinary user');
	is(cow('exec', 'demo', '--sh', 'echo $0 && ls /'), "bash\n" . cow('exec', 'demo', '--', 'ls', '/'), 'a script') if -x '/bin/bash';
	my $root = cow('exec', 'demo', '--', 'ls', '/');
	like($root, qr/^$_$/m, "/$_") for qw(work tmp home usr bin proc dev);
	unlike(cow('exec', 'demo', '--', 'ls', '/home'), qr/(?!agent)^\S/m, 'no home of the host') or 1;
	isnt(cowbox('exec', 'demo', '--', 'cat', "$world/folder/a.txt")->{status}, 0, 'no file of the host');
	isnt(cowbox('exec', 'demo', '--', 'sh', '-c', 'echo x >/usr/x')->{status}, 0, '/usr is read-only');
	my $only = cow('exec', 'demo', '--path', '/work/src', '--', 'find', '/work');
	is($only, "/work\n/work/src\n/work/src/main.c\n", '--path: only that');
	cow('exec', 'demo', '--path', 'src', '--', 'sh', '-c', 'pwd >where; echo new >/tmp/lost');
	is(box_file('/work/src/where'), "/work/src\n", '--path: what is changed there is kept');
	is(box_file('/work/a.txt'), "hello\n", '--path: the rest is as it was');
	SKIP: {
		skip lacks('user', '--weak is for ordinary users'), 2 if $> == 0;
		is(cow('exec', 'demo', '--weak', '--', 'sh', '-c', 'cat a.txt; echo weak >weak'), "hello\n", '--weak: sees the box');
		is(box_file('/work/weak'), "weak\n", '--weak: what changed');
	}
	for my $tier (qw(overlay folder)) {
		my $j = json('exec', 'demo', '--tier', $tier, '--', 'sh', '-c', "cat a.txt; echo $tier >tier");
		is($j->{stdout}, "hello\n", "$tier: sees the box");
		is_deeply([map { "$_->{change} $_->{path}" } @{$j->{changed}}], [$tier eq 'overlay' ? 'added /work/tier' : 'modified /work/tier'], "$tier: what changed");
	}
};

subtest 'environment' => sub {
	my $secret = 'value-' . join '', map { chr(97 + $_ * 7 % 26) } 1 .. 24;
	my $env = {env => {MY_TOKEN => $secret, OTHER_TOKEN => "other$secret"}};
	my %seen = map { /\A(\w+)=(.*)\z/s ? ($1, $2) : () } split /\n/, cow('exec', 'demo', '--', 'env', $env);
	is($seen{HOME}, '/home/agent', 'HOME');
	is($seen{USER}, 'agent', 'USER');
	is($seen{TMPDIR}, '/tmp', 'TMPDIR');
	is($seen{XDG_CACHE_HOME}, '/var/cache/agent', 'caches');
	ok(!exists $seen{$_}, "$_ is not passed on") for qw(MY_TOKEN COWBOX_STORE LOGIN XDG_RUNTIME_DIR);
	is(cow('exec', 'demo', '--env', 'MY_TOKEN', '-e', 'A=b=c', '-e', 'HOME=/tmp', '--', 'sh', '-c', 'test -n "$MY_TOKEN" && echo "$A $HOME"', $env), "b=c /tmp\n", 'what is named is');
	is_deeply([sort @{decode(newest()->{params})->{env}}], [qw(A HOME MY_TOKEN)], 'the step has the names');
	is(cow('exec', 'demo', '--env', "LITERAL=$secret", '--', 'true'), '', 'a value on the command line');
	cow('exec', 'demo', '--', 'sh', '-c', 'echo proof-that-output-is-kept');
	my @found = grep { -f && slurp($_) =~ /\Q$secret\E/ } split /\n/, `find '$world/store' -type f`;
	is("@found", '', 'no file of the store has the value');
	@found = grep { -f && slurp($_) =~ /proof-that-output-is-kept/ } split /\n/, `find '$world/store' -type f`;
	isnt("@found", '', '(the search finds what is there)');
	is(cow('exec', 'demo', '--', 'sh', '-c', 'mkdir -p $XDG_CACHE_HOME && echo cached >$XDG_CACHE_HOME/x'), '', 'a cache is writable');
	is_deeply(json('exec', 'demo', '--', 'sh', '-c', 'echo x >>/var/cache/agent/y')->{changed}, [], 'and never captured');
};

subtest 'what it changed' => sub {
	fixture_again();
	my $before = json('info', 'demo')->{steps};
	my $j = json('exec', 'demo', '--', 'sh', '-c', 'echo new >b.txt; echo more >>a.txt; rm README.md; mkdir d; echo said; echo told >&2; exit 0');
	is_deeply([map { "$_->{change} $_->{path}" } sort { $a->{path} cmp $b->{path} } @{$j->{changed}}],
		['deleted /work/README.md', 'modified /work/a.txt', 'added /work/b.txt', 'added /work/d'], 'the list');
	is($j->{change_count}, 4, 'its count');
	is((grep { $_->{path} eq '/work/b.txt' } @{$j->{changed}})[0]{size}, 4, 'a size');
	is_deeply([@$j{qw(stdout stderr exit_code signal timed_out truncated)}], ["said\n", "told\n", 0, 0, JSON::PP::false, JSON::PP::false], 'how it ended');
	ok($j->{duration_ms} > 0 && exists $j->{usage}{cpu_ms} && $j->{usage}{peak_memory} > 0, 'what it used');
	is($j->{step}, $before + 1, 'one step');
	my $step = newest();
	is($step->{kind}, 'exec', 'its kind');
	my ($params, $result) = (decode($step->{params}), decode($step->{result}));
	is($params->{argv}[0], 'sh', 'its arguments');
	is($params->{cwd}, '/work', 'its folder');
	is($result->{exit_code}, 0, 'its status');
	is_deeply([@$result{qw(stdout stderr)}], ["said\n", "told\n"], 'its output');
	cow('undo', 'demo');
	is(box_file('/work/a.txt'), "hello\n", 'undo takes all of it back');
	$j = json('exec', 'demo', '--', 'true');
	is_deeply([$j->{changed}, $j->{step} > 0], [[], 1], 'nothing changed is a step too');
	is_deeply(json('exec', 'demo', '--', 'sh', '-c', 'touch -d @1 z; rm z; cat a.txt >c; cat c >a.txt; rm c')->{changed}, [], 'what ends as it began is no change')
		or note('the time of a file that was rewritten is one');
	$j = json('exec', 'demo', '--discard', '--', 'sh', '-c', 'echo lost >lost; rm a.txt');
	is_deeply([map { "$_->{change} $_->{path}" } sort { $a->{path} cmp $b->{path} } @{$j->{changed}}], ['deleted /work/a.txt', 'added /work/lost'], '--discard: the list');
	is($j->{step}, 0, '--discard: no step');
	is(box_file('/work/a.txt'), "hello\n", '--discard: the box is as it was');
	is(cow('exec', 'demo', '--', 'ls', 'a.txt'), "a.txt\n", '--discard: for the next program too');
	my $r = cowbox('--json', 'exec', 'demo', '--on-fail', 'undo', '--', 'sh', '-c', 'echo bad >a.txt; exit 4');
	is($r->{status}, 4, '--on-fail undo: the status');
	my $failed = decode($r->{out});
	ok($failed->{undo_step} > $failed->{step}, '--on-fail undo: a step of its own');
	is(box_file('/work/a.txt'), "hello\n", '--on-fail undo: taken back');
	is(cowbox('exec', 'demo', '--on-fail', 'keep', '--', 'sh', '-c', 'echo bad >a.txt; exit 4')->{status}, 4, '--on-fail keep');
	is(box_file('/work/a.txt'), "bad\n", '--on-fail keep: kept');
	cow('exec', 'demo', '--on-fail', 'undo', '--', 'sh', '-c', 'echo good >a.txt');
	is(box_file('/work/a.txt'), "good\n", '--on-fail undo: not of a success');
	cow('exec', 'demo', '--checkpoint=mine', '--', 'sh', '-c', 'echo after >a.txt');
	is(cow('cat', 'demo@mine:/work/a.txt'), "good\n", '--checkpoint');
	my $seq = json('info', 'demo')->{steps};
	is(json('exec', 'demo', '--checkpoint', '--', 'sh', '-c', 'echo later >a.txt')->{checkpoint}, "auto-$seq", '--checkpoint without a name');
	is(cow('cat', "demo\@auto-$seq:/work/a.txt"), "after\n", 'is where it began');
	cow('config', 'set', 'checkpoint.exec', 'yes', '--for', 'demo', {notes => 1});
	$seq = json('info', 'demo')->{steps};
	is(json('exec', 'demo', '--', 'true')->{checkpoint}, "auto-$seq", 'by configuration');
	fails(['exec', 'demo', '--checkpoint=mine', '--', 'true'], 'EXISTS', 125, qr/mine/);
	$r = cowbox('exec', 'demo', '--', 'sh', '-c', 'mkfifo pipe; echo kept >file');
	like($r->{err}, qr{\Acowbox: /work/pipe: [^\n]*FIFO[^\n]*\n\z}, 'a special file is left out, and said');
	is(box_file('/work/file'), "kept\n", 'the rest is kept');
	is(cowbox('exec', 'demo', '--', 'true')->{err}, '', 'and not said again');
	is(cowbox('exec', 'demo', '--', 'chmod', '1640', 'file')->{err}, "cowbox: /work/file: dropped: sticky\n", 'a mode that is not kept whole is said');
	is(json('stat', 'demo:/work/file')->{entries}[0]{mode}, '0640', 'the rest of it is kept');
	cow('exec', 'demo', '--', 'chmod', '0640', 'file');
	is(cow('exec', 'demo', '--', 'sh', '-c', '(sleep 1000; echo no >late) >/dev/null 2>&1 & (sleep 1000; echo no >late) & echo done'), "done\n", 'what it started ends with it');
	is(cowbox('cat', 'demo:/work/late')->{status}, 4, 'and leaves nothing');
};

subtest 'bounds' => sub {
	my $r = cowbox('exec', 'demo', '--timeout', '500ms', '--', 'sh', '-c', 'echo begun >begun; exec sleep 1000');
	is($r->{status}, 124, 'a time-out');
	like($r->{err}, qr/time/, 'said');
	is(box_file('/work/begun'), "begun\n", 'what was written is kept');
	$r = cowbox('--json', 'exec', 'demo', '--timeout', '300ms', '--', 'sh', '-c', 'trap "" TERM; while :; do sleep 1; done');
	is($r->{status}, 124, 'one that ignores SIGTERM');
	my $j = decode($r->{out});
	is_deeply([@$j{qw(timed_out signal exit_code)}], [JSON::PP::true, 9, 137], 'is killed');
	$r = cowbox('exec', 'demo', '--timeout', '300ms', '--', 'sh', '-c', 'trap "echo bye; exit 3" TERM; while :; do sleep 0.1; done');
	is_deeply([@$r{qw(status out)}], [124, "bye\n"], 'one that says goodbye');
	$r = shell('cowbox exec demo --timeout 500ms -- yes | (sleep 3; wc -c >/dev/null); echo over');
	is($r->{out}, "over\n", 'while nobody reads the output');
	is(cow('exec', 'demo', '--output-limit', 10, '--', 'sh', '-c', 'echo 0123456789abcdef', {notes => 1}), '0123456789', 'output is cut');
	$r = cowbox('exec', 'demo', '--output-limit', 10, '--', 'sh', '-c', 'echo 0123456789abcdef');
	like($r->{err}, qr/\Acowbox: standard output was cut: 10 of 17 bytes[^\n]*\n\z/, 'and that is said');
	$j = json('exec', 'demo', '--output-limit', 4, '--', 'printf', "abc\x{c3}\x{a4}xyz");
	is_deeply([@$j{qw(stdout truncated stdout_bytes)}], ['abc', JSON::PP::true, 8], 'not in the middle of a character');
	$j = json('exec', 'demo', '--output-limit', 0, '--', 'echo', 'unseen');
	is($j->{stdout}, '', 'no output at all');
	unlike(newest()->{result}, qr/unseen/, 'nor in the step');
	$r = cowbox('exec', 'demo', '--output-limit', '1k', '--on-excess', 'reject', '--', 'sh', '-c', 'echo x >rejected; yes');
	is($r->{status}, 125, 'too much output can be refused');
	like($r->{err}, qr/^cowbox: [^\n]*more than 1024 bytes[^\n]*\n\z/m, 'why');
	is(cowbox('cat', 'demo:/work/rejected')->{status}, 4, 'its changes are dropped');
	$j = json('exec', 'demo', '--', 'printf', 'a\\377b');
	is($j->{stdout_base64}, 'Yf9i', 'bytes that are no text');
	$r = cowbox('--json', 'exec', 'demo', '--mem', '64M', '--timeout', '60s', '--', 'perl', '-e', 'my @a; push @a, "x" x 1_000_000 for 1 .. 2000; print "all"');
	isnt($r->{status}, 0, '--mem holds');
	is(decode($r->{out})->{stdout}, '', 'before the end');
	$r = cowbox('exec', 'demo', '--disk', '1M', '--timeout', '60s', '--', 'sh', '-c', 'dd if=/dev/zero of=big bs=64k count=1000 2>/dev/null && echo all');
	unlike($r->{out}, qr/all/, '--disk holds');
	$r = cowbox('exec', 'demo', '--pids', 20, '--timeout', '60s', '--', 'sh', '-c', 'for i in $(seq 50); do sleep 5 & done 2>/dev/null; jobs | wc -l');
	my ($jobs) = $r->{out} =~ /(\d+)/;
	ok(!defined $jobs || $jobs < 25, '--pids holds') or diag($r->{out});
};

subtest 'host' => sub {
	mkdir "$world/shared";
	spill("$world/shared/given", "from the host\n");
	is(cow('exec', 'demo', '--bind-ro', "$world/shared", '--', 'cat', "$world/shared/given"), "from the host\n", '--bind-ro at the same path');
	is(cow('exec', 'demo', '--bind-ro', "$world/shared:/mnt/in", '--', 'cat', '/mnt/in/given'), "from the host\n", 'or another');
	isnt(cowbox('exec', 'demo', '--bind-ro', "$world/shared:/mnt/in", '--', 'sh', '-c', 'echo x >/mnt/in/x')->{status}, 0, 'read-only');
	is(cow('exec', 'demo', '--bind-ro', "$world/shared/given:/mnt/file", '--', 'cat', '/mnt/file'), "from the host\n", 'a file');
	my $j = json('exec', 'demo', '--bind-rw', "$world/shared:/mnt/out", '--', 'sh', '-c', 'cat /mnt/out/given >/mnt/out/made; echo more >>/mnt/out/given');
	is(slurp("$world/shared/made"), "from the host\n", '--bind-rw writes to the host');
	is_deeply($j->{changed}, [], 'a bind, and what is written through it, is no change of the box');
	is(cowbox('exec', 'demo', '--', 'test', '-e', '/mnt')->{status}, 1, 'and the place it was bound to is gone');
	is(slurp("$world/shared/given"), "from the host\nmore\n", 'also what was there');
	is((stat "$world/shared/made")[4], (stat "$world/shared")[4], 'as its owner');
	is_deeply([grep { $_->{path} =~ m{^/mnt/} && $_->{path} ne '/mnt/out' } @{$j->{changed}}], [], 'not to the box');
	my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die;
	my $connect = 'use IO::Socket::INET; print IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => ' . $server->sockport . ', Timeout => 5) ? "yes" : "no"';
	is(cow('exec', 'demo', '--', 'perl', '-e', $connect), 'no', '--net none');
	is(cow('exec', 'demo', '--net', 'host', '--', 'perl', '-e', $connect), 'yes', '--net host');
	my $own = 'use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die; print IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $s->sockport) ? "yes" : "no"';
	is(cow('exec', 'demo', '--', 'perl', '-e', $own), 'yes', 'the loopback inside works');
	my $plan = cow('exec', 'demo', '--dry-run', '--bind-ro', "$world/shared:/mnt/in", '--net', 'host', '--mem', '1G');
	like($plan, qr/$_/, "--dry-run: $_") for 'shared', '/mnt/in', '/proc', '/usr';
	my $steps = json('info', 'demo')->{steps};
	like(cow('exec', 'demo', '--dry-run'), qr{^dev +/dev, .*at most 1024 KiB, its shm at most 524288 KiB$}m, 'of /dev what it holds itself');
	my ($dev) = grep { $_->{op} eq 'dev' } @{json('exec', 'demo', '--dry-run')->{plan}{ops}};
	is_deeply([@$dev{'size_bytes', 'shm_bytes'}], [1 << 20, 512 << 20], '--dry-run --json');
	is(json('info', 'demo')->{steps}, $steps, 'nothing is run');
};

subtest 'others meanwhile' => sub {
	fixture_again();
	my $run = start('exec', 'demo', '--', 'sh', '-c', 'echo ready; read line; echo "$line" >theirs');
	is(readline($run->{out}), "ready\n", 'a program waits');
	cow('write', 'demo:/work/ours', 'ours');
	my $base = json('info', 'demo')->{steps} - 1;
	my @kept = sort { $a->{why} cmp $b->{why} } @{json('stats')->{kept}};
	is_deeply([map {"$_->{box}\@$_->{step} $_->{why}"} @kept], ["demo\@$base command", "demo\@$base what a command began from"], 'what it began from is kept');
	ok($kept[0]{pid} && !$kept[0]{pinned} && $kept[1]{pinned} && $kept[1]{since} =~ /^\d{4}-/, 'by its process, and for whoever captures it');
	like(cow('stats'), qr/^kept +demo\@$base  command  process \d+  since /m, 'as text');
	print {$run->{in}} "theirs\n";
	my $r = finish($run);
	is($r->{status}, 0, 'the box moved') or diag($r->{err});
	is_deeply(json('stats')->{kept}, [], 'nothing is kept when it has ended');
	is_deeply([box_file('/work/ours'), box_file('/work/theirs')], ["ours\n", "theirs\n"], 'both are there');
	$run = start('exec', 'demo', '--', 'sh', '-c', 'echo ready; read line; echo "$line" >a.txt');
	readline($run->{out});
	cow('write', 'demo:/work/a.txt', 'ours');
	print {$run->{in}} "theirs\n";
	$r = finish($run);
	is($r->{status}, 125, 'the same file');
	like($r->{err}, qr/\Acowbox: conflict in \/work\/a.txt[^\n]*box '(\S+)'[^\n]*'cowbox merge \1 --into demo --prefer \1'[^\n]*\n\z/, 'the fork and what to do are said');
	my ($fork) = $r->{err} =~ /kept as box '(\S+)'/;
	is(cow('cat', "$fork:/work/a.txt"), "theirs\n", 'nothing is lost');
	like(cow('merge', $fork, '--into', 'demo', '--prefer', $fork, '--dry-run'), qr/without open conflicts/, 'what is to be done can be done');
	is(box_file('/work/a.txt'), "ours\n", 'nothing is overwritten');
	# With --json nothing is heard of the program before its end: when the write came before its start there is no conflict, and more patience is due.
	for my $patience (1, 5, 20, 60) {
		$run = start('--json', 'exec', 'demo', '--', 'sh', '-c', 'read line; echo "$line" >a.txt; echo told');
		sleep $patience;
		cow('write', 'demo:/work/a.txt', "ours again, after $patience");
		print {$run->{in}} "theirs\n";
		$r = finish($run);
		last if $r->{status} != 0;
	}
	is(decode($r->{err})->{error}{code}, 'CONFLICT', 'json: the error');
	is(decode($r->{out})->{stdout}, "told\n", 'json: the result too');
	like(decode($r->{out})->{fork}, qr/\A\S+\z/, 'json: the fork');
	is_deeply(decode($r->{err})->{error}{conflicts}, [{path => '/work/a.txt', reason => 'changed on both sides'}], 'json: the conflicts');
	my @runs = map { start('exec', 'demo', '--', 'sh', '-c', "read line; echo $_ >many$_") } 1 .. 4;
	print {$_->{in}} "go\n" for @runs;
	is_deeply([map { finish($_)->{status} } @runs], [0, 0, 0, 0], 'several at once');
	is(box_file("/work/many$_"), "$_\n", "and the change of number $_") for 1 .. 4;
};

subtest 'a quota' => sub {
	cow('new', 'bounded');
	cow('quota', 'bounded', '--bytes', '100k');
	my $before = json('info', 'bounded')->{step};
	my $r = cowbox('exec', 'bounded', '--sh', 'echo result >small; head -c 500k /dev/zero >big');
	is($r->{status}, 125, 'an error of cowbox');
	like($r->{err}, qr/\Acowbox: the box may hold 102400 bytes: what the program did is kept as box '(\S+)'[^\n]*cowbox diff bounded \1[^\n]*\n\z/, 'which is said, with where it is');
	my ($fork) = $r->{err} =~ /kept as box '(\S+)'/;
	is(cow('cat', "$fork:/work/small"), "result\n", 'nothing is lost');
	is(json('info', 'bounded')->{step}, $before, 'and nothing came into the box');
	$r = cowbox('--json', 'exec', 'bounded', '--sh', 'head -c 500k /dev/zero >big; echo told');
	is($r->{status}, 125, 'json: the status');
	is(decode($r->{err})->{error}{code}, 'QUOTA', 'json: the error');
	my $said = decode($r->{out});
	is_deeply([$said->{stdout}, $said->{step}, $said->{changed}[0]{path}], ["told\n", 0, '/work/big'], 'json: the result');
	like($said->{fork}, qr/\A\S+\z/, 'json: the fork');
	cow('delete', 'bounded', '--yes');
};

subtest 'signals' => sub {
	my $run = start('exec', 'demo', '--', 'sh', '-c', 'echo kept >interrupted; echo ready; exec sleep 1000');
	readline($run->{out});
	kill 'INT', $run->{pid};
	my $r = finish($run);
	is_deeply([@$r{qw(status signal)}], [130, 0], 'SIGINT is the program\'s') or diag($r->{err});
	is(box_file('/work/interrupted'), "kept\n", 'what it wrote is captured');
	$run = start('exec', 'demo', '--', 'sh', '-c', 'echo ready; read line; echo "got $line"');
	readline($run->{out});
	kill 'TSTP', $run->{pid};
	my $state = '';
	for (1 .. 600) {
		($state) = slurp("/proc/$run->{pid}/stat") =~ /\) (\w)/;
		last if $state eq 'T';
		select undef, undef, undef, 0.05;
	}
	is($state, 'T', 'SIGTSTP stops');
	kill 'CONT', $run->{pid};
	print {$run->{in}} "line\n";
	$r = finish($run);
	is_deeply([@$r{qw(out status)}], ["got line\n", 0], 'SIGCONT goes on');
	for my $name (qw(INT TERM HUP)) {
		$run = start('exec', 'demo', '--', 'sh', '-c', "trap 'echo got; exit 5' $name; echo ready; while :; do sleep 0.05; done");
		readline($run->{out});
		kill $name, $run->{pid};
		$r = finish($run);
		is_deeply([@$r{qw(out status)}], ["got\n", 5], "SIG$name can be answered");
	}
	$run = start('exec', 'demo', '--', 'sh', '-c', 'trap "echo no" INT; echo kept >stubborn; echo ready; while :; do sleep 0.05; done');
	readline($run->{out});
	kill 'INT', $run->{pid};
	is(readline($run->{out}), "no\n", 'one that goes on');
	kill 'INT', $run->{pid};
	is(finish($run)->{status}, 137, 'a second SIGINT kills it');
	is(box_file('/work/stubborn'), "kept\n", 'what it wrote is captured');
	$run = start('exec', 'demo', '--', 'sh', '-c', 'echo kept >orphan; echo ready; exec sleep 1000');
	readline($run->{out});
	kill 'KILL', $run->{pid};
	finish($run);
	my $log;
	for (1 .. 100) {
		$log = cowbox('cat', 'demo:/work/orphan');
		last if $log->{status} == 0;
		select undef, undef, undef, 0.1;
	}
	is($log->{out}, "kept\n", 'what a killed cowbox left is captured by the next command');
	like(newest()->{result}, qr/interrupted/, 'as an interrupted step');
};

subtest 'what a killed cowbox left cannot enter its box' => sub {
	for my $why ('conflict', 'quota') {
		cow('new', $why);
		cow('write', "$why:/work/v", '1');
		my $run = start('exec', $why, '--', 'sh', '-c', 'echo valuable >v; echo ready; exec sleep 1000');
		readline($run->{out});
		cow('write', "$why:/work/v", 'other') if $why eq 'conflict';
		cow('quota', $why, '--bytes', '3') if $why eq 'quota';
		kill 'KILL', $run->{pid};
		finish($run);
		my $r = cowbox('cat', "$why:/work/v");
		like($r->{err}, qr/kept as box '(\S+)': 'cowbox log \1'/, "$why: the next command says where it is");
		unlike($r->{err}, qr/'cowbox log' shows/, "$why: and not that it is in the box");
		my ($fork) = $r->{err} =~ /kept as box '(\S+)'/;
		is(cow('cat', "$fork:/work/v"), "valuable\n", "$why: there it is");
		cow('delete', $why, $fork, '--yes');
	}
};

# A run whose cowbox is killed while it waits.
sub kill_run {
	my ($box, $script) = @_;
	my $run = start('exec', $box, '--', 'sh', '-c', "$script; echo ready; exec sleep 1000");
	readline($run->{out});
	kill 'KILL', $run->{pid};
	finish($run);
}

subtest 'what is said of an interrupted run' => sub {
	cow('new', 'said');
	kill_run('said', 'echo valuable >v; truncate -s 9T big; mkfifo pipe');
	my $r = cowbox('cat', 'said:/work/v');
	is($r->{out}, "valuable\n", 'what can be kept is captured');
	like($r->{err}, qr{/work/big: left out: a file may have .*/work/pipe: left out: a FIFO.*captured what 1 interrupted program left}s, 'and what cannot is said');
	is(cowbox('cat', 'said:/work/v')->{err}, '', 'once');
	my $step = json('show', 'said@1');
	is(decode($step->{result})->{left_out}, 2, 'the step says it too');
	kill_run('said', 'echo more >w');
	# Another boot, to a process whose own it is.
	my $boot = '/proc/sys/kernel/random/boot_id';
	open(my $f, '>', "$world/boot") or die; print $f "00000000-0000-0000-0000-000000000000\n"; close $f;
	my $how = $> == 0 ? '-m' : '-rm';
	return if system("unshare $how mount --bind $world/boot $boot 2>/dev/null") != 0;
	my $err = `unshare $how sh -c 'mount --bind $world/boot $boot && exec ${\program()} log said' 2>&1 >/dev/null`;
	like($err, qr/what an interrupted program left in box 'said' is lost: the machine was started anew/, 'what is lost is said');
	unlike($err, qr/captured/, 'and not called captured');
};

subtest 'dropping what was left' => sub {
	is(cow('exec', 'demo', '--discard'), "dropped what 0 programs left in box 'demo'\n", 'there is nothing');
	is_deeply(json('exec', 'demo', '--discard'), {box => 'demo', dropped => 0}, 'json');
	fails(['exec', 'nobody', '--discard'], 'NOTFOUND', 125, qr/nobody/);
};

subtest 'backup beside runs' => sub {
	my $copied = sub {
		my ($copy, @words) = @_;
		return cowbox('--store', $copy, @words)->{out};
	};
	cow('new', 'saved');
	kill_run('saved', 'echo valuable >v');
	my $r = cowbox('backup', "$world/after-kill");
	is($r->{status}, 0, 'backup as the first command after a kill');
	like($r->{err}, qr/captured what 1 interrupted program left/, 'captures what was left');
	is($copied->("$world/after-kill", 'cat', 'saved:/work/v'), "valuable\n", 'and has it');
	my $run = start('exec', 'saved', '--', 'sh', '-c', 'echo later >v; echo ready; read line');
	readline($run->{out});
	cow('backup', "$world/beside");
	is($copied->("$world/beside", 'cat', 'saved:/work/v'), "valuable\n", 'of a run that goes on nothing is in the copy');
	unlike($copied->("$world/beside", 'stats'), qr/command began/, 'and nothing is kept for it');
	like(cow('stats'), qr/command began/, 'as it is in the store');
	print {$run->{in}} "line\n";
	is(finish($run)->{status}, 0, 'the run goes on');
	is(cow('cat', 'saved:/work/v'), "later\n", 'and is captured');
};

subtest 'terminal' => sub {
	my $shown = pty("stty rows 33 cols 77; cowbox exec demo -t -- sh -c 'test -t 0 && test -t 1 && test -t 2 && echo all three; stty size; tty'");
	$shown =~ s/\^\@//g; # script(1) types that at the end of what is typed
	like($shown, qr/all three\r\n33 77\r\n\/dev\/pts\/\d+\r\n\z/, 'a terminal of its own, of our size');
	$shown = pty(q{a=$(stty -g); cowbox exec demo -t -- sh -c 'exit 3'; echo "status $?"; test "$a" = "$(stty -g)" && echo restored});
	like($shown, qr/status 3\r\nrestored/, 'ours is put back');
	$shown = pty(q{cowbox exec demo -t -- sh -c 'stty -echo; echo ready; read line; echo "read $line"'}, "typed\n");
	like($shown, qr/read typed/, 'what is typed');
	$shown = pty(q{(sleep 0.5; stty -F /dev/tty rows 44 cols 88) & cowbox exec demo -t --timeout 60s -- sh -c 'until test "$(stty size)" = "44 88"; do sleep 0.1; done; echo resized'});
	like($shown, qr/resized/, 'a new size is passed on');
	$shown = pty(q{cowbox exec demo -- sh -c 'test -t 1 || echo none; cat; echo end'}, "typed\n");
	like($shown, qr/none\r\nend/, 'without -t: no terminal and no input');
	$shown = pty(q{cowbox exec demo -i -- sh -c 'read line; echo "read $line"'}, "typed\n");
	like($shown, qr/read typed/, '-i: what is typed');
	is(cow('exec', 'demo', '-t', '--', 'sh', '-c', 'test -t 1 && echo yes', {notes => 1}), "yes\r\n", '-t without a terminal of ours');
	like(pty(q{TERM=vt100 cowbox exec demo -t -- sh -c 'echo $TERM'}), qr/vt100/, 'TERM is passed on');
	is(cowbox('--json', 'exec', 'demo', '-t', '--', 'true')->{status}, 125, '--json has no terminal');
	is(pty("cowbox exec demo -- true"), '', 'nothing is said of a run without news');
};

# /proc/PID is another process there: nothing may be written to it.
subtest 'a pid namespace without a /proc of its own' => sub {
	my ($how) = grep { shell("$_ true")->{status} == 0 } 'unshare -p -f', 'unshare -r -p -f';
	my $reason = $how ? '' : lacks('namespaces', 'no new pid namespace');
	plan(skip_all => $reason) if $reason;
	for my $tier ('', '--weak') {
		my $r = shell("$how cowbox exec demo $tier -- true");
		is($r->{status}, 125, 'refused');
		like($r->{err}, qr{/proc shows the processes of another pid namespace: mount one of this namespace first}, 'with what to do');
	}
	like(shell("$how cowbox doctor")->{out}, qr{unshare --mount-proc$}m, 'doctor says it too');
	is(shell("$how --mount-proc cowbox exec demo -- echo hi")->{out}, "hi\n", 'with one it works');
	is(shell("$how cowbox gc")->{status}, 0, 'and keeping house needs none');
};

subtest 'keeping house' => sub {
	ok(exists json('gc')->{work_folders_removed}, 'gc');
	cow('new', 'gone');
	cow('exec', 'gone', '--', 'sh', '-c', 'echo x >x');
	cow('delete', 'gone', '--yes', {notes => 1});
	ok(json('gc')->{work_folders_removed} > 0, 'gc removes the folders of a deleted box');
	is(json('gc')->{work_folders_removed}, 0, 'once');
	cow('exec', 'demo', '--', 'sh', '-c', 'head -c 20000000 /dev/zero >large');
	cow('rm', 'demo:/work/large');
	ok(json('gc')->{work_folders_removed} > 0, 'and those of a living one');
	my ($left) = shell("du -sk \Q$ENV{COWBOX_STORE}\E/work")->{out} =~ /^(\d+)/;
	ok($left < 1000, "nothing of them is left ($left kB)");
	my $run = start('exec', 'demo', '--', 'sh', '-c', 'echo 1 >one; echo ready; read line; cat one >two');
	is(readline($run->{out}), "ready\n", 'a program waits');
	is(json('gc')->{work_folders_removed}, 0, 'gc leaves its folder');
	is(finish($run)->{status}, 0, 'and it goes on');
	is(cow('cat', 'demo:/work/two'), "1\n", 'with its files');
	is(cow('exec', 'demo', '--', 'echo', 'still'), "still\n", 'and programs run');
	cow('fsck');
};

subtest 'as root, the user that programs are on the host' => sub {
	plan skip_all => 'not root' if $>;
	cow('exec', 'demo', '--', 'true');
	my $work = "$ENV{COWBOX_STORE}/work";
	my $uid = (stat "$work/area")[4];
	ok($uid >= 1900000000, 'a reserved one');
	cow('exec', 'demo', '--', 'sh', '-c', 'echo x >whose');
	# What earlier builds left, empty after a power cut.
	spill("$work/uid", '');
	is(cow('exec', 'demo', '--', 'cat', 'whose'), "x\n", 'whose the folder is tells it');
	is((stat "$work/area")[4], $uid, 'and it stays so');
	system('rm', '-rf', $work) == 0 or die;
	my @runs = map { start('exec', 'demo', '--', 'sh', '-c', "echo x >together-$_") } 1 .. 4;
	is(join(' ', map { finish($_)->{status} } @runs), '0 0 0 0', 'first runs at once agree on one');
	cow('cat', "demo:/work/together-$_") for 1 .. 4;
	chown 1000, 1000, "$work/area" or die;
	like(cowbox('exec', 'demo', '--', 'true')->{err}, qr/belongs to user 1000: remove/, 'somebody else is refused');
	chown 0, 0, "$work/area" or die;
	system('rm', '-rf', $work) == 0 or die;
};

subtest 'a FIFO in place of a file of work' => sub {
	my $work = "$ENV{COWBOX_STORE}/work";
	cow('exec', 'demo', '--', 'true');
	my @slots = glob "$work/slots/*";
	for my $file ("$work/layers.lock", $slots[0]) {
		-e $file or next;
		rename $file, "$world/aside" and system('mkfifo', '-m', '600', $file) == 0 or die;
		my $r = shell("timeout 20 cowbox exec demo -- true; echo \$?; timeout 20 cowbox gc >&2; echo \$?");
		unlike($r->{out}, qr/124/, "$file: nobody waits");
		unlink $file and rename "$world/aside", $file or die;
	}
	is(cow('exec', 'demo', '--', 'echo', 'still'), "still\n", 'and programs run');
};

done_testing();
