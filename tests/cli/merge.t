#!/usr/bin/perl
# merge: clean, with conflicts, with preferences per path; what it says, its JSON, its errors.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo');
cow('write', "demo:/work/$_", '--parents', {in => "one\ntwo\nthree\n"}) for qw(a.txt b.txt dir/c.txt dir/d.txt);
cow('fork', 'demo', 'try-1', {notes => 1});

# ---- clean ----
cow('write', 'try-1:/work/a.txt', {in => "ONE\ntwo\nthree\n"});
cow('write', 'demo:/work/a.txt', {in => "one\ntwo\nTHREE\n"});
cow('fork', 'demo', 'idle');
is(cow('merge', 'idle', '--into', 'demo', '--dry-run', {notes => 1}), '', 'a dry run with nothing to merge promises nothing');
like(cowbox('merge', 'idle', '--into', 'demo', '--dry-run')->{err}, qr/nothing to merge: demo knows all of idle; what it changed or undid since stays so$/m, 'and says so');
cow('delete', 'idle', '--yes');
like(cow('merge', 'try-1', '--into', 'demo', '--dry-run'), qr/\Atry-1\@1 merges into demo without open conflicts\n\z/, 'dry run');
is(cow('show', 'demo:/work/a.txt'), "one\ntwo\nTHREE\n", 'which changes nothing');
like(cow('merge', 'try-1', '--into', 'demo'), qr/\Astep 6: merged try-1\@1 into demo \(1 change\)\n\z/, 'clean merge');
is(cow('show', 'demo:/work/a.txt'), "ONE\ntwo\nTHREE\n", 'lines of both');
like(cow('log', 'demo', '--oneline', '-n', '1'), qr/\A6 merge of try-1\@1\n\z/, 'the log names the parent');
like(cow('show', 'demo'), qr/^Merge: demo\@5 try-1\@1$/m, 'show names both');
my $again = cowbox('merge', 'try-1', '--into', 'demo');
is($again->{status}, 0, 'nothing to merge is no error');
like($again->{err}, qr/\Acowbox: nothing to merge[^\n]*\n\z/, 'but said');

# A fork from between a merge and its undo has what was undone, and brings it not.
cow('fork', 'demo', 'parted');
cow('write', 'parted:/work/new.txt', {in => "new\n"});
cow('fork', 'demo', 'home');
cow('merge', 'parted', '--into', 'home');
cow('fork', 'home', 'between');
cow('undo', 'home');
like(cowbox('merge', 'between', '--into', 'home')->{err}, qr/home knows all of between; what it changed or undid since stays so$/m, 'what was undone stays so');
isnt(cowbox('show', 'home:/work/new.txt')->{status}, 0, 'indeed');
cow('restore', 'between:/work/new.txt', '--into', 'home');
is(cow('show', 'home:/work/new.txt'), "new\n", 'a restore brings it back');
cow('delete', $_, '--yes') for qw(parted home between);

# ---- conflicts ----
for my $path (qw(a.txt b.txt dir/c.txt dir/d.txt)) {
	cow('write', "try-1:/work/$path", 'theirs');
	cow('write', "demo:/work/$path", 'ours');
}
cow('kv', 'set', 'try-1', 'plan', 'theirs');
cow('kv', 'set', 'demo', 'plan', 'ours');
my $before = cow('log', 'demo', '--oneline');
my $r = cowbox('merge', 'try-1', '--into', 'demo');
is($r->{status}, 9, 'conflicts: status');
is($r->{out}, <<'END', 'conflicts are listed with reasons');
conflict: key 'plan': changed on both sides
conflict: /work/a.txt: changed on both sides
conflict: /work/b.txt: changed on both sides
conflict: /work/dir/c.txt: changed on both sides
conflict: /work/dir/d.txt: changed on both sides
END
like($r->{err}, qr/\Acowbox: merging try-1 into demo: 5 conflicts, nothing was changed; .*--prefer try-1.*--prefer PATH=BOX [^\n]*\n\z/, 'one line');
is(cow('log', 'demo', '--oneline'), $before, 'nothing happened');
$r = cowbox('--json', 'merge', 'try-1', '--into', 'demo');
is($r->{out}, '', 'json: nothing on standard output');
my $e = JSON::PP->new->utf8->decode($r->{err})->{error};
is_deeply([$e->{code}, $e->{exit}, scalar @{$e->{conflicts}}], ['CONFLICT', 9, 5], 'json: the error');
is_deeply($e->{conflicts}[1], {path => '/work/a.txt', reason => 'changed on both sides'}, 'json: a conflict');

# ---- preferences ----
my @some = ('--prefer', '/work/dir=try-1', '--prefer', 'dir/d.txt=demo', '--prefer', '/work/a.txt=try-1');
$r = cowbox('merge', 'try-1', '--into', 'demo', @some);
is($r->{status}, 9, 'some are still open');
is(scalar(() = $r->{out} =~ /^conflict: /mg), 2, 'and only those are listed');
$r = cowbox('merge', 'try-1', '--into', 'demo', @some, '--prefer', "key 'plan'=try-1", '--prefer', '/work/nope=demo');
is($r->{out}, "conflict: /work/b.txt: changed on both sides\n", 'a key is settled as conflicts name it');
like($r->{err}, qr{^cowbox: --prefer /work/nope=\.\.\.: there is no conflict$}m, 'what is settled without being open is said');
$r = cowbox('--json', 'merge', 'try-1', '--into', 'demo', @some, '--prefer', '/work/nope=demo');
my $slip = ['--prefer /work/nope=...: there is no conflict'];
is_deeply(JSON::PP->new->utf8->decode($r->{err})->{error}{notes}, $slip, 'json: the error says it too');
is_deeply(json('merge', 'try-1', '--into', 'demo', '--prefer', 'demo', '--prefer', 'nope=try-1', '--dry-run')->{notes}, $slip, 'json: and so does the result');
fails(['merge', 'try-1', '--into', 'demo', '--prefer', 'demo', '--prefer', 'try-1'], 'INVALID', 2, qr/--prefer try-1: the other box/);
fails(['merge', 'try-1', '--into', 'demo', '--prefer', 'dir=demo', '--prefer', '/work/dir/=try-1'], 'INVALID', 2, qr/--prefer \/work\/dir\/=try-1: the other box/);
cow('merge', 'try-1', '--into', 'demo', '--prefer', 'demo', '--prefer', 'a.txt=try-1', '--prefer', '/work/a.txt=try-1', '--dry-run');
my $m = json('merge', 'try-1', '--into', 'demo', @some, '--prefer', 'demo', '--dry-run');
is_deeply({map { $_->{path} => $_->{preferred} } @{$m->{resolved}}},
	{"key 'plan'" => 'demo', '/work/a.txt' => 'try-1', '/work/b.txt' => 'demo', '/work/dir/c.txt' => 'try-1', '/work/dir/d.txt' => 'demo'},
	'json: the longest path counts');
is($m->{step}, 0, 'json: a dry run makes no step');
$m = json('merge', 'try-1', '--into', 'demo', @some, '--prefer', 'demo');
is($m->{change_count}, 2, 'json: changes');
is_deeply([map { cow('show', "demo:/work/$_") } qw(a.txt b.txt dir/c.txt dir/d.txt)], ["theirs\n", "ours\n", "theirs\n", "ours\n"], 'as preferred');
is(cow('diff', 'demo@-1', '--name-only'), "/work/a.txt\n/work/dir/c.txt\n", 'the merge as a difference');
like(cow('undo', 'demo'), qr/took back step \d+ \(merge try-1\)/, 'a merge is undone as one');

# ---- deleted here, changed there ----
cow('fork', 'demo', 'try-2', {notes => 1});
cow('rm', 'try-2:/work/b.txt');
cow('write', 'demo:/work/b.txt', 'again');
$r = cowbox('merge', 'try-2', '--into', 'demo');
like($r->{out}, qr{\Aconflict: /work/b.txt: [^\n]*(deleted|changed)[^\n]*\n\z}, 'deleted on one side');
cow('merge', 'try-2', '--into', 'demo', '--prefer', 'try-2');
fails(['show', 'demo:/work/b.txt'], 'NOTFOUND', 4, qr/b\.txt/);

# ---- a folder in place of a file ----
cow('new', 'config');
cow('write', 'config:/work/c', 'a');
cow('fork', 'config', 'config-1', {notes => 1});
cow('write', 'config-1:/work/c', 'b');
cow('rm', 'config:/work/c');
cow('write', "config:/work/c/$_", $_, '--parents') for 1 .. 3;
is(cowbox('merge', 'config-1', '--into', 'config')->{out}, "conflict: /work/c: a folder here, changed there\n", 'a folder in place of a file is told');
cow('fork', 'config-1', 'config-2', {notes => 1});
is(cowbox('merge', 'config', '--into', 'config-2')->{out}, "conflict: /work/c: changed here, a folder there\n", 'from the other side too');
cow('merge', 'config', '--into', 'config-2', '--prefer', '/work/c=config');
is(cow('ls', 'config-2:/work/c'), "1\n2\n3\n", 'the folder comes');
cow('merge', 'config-1', '--into', 'config', '--prefer', '/work/c=config-1');
is(cow('show', 'config:/work/c'), "b\n", 'the file comes');

# ---- answers that contradict each other ----
cow('new', 'swap');
cow('write', "swap:/work/$_", $_) for qw(a b c);
cow('fork', 'swap', 'swap-1', {notes => 1});
for (['swap', 'b'], ['swap-1', 'c']) {
	my ($box, $name) = @$_;
	cow('mv', "$box:/work/$name", "$box:/work/t");
	cow('mv', "$box:/work/a", "$box:/work/$name");
	cow('mv', "$box:/work/t", "$box:/work/a");
}
my @answers = ('--prefer', '/work/b=swap', '--prefer', '/work/a=swap-1', '--prefer', '/work/c=swap');
$before = cow('log', 'swap', '--oneline');
$r = cowbox('merge', 'swap-1', '--into', 'swap', @answers);
is($r->{status}, 9, 'answers that contradict each other: status');
like($r->{out}, qr{\A(conflict: /work/\w: [^\n]*contradict[^\n]*\n)+\z}, 'are a conflict');
like($r->{err}, qr/^cowbox: merging [^\n]*; answer these for the same box as the other paths[^\n]*--prefer swap alone\n\z/m, 'the advice');
$e = JSON::PP->new->utf8->decode(cowbox('--json', 'merge', 'swap-1', '--into', 'swap', @answers)->{err})->{error};
is(scalar(grep { !$_->{contradicts} } @{$e->{conflicts}}), 0, 'json: contradicts');
is(cow('log', 'swap', '--oneline'), $before, 'and nothing happened');
cow('merge', 'swap-1', '--into', 'swap', '--prefer', 'swap-1');
is(join('', map { cow('show', "swap:/work/$_") } qw(a b c)), "c\nb\na\n", 'one side as a whole does not');

# Something that nobody answered for is left no place.
cow('new', 'm');
cow('write', 'm:g', 'one');
cow('write', '-p', 'm:d/y', 'y');
cow('fork', 'm', 'f', {notes => 1});
cow('mv', 'm:d', 'm:e');
cow('write', '-p', 'm:d/x', 'r');
cow('rm', 'f:d/y');
cow('mv', 'f:g', 'f:d');
cow('write', '-p', 'f:e/x', 'q');
cow('mv', 'f:e/x', 'f:d');
$r = cowbox('merge', 'f', '--into', 'm', '--prefer', 'e=f', '--prefer', 'd=m', '--prefer', 'd/x=f');
like($r->{out}, qr{^conflict: /work/g: the answers contradict each other about this path$}m, 'a path without an answer');
$r = cowbox('merge', 'f', '--into', 'm', '--prefer', 'e=f', '--prefer', 'd=m', '--prefer', 'd/x=f', '--prefer', 'g=f');
like($r->{out}, qr{^conflict: /work/g: }m, 'and with one');
unlike($r->{err}, qr/there is no conflict/, 'of which nothing else is said');
cow('merge', 'f', '--into', 'm', '--prefer', 'e=f', '--prefer', 'd=f', '--dry-run');

# A file that both renamed is told by its name in the box.
cow('fork', 'm', 'n', {notes => 1});
cow('mv', 'm:g', 'm:here');
cow('mv', 'n:g', 'n:there');
$r = cowbox('merge', 'n', '--into', 'm', '--prefer', 'there=n');
is($r->{out}, "conflict: /work/here: renamed differently on both sides\n", 'renamed by both');
like($r->{err}, qr{^cowbox: --prefer /work/there=\.\.\.: that conflict is told as /work/here, its name in m$}m, 'an answer by the other name');
cow('merge', 'n', '--into', 'm', '--prefer', 'here=n');
is(cow('cat', 'm:there'), "one\n", 'as answered');

# ---- errors ----
fails(['merge', 'n'], 'INVALID', 2, qr/--into BOX/);
fails(['merge', 'demo', '--into', 'demo'], 'INVALID', 2, qr/into itself/);
fails(['merge', 'try-1', '--into', 'try-1'], 'INVALID', 2, qr/cowbox merge try-1 --into demo/);
fails(['merge', 'try-1', '--into', 'demo', '--prefer', 'nobody'], 'INVALID', 2, qr/write try-1 or demo/);
fails(['merge', 'try-1', '--into', 'demo', '--prefer', '/work=nobody'], 'INVALID', 2, qr/write try-1 or demo/);
fails(['merge', 'try-1', '--into', 'demo@2'], 'INVALID', 2, qr/./);
fails(['merge', 'nosuch', '--into', 'demo'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['merge'], 'INVALID', 2, qr/FROM/);
cow('new', 'stranger');
fails(['merge', 'stranger', '--into', 'demo'], 'INVALID', 2, qr/common past/);

# A name that drives a terminal, in a conflict.
cow('write', "demo:/work/x\e[31m\n", 'base');
cow('fork', 'demo', 'try-3', {notes => 1});
cow('write', "try-3:/work/x\e[31m\n", 'theirs');
cow('write', "demo:/work/x\e[31m\n", 'ours');
my $quoted = qr{"/work/x\\033\[31m\\n": changed on both sides};
like(pty('cowbox --no-pager merge try-3 --into demo'), qr/conflict\S*: $quoted/, 'in quotes on a terminal');
like(cowbox('merge', 'try-3', '--into', 'demo')->{out}, qr{\Aconflict: $quoted\n\z}, 'and in a pipe: it stays on its line');
like(cow('merge', 'try-3', '--into', 'demo', '--prefer', 'demo'), qr{\Aresolved: $quoted; demo preferred\nstep}, 'also when it is resolved');

# A box that came by a pack has no common past with any: what can be done instead.
cow('new', 'packed');
cow('write', 'packed:f', 'of packed');
cow('pack', 'packed', '-o', 'packed.cbx');
cow('unpack', 'packed.cbx', 'unpacked');
cow('write', 'unpacked:g', 'of unpacked');
fails(['merge', 'unpacked', '--into', 'packed'], 'INVALID', 2, qr{no common past.*'cowbox restore unpacked:/PATH --into packed'});
cow('restore', 'unpacked:/work/g', '--into', 'packed');
is(cow('cat', 'packed:g'), "of unpacked\n", 'which works');

done_testing();
