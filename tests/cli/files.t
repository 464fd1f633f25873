#!/usr/bin/perl
# mv, rm, mkdir, touch, ln, chmod: one command is one step, all of it or nothing.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

use MIME::Base64 ();
world();
cow('new', 'demo', '--use');
cow('new', 'other');

sub steps { json('info', $_[0] || 'demo')->{steps} }

# The command makes exactly one step, and says which.
sub one_step {
	my $before = steps();
	my $result = json(@_);
	is($result->{step}, $before + 1, "one step: @_");
	is(steps(), $before + 1, 'and no other');
	return $result;
}

sub no_step {
	my ($code, $status, $pattern, @words) = @_;
	my ($before, $list) = (steps(), cow('ls', '-l', '/work'));
	my $error = fails([@words], $code, $status, $pattern);
	is(steps(), $before, 'no step');
	is(cow('ls', '-l', '/work'), $list, 'nothing changed');
	return $error;
}

# ---- mkdir ----
is_deeply(one_step('mkdir', 'a', 'b', 'demo:/work/c')->{paths}, ['/work/a', '/work/b', '/work/c'], 'mkdir: several');
no_step('EXISTS', 5, qr/--parents/, 'mkdir', 'd', 'a');
no_step('NOTFOUND', 4, qr/--parents/, 'mkdir', 'd', 'no/such');
one_step('mkdir', '-p', 'a/x/y', 'b');
is(json('mkdir', '-p', 'a/x')->{step}, 0, 'an existing folder is no step');
one_step('mkdir', '-m', '700', 'private');
is(json('stat', 'private')->{entries}[0]{mode}, '0700', 'mkdir -m');
one_step('mkdir', '-m', 'u=rwx,go=', 'private2');
is(json('stat', 'private2')->{entries}[0]{mode}, '0700', 'mkdir -m with letters');
no_step('INVALID', 2, qr/./, 'mkdir', '-m', 'u+q', 'e');
no_step('CROSSBOX', 2, qr/different boxes/, 'mkdir', 'demo:e', 'other:e');
no_step('READONLY', 77, qr/cowbox fork/, 'mkdir', 'demo@1:e');
no_step('RESERVED', 2, qr/./, 'mkdir', '/proc');
fails(['mkdir'], 'INVALID', 2, qr/PATH/);
one_step('mkdir', '--', "new\nline", '-dash', "bad\xff");
is(cow('ls', '-d', ":bad\xff"), "/work/bad\xff\n", 'names from anywhere');

# ---- touch ----
one_step('touch', 'a/1', 'a/2', 'a/3');
is(cow('ls', ':a'), "1\n2\n3\nx\n", 'touch makes files');
one_step('touch', '--time', '2026-01-31T12:00:00Z', 'a/1', 'a/new');
is(json('stat', "a/$_")->{entries}[0]{mtime}, '2026-01-31T12:00:00.000000000Z', "touch --time: $_") for '1', 'new';
cow('write', 'a/2', 'content');
one_step('touch', '-t', '2020-01-01', 'a/2');
is(cow('cat', 'a/2'), "content\n", 'touch keeps the content');
one_step('touch', 'a/2');
unlike(json('stat', 'a/2')->{entries}[0]{mtime}, qr/^2020/, 'touch: now');
is(json('touch', '-c', 'a/none')->{step}, 0, '--no-create');
fails(['cat', 'a/none'], 'NOTFOUND', 4, qr/./);
no_step('NOTFOUND', 4, qr/--parents/, 'touch', 'a/ok', 'no/such/file');
fails(['cat', 'a/ok'], 'NOTFOUND', 4, qr/./);
one_step('touch', '-p', 'made/for/file');
no_step('INVALID', 2, qr/time/, 'touch', '--time', 'yesterdayish', 'a/1');

# ---- ln ----
cow('write', 'file', 'one');
my $link = one_step('ln', 'file', 'hard');
is_deeply([@$link{qw(target path)}], ['/work/file', '/work/hard'], 'json of ln');
cow('write', 'hard', 'two');
is(cow('cat', 'file'), "two\n", 'a hard link is the same file');
is(json('stat', 'file')->{entries}[0]{links}, 2, 'with two names');
one_step('ln', '-s', '../file', 'a/soft');
is(cow('cat', 'a/soft'), "two\n", 'a symbolic link');
is(json('stat', 'a/soft')->{entries}[0]{target}, '../file', 'its text is kept');
one_step('ln', '-s', '/etc/passwd', 'out');
fails(['cat', 'out'], 'NOTFOUND', 4, qr/./);
one_step('ln', 'file', 'b');
is(cow('cat', 'b/file'), "two\n", 'into a folder');
no_step('EXISTS', 5, qr/./, 'ln', 'file', 'hard');
no_step('NOTFOUND', 4, qr/./, 'ln', 'nosuch', 'x');
no_step('CROSSBOX', 2, qr/./, 'ln', 'demo:file', 'other:x');
ok(cowbox('ln', 'a', 'dirhard')->{status} != 0, 'no hard link to a folder');
one_step('ln', '-s', 'loop', 'loop');
fails(['cat', 'loop'], 'LOOP', 6, qr/./);

# ---- chmod ----
one_step('chmod', '600', 'file', 'a/2');
is(json('stat', 'hard')->{entries}[0]{mode}, '0600', 'chmod with a number');
one_step('chmod', 'u+x,go+r', 'file');
is(json('stat', 'file')->{entries}[0]{mode}, '0744', 'with letters');
one_step('chmod', '--', '-x', 'file');
is(json('stat', 'file')->{entries}[0]{mode}, '0644', 'a mode that begins with a dash');
is(json('chmod', '644', 'file')->{step}, 0, 'the mode it has: no step');
one_step('chmod', '-R', 'g+w,a+X', 'a');
is(json('stat', 'a/x')->{entries}[0]{mode}, '0775', '-R: folders');
is(json('stat', 'a/1')->{entries}[0]{mode}, '0664', '-R: files get no x by X');
is(json('stat', 'file')->{entries}[0]{mode}, '0644', '-R follows no link');
cow('ln', '-s', 'a', 'to-a');
cow('ln', '-s', 'file', 'to-file');
one_step('chmod', '-R', 'o+w', 'to-a', 'to-file');
my %mode = ('a' => '0777', 'a/x' => '0777', 'a/1' => '0666', 'file' => '0646');
is(json('stat', $_)->{entries}[0]{mode}, $mode{$_}, "-R follows a link that is named: $_") for sort keys %mode;
one_step('chmod', '-R', 'o-w', 'to-a', 'to-file');
no_step('NOTFOUND', 4, qr/nosuch/, 'chmod', '600', 'file', 'nosuch');
no_step('INVALID', 2, qr/./, 'chmod', '999', 'file');
no_step('INVALID', 2, qr/./, 'chmod', 'u+q', 'nosuch');

# ---- mv ----
my $moved = one_step('mv', 'a/1', 'a/2', 'b');
is_deeply($moved->{moved}, [{from => '/work/a/1', to => '/work/b/1'}, {from => '/work/a/2', to => '/work/b/2'}], 'json of mv');
is(cow('ls', ':b'), "1\n2\nfile\n", 'moved into a folder');
one_step('mv', 'b/1', 'renamed');
one_step('mv', 'a', 'moved');
is(json('stat', 'moved/x')->{entries}[0]{type}, 'folder', 'a folder with all in it');
one_step('mv', 'renamed', 'b/2');
is(cow('cat', 'b/2'), '', 'a file that is there is replaced');
cow('write', 'x', 'x');
no_step('EXISTS', 5, qr/./, 'mv', '-n', 'x', 'b/2');
no_step('NOTDIR', 6, qr/several/, 'mv', 'x', 'file', 'hard');
no_step('NOTFOUND', 4, qr/./, 'mv', 'x', 'nosuch', 'b');
no_step('NOTFOUND', 4, qr/no folder/, 'mv', 'x', 'nosuch/');
cow('mkdir', 'from1', 'from2');
cow('touch', 'from1/same', 'from2/same');
no_step('INVALID', 2, qr/two of the sources/, 'mv', 'from1/same', 'from2/same', 'b');
no_step('INVALID', 2, qr/./, 'mv', 'moved', 'moved/x');
no_step('INVALID', 2, qr/no name of its own/, 'mv', '/work/moved/..', 'b');
no_step('CROSSBOX', 2, qr/cowbox cp/, 'mv', 'demo:x', 'other:x');
fails(['mv', 'x'], 'INVALID', 2, qr/TARGET/);
is(cow('cat', 'x'), "x\n", 'all of that moved nothing');
my $version = json('stat', 'x')->{entries}[0]{ino};
cow('mv', 'x', 'y');
is(json('stat', 'y')->{entries}[0]{ino}, $version, 'the same file under another name');

# ---- rm ----
one_step('rm', 'y', 'out');
fails(['cat', 'y'], 'NOTFOUND', 4, qr/./);
no_step('ISDIR', 6, qr/-r/, 'rm', 'file', 'moved');
no_step('NOTFOUND', 4, qr/nosuch/, 'rm', 'file', 'nosuch');
is(cow('cat', 'file'), "two\n", 'all or nothing');
one_step('rm', '-f', 'hard', 'nosuch');
is(json('rm', '-f', 'nosuch')->{step}, 0, '-f of nothing is no step');
is(json('rm', '-f', 'file/below', 'file/below/it')->{step}, 0, '-f of what cannot be there');
cow('ln', '-s', 'moved', 'tofolder');
one_step('rm', 'tofolder');
is(json('stat', 'moved')->{entries}[0]{type}, 'folder', 'a link is removed, not what it leads to');
one_step('rm', '-r', 'moved', 'b', "new\nline");
fails(['ls', ':moved'], 'NOTFOUND', 4, qr/./);
ok(cowbox('rm', '-r', '/')->{status} != 0, 'the root stays');
cow('write', "n/$_", 'x', '-p') for 1 .. 3;
one_step('rm', map { "n/$_" } 1 .. 3);
one_step('touch', map { "n/many-$_" } 1 .. 1000);
is(scalar @{json('ls', ':n')->{entries}}, 1000, 'a thousand operands, one step');
my $name = json('--who', 'ann', 'touch', 'n/who');
ok($name->{step}, '--who is taken');

# ---- two shells on one box ----
my @children;
for my $shell (1 .. 2) {
	my $pid = fork;
	if (!$pid) {
		for my $i (1 .. 15) {
			my $r = cowbox('touch', "race/$shell-$i-a", "race/$shell-$i-b", '-p');
			POSIX::_exit(1) if $r->{status} != 0;
			$r = cowbox('append', 'race/log', "$shell $i");
			POSIX::_exit(2) if $r->{status} != 0;
		}
		POSIX::_exit(0);
	}
	push @children, $pid;
}
for my $pid (@children) {
	waitpid $pid, 0;
	is($?, 0, 'a shell beside another');
}
is(scalar @{json('ls', ':race')->{entries}}, 61, 'nothing of either is lost');
is(scalar(split /\n/, cow('cat', 'race/log')), 30, 'nor a line');

# The same files at the same time: each command did all of it, or nothing and says where its result is.
cow('touch', 'same-a', 'same-b');
pipe my $reader, my $writer or die;
@children = ();
for my $shell (1 .. 3) {
	my $pid = fork;
	if (!$pid) {
		for my $i (1 .. 10) {
			my $r = cowbox('chmod', '6' . ($i % 8) . $shell, 'same-a', 'same-b');
			$r->{err} =~ s/\n//g;
			syswrite $writer, "$r->{status} $r->{err}\n";
		}
		POSIX::_exit(0);
	}
	push @children, $pid;
}
close $writer;
my @lines = <$reader>;
waitpid $_, 0 for @children;
is(scalar @lines, 30, 'all of them ended');
my @conflicts = grep { /^9 / } @lines;
is(scalar(grep { !/^0 \n/ && !/^9 cowbox: conflict in .*same-.*; the result is kept as box '(demo-conflict-\d+)'; .*'cowbox merge \1 --into demo --prefer \1'/ } @lines),
	0, 'done, or a conflict that names the fork') or diag(@lines);
my %kept = map { /(demo-conflict-\d+)/ ? ($1 => 1) : () } @conflicts;
is(scalar keys %kept, scalar @conflicts, 'a fork for each of the ' . @conflicts . ' conflicts');
my @modes = map { $_->{mode} } @{json('stat', 'same-a', 'same-b', (map { ("$_:same-a", "$_:same-b") } sort keys %kept))->{entries}};
while (my ($one, $two) = splice @modes, 0, 2) { is($one, $two, 'both or none') }

# ---- names that are not UTF-8 ----
cow('mkdir', 'plain');
for my $words (['touch'], ['chmod', '600'], ['rm']) {
	my $result = json(@$words, "demo:n\xff", 'demo:plain', $words->[0] eq 'rm' ? '-r' : ());
	is_deeply([@$result{'paths', 'paths_base64'}], [["/work/n\x{fffd}", '/work/plain'], [MIME::Base64::encode("/work/n\xff", ''), undef]], "$words->[0]: exact paths");
}

subtest 'what is missing, and what was done' => sub {
	cow('new', 'told');
	cow('write', 'told:/work/f', '1');
	my $makes = qr{no such folder: '/work/nodir', on the way to '/work/nodir/x'; 'cowbox mkdir --parents' makes folders};
	fails(['mv', 'told:/work/f', 'told:/work/nodir/x'], 'NOTFOUND', 4, qr{/work/nodir', on the way to});
	for my $words (['mv', 'told:/work/f'], ['ln', 'told:/work/f'], ['ln', '-s', 'f'], ['cp', 'told:/work/f']) {
		my $r = cowbox(@$words, 'told:/work/nodir/x');
		like($r->{err}, $makes, "@$words into a folder that is missing");
	}
	my $r = cowbox('mv', 'told:/work/nope', 'told:/work/x');
	like($r->{err}, qr{no such file or folder: '/work/nope'$}, 'the source is missing, and no folder');
	$r = cowbox('ln', 'told:/work/nope', 'told:/work/x');
	like($r->{err}, qr{no such file or folder: '/work/nope'$}, 'so with ln');
	cow('touch', 'told:/work/t');
	cow('mv', 'told:/work/f', 'told:/work/g');
	is(cow('log', 'told', '--oneline'), "3 rename /work/f /work/g\n2 create /work/t\n1 write /work/f\n0 new\n", 'both names; made, not appended to');
	is(json('log', 'told', '-n', '1')->{steps}[0]{params}, '/work/f /work/g', 'json: both names');
	like(cow('audit', 'told'), qr{rename.*/work/f /work/g}, 'the audit: both names');
	cow('quota', 'told', '--file-bytes', '10');
	mkdir 'in';
	mkdir 'in/deep';
	spill('in/small', 'x');
	spill('in/deep/large', 'x' x 100);
	fails(['import', 'in', 'told'], 'QUOTA', 10, qr{'deep/large': a file of this box may have 10 bytes});
	system('tar', 'cf', 'in.tar', '-C', 'in', '.') == 0 or die;
	$r = cowbox('import', '-', 'told', {in => slurp('in.tar')});
	like($r->{err}, qr{member '\./deep/large': a file of this box may have 10 bytes}, 'a member of a tar stream');
};

done_testing();
