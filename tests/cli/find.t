#!/usr/bin/perl
# find: every test, old states, NULs, JSON, errors.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo');
cow('write', 'demo:A.txt', '--exact', '12345');
cow('write', 'demo:dir/b.txt', '--parents', '--exact', 'x' x 2048);
cow('write', "demo:dir/new\nline", {in => ''});

is(cow('find', 'demo:/work'), "/work\n/work/A.txt\n/work/dir\n/work/dir/b.txt\n/work/dir/new\nline\n", 'everything');
is(cow('find', 'demo', '--name', '*.txt'), "/work/A.txt\n/work/dir/b.txt\n", '--name');
is(cow('find', 'demo', '--iname', 'a.*'), "/work/A.txt\n", '--iname');
is(cow('find', 'demo', '--path', '/work/*/*.txt'), "/work/dir/b.txt\n", '--path');
is(cow('find', 'demo:/work', '--type', 'd'), "/work\n/work/dir\n", '--type');
is(cow('find', 'demo', '--size', '+1k'), "/work/dir/b.txt\n", '--size +');
is(cow('find', 'demo', '--size=-1k', '--size', '+1'), "/work/A.txt\n", '--size -, and both');
is(cow('find', 'demo', '--size', '5'), "/work/A.txt\n", '--size exactly');
is(cow('find', 'demo:/work', '--type', 'f', '--older', '1h'), '', '--older');
is(cow('find', 'demo', '--newer', '1h', '--name', 'A*'), "/work/A.txt\n", '--newer');
is(cow('find', 'demo:/work', '--max-depth', 1, '--type', 'f'), "/work/A.txt\n", '--max-depth');
is(cow('find', 'demo:/work', '--empty', '--print0'), "/work/dir/new\nline\0", '--empty --print0');
is(cow('find', 'demo:/work', '--empty', '-0'), "/work/dir/new\nline\0", '-0: a digit may be a letter of an option');
is(cow('find', 'demo', '--max', 1, '--name', '*.txt'), "/work/A.txt\n", '--max');
is(cow('find', 'demo@1', '--name', '*.txt'), "/work/A.txt\n", 'an old state');
is(cow('find', 'demo@1:/work', 'demo:dir', '--name', '*.txt'), "demo\@1:/work/A.txt\ndemo:/work/dir/b.txt\n", 'several places');

my $j = json('find', 'demo', '--name', 'A.txt');
is($j->{count}, 1, 'json: count');
is($j->{entries}[0]{path}, '/work/A.txt', 'json: path');
is($j->{entries}[0]{size}, 5, 'json: size');

fails(['find', 'demo', '--size', 'big'], 'INVALID', 2, qr/\+10k/);
fails(['find', 'demo', '--name', 'a/b'], 'INVALID', 2, qr{'/'});
fails(['find', 'demo', '--name', '['], 'INVALID', 2, qr/./);
fails(['find', 'demo:/none'], 'NOTFOUND', 4, qr{/none});
fails(['find', 'demo', '--type', 'x'], 'INVALID', 2, qr/f\|d\|l|f, d|type/);

done_testing();
