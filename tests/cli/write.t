#!/usr/bin/perl
# write and append: content from a text, standard input, a file; versions; missing folders.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo');

cow('write', 'demo:/work/a.txt', 'hello');
is(cow('cat', 'demo:/work/a.txt'), "hello\n", 'a text is a line');
cow('write', 'demo:/work/a.txt', '--exact', 'hello');
is(cow('cat', 'demo:/work/a.txt'), 'hello', 'an exact text has no newline');
cow('write', 'demo:a.txt', {in => "x\0y\xff"});
is(cow('cat', 'demo:a.txt'), "x\0y\xff", 'bytes from standard input');
spill('host.txt', 'from the host');
cow('write', 'demo:a.txt', '--file', 'host.txt');
is(cow('cat', 'demo:a.txt'), 'from the host', 'content of a file');
cow('append', 'demo:a.txt', ' and more');
is(cow('cat', 'demo:a.txt'), "from the host and more\n", 'append');

my $w = json('write', 'demo:b.txt', 'one');
is($w->{path}, '/work/b.txt', 'json: path');
is($w->{size}, 4, 'json: size');
is($w->{step}, json('info', 'demo')->{steps}, 'json: step');
fails(['write', 'demo:b.txt', 'two', '--expected-version', 1, '--new'], 'INVALID', 2, qr/one of them/);
fails(['write', 'demo:b.txt', 'two', '--expected-version', $w->{version} + 1], 'VERSION', 9, qr/version/);
fails(['write', 'demo:b.txt', 'two', '--new'], 'EXISTS', 5, qr/exists already; without --new/);
cow('write', 'demo:b.txt', 'two', '--expected-version', $w->{version});

# ---- more than is held in memory: still one step ----
my $piece = join '', map { "line $_\n" } 1 .. 400_000;
my $long = $piece x 8;
my $steps = json('info', 'demo')->{steps};
is(json('write', 'demo:long/file', '--parents', '--mode', '600', {in => $long})->{step}, $steps + 1, 'a long input: one step');
ok(cow('cat', 'demo:long/file') eq $long, 'all of it');
is(json('stat', 'demo:long/file')->{entries}[0]{mode}, '0600', 'with the mode that was wanted');
spill('long', $long);
is(json('append', 'demo:long/file', '--file', 'long')->{step}, $steps + 2, 'append, of a file');
ok(cow('cat', 'demo:long/file') eq $long x 2, 'all of both');
fails(['write', 'demo:long/file', '--new', '--file', 'long'], 'EXISTS', 5, qr/exists already/);
cow('cp', 'long', 'host.txt', 'demo:long');
ok(cow('cat', 'demo:long/long') eq $long, 'cp of several files');
is(json('info', 'demo')->{steps}, $steps + 3, 'each was one step');
cow('rm', '-r', 'demo:long');

fails(['write', 'demo:no/such/c.txt', 'x'], 'NOTFOUND', 4, qr/--parents/);
cow('write', 'demo:no/such/c.txt', 'x', '--parents');
fails(['write', 'demo@0:a.txt', 'x'], 'READONLY', 77, qr/cowbox fork/);
fails(['write', 'nosuch:a.txt', 'x'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['write', 'demo:/etc/passwd', 'x', '--parents'], 'RESERVED', 2, qr/etc/);
fails(['write'], 'INVALID', 2, qr/PATH.*cowbox help write/);

# What belongs to the system cannot be made by --parents either, and is said at once.
cow('new', 'system');
for my $words (['write', 'system:/etc/x', 'hi'], ['append', 'system:/usr/lib/x', 'hi'], ['mkdir', 'system:/etc/x/y'], ['write', 'system:/etc/x', 'hi', '--parents'],
	['touch', 'system:/var/x'], ['cp', '-r', 'system:/work', 'system:/etc/x']) {
	my $r = cowbox(@$words);
	is($r->{status}, 2, "@$words");
	like($r->{err}, qr{\Acowbox: [^\n]*'/(?:etc|usr|var)' belongs to the system: use another name at the root of a box\n\z}, 'why, and no other advice');
}
fails(['write', 'system:/no/x', 'hi'], 'NOTFOUND', 4, qr/--parents makes missing folders/);
fails(['cat', 'system:/etc/x'], 'NOTFOUND', 4, qr{/etc});

done_testing();
