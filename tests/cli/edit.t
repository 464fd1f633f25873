#!/usr/bin/perl
# edit: words, files, JSON; counts; versions; messages; one step.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo');
cow('write', 'demo:a.txt', {in => "one\ntwo two\nthree\n"});

cow('edit', 'demo:a.txt', '--old', 'one', '--new', '1');
is(cow('cat', 'demo:a.txt'), "1\ntwo two\nthree\n", 'once');
fails(['edit', 'demo:a.txt', '--old', 'two', '--new', '2'], 'CONFLICT', 9, qr/2 times \(lines 2, 2\).*--all/);
fails(['edit', 'demo:a.txt', '--old', 'THREE', '--new', '3'], 'NOTFOUND', 4, qr/line 3 differs only in upper and lower case/);
cow('edit', 'demo:a.txt', '--old', 'two', '--new', '2', '--expect', 2);
is(cow('cat', 'demo:a.txt'), "1\n2 2\nthree\n", '--expect');
fails(['edit', 'demo:a.txt', '--old', '2', '--new', 'two', '--all', '--expect', 1], 'CONFLICT', 9, qr/2 times \(lines 2, 2\), not 1: look again/);
fails(['edit', 'demo:a.txt', '--old', '2', '--new', 'two', '--expect', 0], 'INVALID', 2, qr/--expect 0/);
fails(['edit', 'demo:a.txt'], 'INVALID', 2, qr/"expect" is not a whole number above 0/, {in => '{"old": "2", "new": "two", "expect": 0}'});
unlike(cowbox('edit', 'demo:a.txt', '--old', '2', '--new', 'two', '--expect', 1)->{err}, qr/--all/, 'no advice to do what was ruled out');
cow('edit', 'demo:a.txt', '--old', '2', '--new', 'two', '--all', '--expect', 2);
is(cow('cat', 'demo:a.txt'), "1\ntwo two\nthree\n", '--all with --expect');
cow('edit', 'demo:a.txt', {in => '{"old": "two", "new": "2", "all": true, "expect": 2}'});
is(cow('cat', 'demo:a.txt'), "1\n2 2\nthree\n", 'the same as JSON');
cow('edit', 'demo:a.txt', '--old', '2', '--new', '', '--all');
is(cow('cat', 'demo:a.txt'), "1\n \nthree\n", '--all, an empty text');
spill('old', "1\n \n");
spill('new', "x\0\n");
cow('edit', 'demo:a.txt', '--old-file', 'old', '--new-file', 'new');
is(cow('cat', 'demo:a.txt'), "x\0\nthree\n", 'files, bytes');

my $j = json('edit', 'demo:a.txt', {in => '{"old": "x\u0000\n", "new": "\u00e9\n"}'});
is($j->{replaced}, 1, 'json: replaced');
is(cow('cat', 'demo:a.txt'), "\xc3\xa9\nthree\n", 'an edit as JSON');
cow('edit', 'demo:a.txt', {in => '{"edits": [{"old": "e", "new": "E", "all": true}, {"old": "thrEE", "new": "3"}]}'});
is(cow('cat', 'demo:a.txt'), "\xc3\xa9\n3\n", 'edits as JSON');
is(cow('cat', 'demo@-1:a.txt'), "\xc3\xa9\nthree\n", 'are one step');
cow('write', 'demo:a.txt', {in => "\xc3\xa9\nthree\n"});
fails(['edit', 'demo:a.txt'], 'NOTFOUND', 4, qr/edit 2 of 2/, {in => '{"edits": [{"old": "three", "new": "3"}, {"old": "nope", "new": ""}]}'});
is(cow('cat', 'demo:a.txt'), "\xc3\xa9\nthree\n", 'all or nothing');

fails(['edit', 'demo:a.txt'], 'INVALID', 2, qr/line 1, column/, {in => 'not json'});
fails(['edit', 'demo:a.txt'], 'INVALID', 2, qr/"odl"/, {in => '{"odl": "a", "new": "b"}'});
fails(['edit', 'demo:a.txt'], 'INVALID', 2, qr/lacks "new"/, {in => '{"old": "a"}'});
fails(['edit', 'demo:a.txt', '--old', 'x'], 'INVALID', 2, qr/--new/);
fails(['edit', 'demo:a.txt', '--old', 'x', '--old-file', 'old', '--new', 'y'], 'INVALID', 2, qr/one of them/);
fails(['edit', 'demo:a.txt', '--old', '', '--new', 'y'], 'INVALID', 2, qr/empty/);
fails(['edit', 'demo:none', '--old', 'x', '--new', 'y'], 'NOTFOUND', 4, qr/none/);
fails(['edit', 'demo@1:a.txt', '--old', 'x', '--new', 'y'], 'READONLY', 77, qr/cowbox fork/);
my $version = json('write', 'demo:v', 'one')->{version};
fails(['edit', 'demo:v', '--old', 'one', '--new', 'two', '--expected-version', $version + 1], 'VERSION', 9, qr/version/);
cow('edit', 'demo:v', '--old', 'one', '--new', 'two', '--expected-version', $version);
is(cow('cat', 'demo:v'), "two\n", '--expected-version');

done_testing();
