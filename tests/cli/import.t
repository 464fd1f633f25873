#!/usr/bin/perl
# import and export: folders, single files, tar streams; what is left out is said; nothing is overwritten unasked; the store's own folder.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;
use Cwd ();
use POSIX ();

world();
mkdir 'p';
mkdir 'p/sub';
spill('p/a.txt', "one\n");
spill("p/sub/new\nline", "two\n");
spill("p/sub/\xff\xfe", "three\n");
spill('p/skip.o', 'object');
symlink '../a.txt', 'p/sub/link' or die;
link 'p/a.txt', 'p/hard' or die;
chmod 0750, 'p/a.txt';
POSIX::mkfifo('p/fifo', 0600) or die;
utime 1000000000, 1234567890, 'p/a.txt';

cow('new', 'demo');
my $i = json('import', 'p', 'demo', '--exclude', '*.o', {notes => 1});
is($i->{path}, '/work', 'json: path');
is($i->{step}, 1, 'json: step');
is($i->{files}, 4, 'json: files');
is($i->{symlinks}, 1, 'json: symlinks');
is($i->{left_out}, 1, 'json: left out');
like(join("\n", @{$i->{notes}}), qr/fifo: left out: a FIFO/, 'json: notes');
like(cowbox('import', 'p', 'demo', '--exclude', '*.o')->{err}, qr/fifo: left out: a FIFO/, 'a note is a line');
is(json('import', 'p', 'demo', '--exclude', '*.o')->{step}, 0, 'nothing changed, no step');
is(cow('cat', 'demo:/work/a.txt'), "one\n", 'content');
is(cowbox('cat', 'demo:/work/skip.o')->{status}, 4, 'left out by pattern');
is(json('ls', 'demo:/work/a.txt')->{entries}[0]{mode}, '0750', 'mode');

my $e = json('export', 'demo', 'out');
is($e->{files}, 4, 'json of export: files');
is($e->{target}, 'out', 'json of export: target');
my $list = q{find . ! -name fifo ! -name skip.o -printf '%P %y %m %s %T@ %n %l\0' | sort -z | tr '\0' '\n'};
is(`cd p && $list`, `cd out && $list`, 'import and export are exact');
unlink 'p/fifo', 'p/skip.o';
is(system('diff', '-r', 'p', 'out'), 0, 'contents too');

fails(['export', 'demo', 'out'], 'EXISTS', 5, qr/not empty.*--overwrite/);
cow('write', 'demo:/work/a.txt', 'changed');
spill('out/mine', 'mine');
cow('export', 'demo', 'out', '--overwrite');
is(slurp('out/a.txt'), "changed\n", 'overwritten');
is(slurp('out/mine'), 'mine', 'nothing removed');
cow('export', 'demo@1:/work/a.txt', 'old.txt');
is(slurp('old.txt'), "one\n", 'a file of an old state');
fails(['export', 'demo:/work/a.txt', 'old.txt'], 'EXISTS', 5, qr/old\.txt/);
mkdir 'out/sub2';
cow('export', 'demo:/work/a.txt', 'out/sub2');
is(slurp('out/sub2/a.txt'), "changed\n", 'a file, into a folder');
symlink 'out/sub2', 'to-sub2';
fails(['export', 'demo:/work/a.txt', 'to-sub2'], 'LOOP', 6, qr/symbolic link: 'to-sub2\/'/);
fails(['export', 'demo', 'to-sub2', '--overwrite'], 'LOOP', 6, qr/symbolic link: 'to-sub2\/'/);
cow('cp', 'old.txt', 'demo:/work/sub');
cow('export', 'demo:/work/sub/old.txt', 'to-sub2/');
cow('rm', 'demo:/work/sub/old.txt');
is(slurp('out/sub2/old.txt'), "one\n", 'with a slash the folder is meant');
fails(['export', 'demo:/work/sub/link', $_], 'LOOP', 6, qr/'\/work\/sub\/link' in the box is a symbolic link.*cowbox cp/) for 'linked', '-';
ok(!-l 'linked', 'no link takes the place of the target');
fails(['export', 'demo:/nowhere', 'x'], 'NOTFOUND', 4, qr/nowhere/);
fails(['export', 'demo'], 'INVALID', 2, qr/TARGET/);

cow('import', 'old.txt', 'demo:/work/sub/');
is(cow('cat', 'demo:/work/sub/old.txt'), "one\n", 'a file into a folder');
cow('import', 'old.txt', 'demo:/work/deep/er/x.txt');
is(cow('cat', 'demo:/work/deep/er/x.txt'), "one\n", 'a file under another name');
fails(['import', 'nosuch', 'demo'], 'NOTFOUND', 4, qr/nosuch/);
fails(['import', '/dev/null', 'demo:/work/null'], 'INVALID', 2, qr/device/);
fails(['import', 'p', 'demo@1'], 'READONLY', 77, qr/fork/);
fails(['import', 'p', 'demo:/usr/x'], 'RESERVED', 2, qr/usr/);

unlink 'p/hard';
my $r = json('import', 'p', 'demo', '--remove-missing');
is($r->{removed}, 4, 'what the folder does not have is removed');
is(cowbox('cat', 'demo:/work/hard')->{status}, 4, 'gone');

spill('p/.gitignore', "*.log\n!keep.log\nbuild/\n");
mkdir 'p/build';
spill("p/$_", $_) for qw(x.log keep.log build/y);
cow('import', 'p', 'demo:/ignored', '--gitignore');
is(join(' ', sort split /\n/, cow('ls', 'demo:/ignored')), '.gitignore a.txt keep.log sub', '.gitignore');

cow('new', 'tar');
is(shell('tar -cf - p | cowbox import - tar:/work/t && cowbox cat tar:/work/t/p/a.txt')->{out}, "one\n", 'a tar stream in');
is(shell('cowbox export tar:/work/t - | tar -xOf - ./p/a.txt p/a.txt 2>/dev/null')->{out}, "one\n", 'a tar stream out');
fails(['import', '-', 'tar', '--link'], 'INVALID', 2, qr/stream/);
fails(['import', 'p/a.txt', 'tar', '--link'], 'NOTDIR', 6, qr/only a folder/);

mkdir 'mine';
spill('mine/f', 'x');
cow('import', 'mine', 'tar:/work/m', '--link');
is(shell('cd mine && cowbox info --json')->{out} =~ /"name": ?"tar"/ ? 1 : 0, 1, 'a linked folder means its box') if cowbox('help', 'info')->{status} == 0;

# A store inside the folder that is imported is no part of it.
mkdir 'project';
spill('project/f.txt', "v1\n");
chdir 'project' or die;
$ENV{COWBOX_STORE} = Cwd::getcwd() . '/.cowbox';
is(cowbox('new', 'demo', '--from', '.')->{err}, "cowbox: .cowbox: left out: the folder of the store itself\n", 'the store is left out, and said once');
is(cow('find', 'demo:/work'), "/work\n/work/f.txt\n", 'and nothing else is');
is(json('import', '.', 'demo', {notes => 1})->{left_out}, 1, 'json: it is counted');
symlink '.cowbox', 'way' or die;
fails(['import', $_, 'demo'], 'INVALID', 2, qr/store's own folder: an import needs a place outside of it/) for '.cowbox', './.cowbox/seg', 'way', 'way/cowbox.db';
fails(['new', 'second', '--from', '.cowbox'], 'INVALID', 2, qr/store's own folder/);
fails(['export', 'demo', $_, '--overwrite'], 'INVALID', 2, qr/store's own folder: an export needs a place outside of it/)
	for '.cowbox', '.cowbox/out', 'way/out', 'way/', Cwd::getcwd() . '/.cowbox/seg/out';
cow('write', '-p', 'demo:/work/.cowbox/cowbox.db', 'broken');
cow('write', 'demo:/work/f.txt', 'v2');
my $shown = json('apply', 'demo', '--dry-run', {notes => 1});
is_deeply([map { $_->{path} } @{$shown->{items}}], ['f.txt'], 'a dry run has the rest');
is_deeply($shown->{notes}, ['.cowbox: left alone: the folder of the store itself'], 'and says that the store is left alone');
my $applied = cowbox('apply', 'demo', '--force');
is($applied->{status}, 0, 'a forced apply');
is($applied->{err}, "cowbox: .cowbox: left alone: the folder of the store itself\n", 'leaves the store alone too');
is(slurp('f.txt'), "v2\n", 'and writes the rest');
fails(['apply', 'demo', '--to', '.cowbox'], 'INVALID', 2, qr/store's own folder: apply needs a place outside of it/);
cow('fsck');

done_testing();
