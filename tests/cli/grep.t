#!/usr/bin/perl
# grep: every option, old states, several places, JSON, exit statuses, a terminal.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo');
cow('write', 'demo:a.txt', {in => "one\nTwo two\nthree\nfour\n"});
cow('write', 'demo:src/b.c', '--parents', {in => "two_x\nint two;\n"});
cow('write', 'demo:/tmp/t.txt', 'two');

is(cow('grep', 'two', 'demo:a.txt'), "Two two\n", 'one file: no path');
is(cow('grep', 'two', 'demo'), "/work/a.txt:Two two\n/work/src/b.c:two_x\n/work/src/b.c:int two;\n", 'a box, without /tmp');
is(cow('grep', '-a', '-l', 'two', 'demo'), "/tmp/t.txt\n/work/a.txt\n/work/src/b.c\n", '-a: all of it');
is(cow('grep', '-n', 'two', 'demo:/work'), "/work/a.txt:2:Two two\n/work/src/b.c:1:two_x\n/work/src/b.c:2:int two;\n", '-n');
is(cow('grep', '-c', 'two', 'demo:/work'), "/work/a.txt:1\n/work/src/b.c:2\n", '-c');
is(cow('grep', '-c', 'two', 'demo:a.txt'), "1\n", '-c of one file');
my $zero = cowbox('grep', '-c', 'nowhere', 'demo:a.txt');
is("$zero->{status} $zero->{out}", "1 0\n", '-c of one file without a match');
is(cow('grep', '-i', '-o', 'two', 'demo:a.txt'), "Two\ntwo\n", '-i -o');
is(cow('grep', '-w', 'two', 'demo:src/b.c'), "int two;\n", '-w');
is(cow('grep', '-v', 'o', 'demo:a.txt'), "three\n", '-v');
is(cowbox('grep', '-F', 't.o', 'demo:a.txt')->{status}, 1, '-F: a dot is a dot');
is(cow('grep', '-n', '-A', 1, 'one', 'demo:a.txt'), "1:one\n2-Two two\n", '-A');
is(cow('grep', '-n', '-B', 1, 'four', 'demo:a.txt'), "3-three\n4:four\n", '-B');
is(cow('grep', '-n', '-C', 1, '^three', 'demo:a.txt'), "2-Two two\n3:three\n4-four\n", '-C');
is(cow('grep', '-B', 1, '^one|four', 'demo:a.txt'), "one\n--\nthree\nfour\n", 'groups are parted');
is(cow('grep', '--include', '*.c', '-l', 'two', 'demo'), "/work/src/b.c\n", '--include');
is(cow('grep', '--exclude', 'src', '-l', 'two', 'demo'), "/work/a.txt\n", '--exclude');
is(cow('grep', '--max', 1, 'two', 'demo'), "/work/a.txt:Two two\n", '--max');
is(cow('grep', '-m', 1, 'two', 'demo'), "/work/a.txt:Two two\n/work/src/b.c:two_x\n", '-m');

cow('write', 'demo:a.txt', 'gone');
is(cow('grep', 'two', 'demo@1:a.txt'), "Two two\n", 'an old state');
is(cow('grep', '-c', 'two', 'demo@1:/work', 'demo:/work'), "demo\@1:/work/a.txt:1\ndemo:/work/src/b.c:2\n", 'several places');

my $none = cowbox('grep', 'nowhere', 'demo');
is("$none->{status}$none->{out}$none->{err}", '1', 'no match: status 1, silent');
fails(['grep', '(', 'demo'], 'INVALID', 2, qr/character 2: missing/);
fails(['grep', 'x', 'demo:/none'], 'NOTFOUND', 4, qr{/none});
fails(['grep', 'x', 'nosuch'], 'NOTFOUND', 4, qr/nosuch/);
fails(['grep'], 'INVALID', 2, qr/PATTERN/);

fails(['grep', '-C', '9223372036854775807', 'int', 'demo'], 'INVALID', 2, qr/at most \d+ lines of context can be shown/);
my $j = json('grep', '-C', 1, 'int', 'demo');
is_deeply($j, {matches => [{path => '/work/src/b.c', line => 1, text => 'two_x', context => JSON::PP::true, spans => []},
	{path => '/work/src/b.c', line => 2, text => 'int two;', spans => [[0, 3]]}],
	searched_files => 2, matched_files => 1, matched_lines => 1}, 'json');
is_deeply(json('grep', '-l', 'two', 'demo')->{files}, [{path => '/work/src/b.c'}], 'json -l');
is_deeply(json('grep', '-c', 'two', 'demo')->{files}, [{path => '/work/src/b.c', count => 2}], 'json -c');
is(cowbox('--json', 'grep', 'nowhere', 'demo')->{status}, 1, 'json: no match');

cow('write', 'demo:bin', {in => "a\0two"});
is(cow('grep', 'two', 'demo:bin'), "binary file /work/bin matches\n", 'binary');
cow('write', 'demo:esc', {in => "x \e[31m two\r\n"});
my $shown = pty('cowbox --no-pager grep two demo:esc');
like($shown, qr/\\x1b\[31m \e\[[0-9;]*mtwo/, 'a terminal: colour of ours, escapes shown');
unlike($shown, qr/\\x0d/, 'CR LF is no news');

done_testing();
