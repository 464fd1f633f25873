#!/usr/bin/perl
# ls, tree, stat, cat: what is in a box, in any state, with names from anywhere.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;
use MIME::Base64 ();

world();
cow('new', 'demo', '--use');
is(cow('ls'), '', 'an empty folder');
cow('write', 'b.txt', 'bee');
cow('write', 'a.txt', 'hello');
cow('mkdir', 'src');
cow('write', 'src/main.c', "one\ntwo\nthree", '--exact');
cow('write', '.hidden', 'x');
cow('ln', '-s', 'a.txt', 'link');
cow('ln', '-s', 'src', 'dirlink');
cow('ln', '-s', 'nowhere', 'broken');
cow('chmod', '750', 'src');

# ---- ls ----
is(cow('ls'), ".hidden\na.txt\nb.txt\nbroken\ndirlink\nlink\nsrc\n", 'names in byte order, one per line');
is(cow('ls', 'demo'), cow('ls', '/work'), 'a box is its /work');
is(cow('ls', 'demo:'), cow('ls'), 'so is "demo:"');
is(cow('ls', 'demo@2'), "a.txt\nb.txt\n", 'an old state');
is(cow('ls', '@1'), "b.txt\n", 'an old state of the chosen box');
is(cow('ls', ':src'), "main.c\n", 'a relative path');
is(cow('ls', ':a.txt'), "/work/a.txt\n", 'a file');
is(cow('ls', ':dirlink'), "main.c\n", 'a link to a folder is followed');
is(cow('ls', '-d', ':src'), "/work/src\n", '-d');
is(cow('ls', ':a.txt', 'demo@1', ':src'), "/work/a.txt\n\ndemo\@1:\nb.txt\n\n:src:\nmain.c\n", 'several places: files first');
my @long = split /\n/, cow('ls', '-l');
is(scalar @long, 7, '-l: a line each');
like($long[1], qr/^-rw-r--r-- 1  ?6 \d{4}-\d\d-\d\dT[\d:.]+Z a\.txt$/, '-l: a file');
like($long[4], qr/^lrwxrwxrwx 1  ?3 \S+ dirlink -> src$/, '-l: a link');
like($long[6], qr/^drwxr-x--- \d  ?0 \S+ src$/, '-l: a folder');
like(cow('ls', '-l', ':dirlink'), qr/dirlink -> src$/, '-l of a link shows the link');
my $list = json('ls');
is(scalar @{$list->{entries}}, 7, 'json: entries');
is_deeply([@{$list->{entries}[1]}{qw(name path type mode size)}], ['a.txt', '/work/a.txt', 'file', '0644', 6], 'json: a file');
is_deeply([@{$list->{entries}[4]}{qw(name type target)}], ['dirlink', 'symlink', 'src'], 'json: a link');
is(json('ls', '/')->{entries}[0]{path}, '/home', 'json: paths below the root');
is(json('ls', ':src/')->{entries}[0]{path}, '/work/src/main.c', 'json: a slash at the end');
fails(['ls', 'nosuch'], 'NOTFOUND', 4, qr/':nosuch' is a path in the chosen box/);
fails(['ls', ':nosuch'], 'NOTFOUND', 4, qr/nosuch/);
fails(['ls', ':src', ':nosuch'], 'NOTFOUND', 4, qr/nosuch/);
fails(['ls', '--wrong'], 'INVALID', 2, qr/cowbox help ls/);
my $screen = pty('COLUMNS=200 cowbox ls');
like($screen, qr/a\.txt +b\.txt/, 'columns on a terminal') or diag($screen);
like($screen, qr{src.*/}, 'folders have a slash there');
is(scalar(() = pty('COLUMNS=10 cowbox ls') =~ /\n/g), 7, 'a narrow terminal has one column');

# ---- names from anywhere ----
my @names = ("new\nline", "esc\e]0;evil\a", "bad\xff\xfeutf", '-dash', 'sp ace', "\xe2\x80\xaeright", '*', "tab\t");
cow('mkdir', 'odd');
cow('write', ":odd/$_", 'x') for @names;
is(cow('ls', ':odd'), join('', map { "$_\n" } sort @names), 'names go through as they are in a pipe');
my $odd = json('ls', ':odd');
is(scalar @{$odd->{entries}}, scalar @names, 'json: all of them');
my ($bad) = grep { exists $_->{name_base64} } @{$odd->{entries}};
is(MIME::Base64::decode_base64($bad->{name_base64}), "bad\xff\xfeutf", 'json: exact bytes of a name that is not UTF-8');
for my $command ('ls', 'ls -l', 'tree', 'stat') {
	my $line = $command eq 'stat' ? 'cowbox --color never stat :odd/$(printf "esc\033]0;evil\007")' : "cowbox --color never $command :odd";
	my $shown = pty($line);
	unlike($shown, qr/\e\]/, "$command: an escape sequence does not reach the terminal");
	like($shown, qr/esc\\x1b\]0;evil\\x07/, "$command: it is shown");
}

# ---- tree ----
is(cow('tree', 'demo@4'), "/work\n├── a.txt\n├── b.txt\n└── src\n    └── main.c\n\n1 folder, 3 files\n", 'tree of an old state');
is(cow('tree', ':src'), "/work/src\n└── main.c\n\n0 folders, 1 file\n", 'tree of a folder');
is(cow('tree', 'demo@4', '--depth', '1'), "/work\n├── a.txt\n├── b.txt\n└── src\n\n1 folder, 2 files\n", '--depth');
is(cow('tree', 'demo@0'), "/work\n\n0 folders, 0 files\n", 'an empty tree');
my $tree = json('tree', 'demo@4');
is_deeply([map { $_->{path} } @{$tree->{entries}}], ['/work/a.txt', '/work/b.txt', '/work/src', '/work/src/main.c'], 'json of tree');
is_deeply([@$tree{qw(path files folders)}], ['/work', 3, 1], 'json: totals');
like(cow('tree', '/'), qr{^/\n├── home\n│   └── agent\n}, 'tree of the root');
fails(['tree', ':a.txt'], 'NOTDIR', 6, qr/no folder/);
fails(['tree', ':nosuch'], 'NOTFOUND', 4, qr/nosuch/);
cow('mkdir', '-p', 'deep/' . join('/', ('d') x 200));
is(json('tree', ':deep')->{folders}, 200, 'a deep tree');

# ---- stat ----
cow('tag', 'add', 'a.txt', 'one', 'two');
cow('meta', 'set', 'a.txt', 'author', 'ann');
my $stat = json('stat', 'a.txt')->{entries}[0];
is_deeply([@$stat{qw(path type mode size links)}], ['/work/a.txt', 'file', '0644', 6, 1], 'stat');
is_deeply($stat->{tags}, ['one', 'two'], 'stat: tags');
is_deeply($stat->{metadata}, [{name => 'author', value => 'ann'}], 'stat: metadata');
is(json('stat', 'link')->{entries}[0]{target}, 'a.txt', 'stat of a link');
is(json('stat', '-L', 'link')->{entries}[0]{size}, 6, 'stat of what it leads to');
is(scalar @{json('stat', 'a.txt', 'demo@1:b.txt')->{entries}}, 2, 'stat of several, in several states');
like(cow('stat', 'a.txt'), qr{^/work/a\.txt\n  type      file\n  mode      0644 -rw-r--r--\n  size      6\n}, 'stat in plain');
like(cow('stat', 'a.txt'), qr/^  tag       two\n  metadata  author=ann$/m, 'its tags and metadata');
is(cowbox('stat', 'nosuch')->{status}, 4, 'stat of what is not there');
fails(['stat', 'broken', '-L'], 'NOTFOUND', 4, qr/./);
fails(['stat', 'demo'], 'NOTFOUND', 4, qr/./);
fails(['stat'], 'INVALID', 2, qr/PATH/);

# ---- cat ----
is(cow('cat', 'src/main.c'), "one\ntwo\nthree", 'exact, without a newline at the end');
is(cow('cat', 'a.txt', 'b.txt', 'demo@4:src/main.c'), "hello\nbee\none\ntwo\nthree", 'several');
is(cow('cat', 'link'), "hello\n", 'a link is followed');
my $bytes = join '', map { chr } 0 .. 255;
cow('write', 'bytes', {in => $bytes});
is(cow('cat', 'bytes'), $bytes, 'every byte');
my $file = json('cat', 'bytes')->{files}[0];
is(MIME::Base64::decode_base64($file->{content_base64}), $bytes, 'json: exact bytes');
$file = json('cat', 'src/main.c')->{files}[0];
is_deeply([@$file{qw(path size content first_line)}], ['/work/src/main.c', 13, "one\ntwo\nthree", 1], 'json: text');
ok(!exists $file->{content_base64}, 'json: no base64 of UTF-8');
my %lines = ('2' => "two\n", '2-' => "two\nthree", '-2' => "one\ntwo\n", '1-1' => "one\n", '3-9' => 'three', '4-9' => '', '1-' => "one\ntwo\nthree");
for my $range (sort keys %lines) {
	is(cow('cat', "--lines=$range", 'src/main.c'), $lines{$range}, "--lines $range");
	is(json('cat', "--lines=$range", 'src/main.c')->{files}[0]{content}, $lines{$range}, "json: --lines $range");
}
is(cow('cat', '-n', '--lines', '2-3', 'src/main.c'), "     2\ttwo\n     3\tthree", '-n with --lines');
fails(['cat', 'a.txt', "--lines=$_"], 'INVALID', 2, qr/lines/) for '0', '0-1', '3-2', '-', 'x', '1-x', '';
my $big = join '', map { "line $_ " . 'x' x 80 . "\n" } 1 .. 120_000;
cow('write', 'big', {in => $big});
ok(cow('cat', 'big') eq $big, 'a large file');
is(cow('cat', '--lines', '119999-119999', 'big'), 'line 119999 ' . 'x' x 80 . "\n", 'lines near the end of a large file');
is(cow('cat', '-n', '--lines', '100000', 'big'), '100000' . "\tline 100000 " . 'x' x 80 . "\n", 'numbered');
cow('write', 'evil', {in => "\e]0;title\a\ttab\n"});
like(pty('cowbox cat evil'), qr/\\x1b\]0;title\\x07\ttab/, 'control bytes are shown on a terminal');
like(pty('cowbox cat --raw evil'), qr/\e\]0;title\a\ttab/, '--raw');
fails(['cat', 'src'], 'ISDIR', 6, qr/./);
fails(['cat', 'nosuch'], 'NOTFOUND', 4, qr/nosuch/);
fails(['cat', 'broken'], 'NOTFOUND', 4, qr/./);
fails(['cat', 'demo@999:a.txt'], 'NOTFOUND', 4, qr/cowbox log/);
fails(['cat', 'demo@before:a.txt'], 'NOTFOUND', 4, qr/./);
fails(['cat', 'demo@1:a.txt'], 'NOTFOUND', 4, qr/./);
is(cow('cat', ('a.txt') x 500), "hello\n" x 500, 'five hundred operands');
is(shell('cowbox cat big | head -n 1')->{out}, 'line 1 ' . 'x' x 80 . "\n", 'a reader that leaves early');

done_testing();
