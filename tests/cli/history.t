#!/usr/bin/perl
# log, show, diff, restore, undo, redo, blame: what they print, their JSON, their errors.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo');
cow('write', 'demo:/work/a.txt', {in => "one\ntwo\nthree\n"});                # 1
cow('write', 'demo:/work/src/main.c', '--parents', {in => "int main;\n"});      # 2
cow('--who', 'alice', 'write', 'demo:/work/a.txt', {in => "one\nTWO\nthree\n"}); # 3
cow('checkpoint', 'save', 'demo', 'middle', {notes => 1});
cow('mv', 'demo:/work/a.txt', 'demo:/work/b.txt');                              # 4
cow('write', 'demo:/tmp/scratch', 'x');                                         # 5
cow('kv', 'set', 'demo', 'plan', 'value');                                      # 6

# ---- log ----
is(cow('log', 'demo', '--oneline'), <<'END', 'log, a line per step');
6 kv plan
5 write /tmp/scratch
4 rename /work/a.txt /work/b.txt
3 (middle) write /work/a.txt
2 write /work/src/main.c
1 write /work/a.txt
0 new
END
like(cow('log', 'demo', '-n', '1'), qr/\Astep 6\nWho:  tester\nWhen: \d{4}-\S+Z\n\n    kv plan\n\n\z/, 'log in full');
is(cow('log', 'demo:b.txt', '--oneline'), "4 rename /work/a.txt /work/b.txt\n3 (middle) write /work/a.txt\n1 write /work/a.txt\n", 'a file through a rename');
is(cow('log', 'demo:/work/src', '--oneline'), "2 write /work/src/main.c\n", 'a folder');
is(cow('log', 'demo@2', '--oneline'), "2 write /work/src/main.c\n1 write /work/a.txt\n0 new\n", 'from an old state');
is(cow('log', 'demo', '--oneline', '--who', 'alice'), "3 (middle) write /work/a.txt\n", '--who');
is(cow('log', 'demo', '--oneline', '--kind', 'kv'), "6 kv plan\n", '--kind');
{
	my $none = cowbox('log', 'demo', '--kind', 'bogus');
	is("$none->{status} $none->{out}", '1 ', 'a kind that there is not: nothing, status 1');
	like($none->{err}, qr/\Acowbox: no step of kind 'bogus'; kinds here: (?:\w+, )*kv(?:, \w+)*\n\z/, 'and the kinds that there are');
	$none = cowbox('--json', 'log', 'demo', '--kind', 'bogus');
	is($none->{status}, 1, 'in JSON too');
	like($none->{out}, qr/"steps":\[\],.*"notes":\["no step of kind 'bogus'/, 'with a note');
	is(cow('log', 'demo', '--kind', 'kv', '--until', '2001-01-01'), '', 'a kind that there is, at another time');
}
# A box that is not there is told as such, also where a step was asked for.
fails([@$_], 'NOTFOUND', 4, qr/no box 'nobox'(?:; |",.*"hint":")'cowbox list' shows the boxes/)
	for ['show', 'nobox@3'], ['undo', 'nobox@3'], ['diff', 'nobox@3'], ['restore', 'nobox@3'], ['cat', 'nobox@3:a'], ['log', 'nobox@3'], ['log', 'nobox'];
fails(['show', 'demo@99'], 'NOTFOUND', 4, qr/'cowbox log demo' shows the steps, 'cowbox checkpoint list demo' the names/);
is(cow('log', 'demo', '--oneline', '--kind', 'write', '-n', '2'), "5 write /tmp/scratch\n3 (middle) write /work/a.txt\n", '-n counts what is shown');
is(cow('log', 'demo', '--oneline', '--since', '2099-01-01'), '', '--since the future');
is(scalar(() = cow('log', 'demo', '--oneline', '--since', '1h') =~ /\n/g), 7, '--since an hour ago');
is(cow('log', 'demo', '--oneline', '--until', '1h'), '', '--until an hour ago');
like(cow('log', 'demo', '--patch', '-n', '4', '--kind', 'write'), qr/^-two\n\+TWO$/m, '--patch');
like(cow('log', 'demo', '--stat', '-n', '2'), qr{ /tmp/scratch \| 1 \+\n}, '--stat');
my $log = json('log', 'demo', '--stat');
is(scalar @{$log->{steps}}, 7, 'json: steps');
is_deeply([map { $_->{step} } @{$log->{steps}}], [6, 5, 4, 3, 2, 1, 0], 'json: numbers');
is_deeply($log->{steps}[3]{checkpoints}, ['middle'], 'json: checkpoints');
is($log->{steps}[3]{who}, 'alice', 'json: who');
is($log->{steps}[3]{changes}[0]{removed}, 1, 'json: lines removed');
is($log->{steps}[2]{changes}[0]{old_path}, '/work/a.txt', 'json: renamed from');
ok(!$log->{pruned}, 'json: not pruned');
fails(['log', 'demo:/work/nosuch'], 'NOTFOUND', 4, qr/nosuch/);
fails(['log', 'nosuch'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['log', 'demo', '--stat', '--patch'], 'INVALID', 2, qr/one of them/);
fails(['log', 'demo', '-n', 'x'], 'INVALID', 2, qr/./);

# ---- show ----
my $shown = cow('show', 'demo@3');
like($shown, qr/\Astep demo\@3 \(middle\)\nWho:   alice\n/, 'show: header');
like($shown, qr/^-two\n\+TWO$/m, 'show: patch');
is(cow('show', 'demo@middle'), $shown, 'show a checkpoint');
is(cow('show', 'demo@-3'), $shown, 'show so many steps back');
like(cow('show', 'demo'), qr/kv plan.*^# key plan: added$/ms, 'show the newest: a key');
is(cow('show', 'demo@1:/work/a.txt'), "one\ntwo\nthree\n", 'a file as it was');
is(cow('show', 'demo@4:/work'), "b.txt\nsrc/\n", 'a folder as it was');
like(cow('show', 'demo@3', '--stat'), qr{ /work/a.txt \| 2 \+-\n 1 path changed, 1 line added, 1 line removed}, '--stat');
like(cow('show', 'demo@3', '--name-only'), qr{\n\n/work/a.txt\n\z}, '--name-only');
unlike(cow('show', 'demo@3', '/work/src'), qr/TWO/, 'limited to a path');
is(cow('log', 'demo', '-n', '0'), cow('log', 'demo'), 'log -n 0: all, as of find, grep and audit');
like(cow('show', 'demo@0'), qr/\n    new\n/, 'step 0');
is(json('show', 'demo@1:a.txt')->{content}, "one\ntwo\nthree\n", 'json: content');
is(json('show', 'demo@3', '--patch')->{patch} =~ /\+TWO/ ? 1 : 0, 1, 'json: patch');
is(json('show', 'demo@4:/work')->{entries}[0]{name}, 'b.txt', 'json: entries');
fails(['show', 'demo@99'], 'NOTFOUND', 4, qr/cowbox log/);
fails(['show', 'demo@1:/work/b.txt'], 'NOTFOUND', 4, qr/b\.txt/);
fails(['show', 'demo@1:/work/a.txt', '--stat'], 'INVALID', 2, qr/no changes/);

# Of a large file only a part is in memory at a time, as of cat.
mkdir 'holes' or die;
spill('holes/h', "begin\n");
truncate 'holes/h', 600 << 20 or die;
cow('new', 'holes');
cow('import', 'holes', 'holes', {notes => 1});
my ($program, $bound) = (program(), program() =~ m{/asan/} ? '' : 'ulimit -v 400000;');
for my $command ('show', 'cat') {
	is(script_ok("$bound '$program' $command holes\@1:/work/h | tail -c +629145600 | od -An -c", "$command: a large file in little memory"), "  \\0\n", 'to its end');
	my $r = cowbox('--json', $command, 'holes@1:/work/h');
	is($r->{status}, 10, "$command: too large for JSON");
	like($r->{err}, qr/too many for JSON/, 'and it says so');
}

# ---- diff ----
is(cow('diff', 'demo@0', 'demo', '--name-status'), "A\t/work/b.txt\nA\t/work/src\nA\t/work/src/main.c\nK\tplan\n", 'names with their kind');
is(cow('diff', 'demo@0', 'demo', '--name-status', '--all', '/tmp'), "A\t/tmp/scratch\n", 'a path that names /tmp');
like(cow('diff', 'demo@0', 'demo', '--name-only', '--all'), qr{^/tmp/scratch$}m, '--all');
is(cow('diff', 'demo@0', 'demo', '/tmp', '--name-only'), "/tmp/scratch\n", '/tmp when named');
is(cow('diff', 'demo@3', '--name-status'), "R\t/work/a.txt\t/work/b.txt\nK\tplan\n", 'from a step to the newest');
is(cow('diff', 'demo@1', 'demo@3', '--name-only', '-z'), "/work/a.txt\0/work/src\0/work/src/main.c\0", 'NUL after names');
is(cow('diff', 'demo'), "# key plan: added\n", 'a box alone: its last change');
like(cow('diff', 'demo@3', 'demo@4'), qr/^rename from work\/a.txt\nrename to work\/b.txt$/m, 'a rename');
like(cow('diff', 'demo@1', 'demo@3', '-U', '0'), qr/^\@\@ -2 \+2 \@\@\n-two\n\+TWO$/m, '-U 0');
is(cow('diff', 'demo@3:a.txt', 'demo@1:a.txt', '--name-status'), "M\t/work/a.txt\n", 'one path of two states');
is(cow('diff', 'demo@1', 'demo@3', 'src/main.c', 'a.txt', '--name-only'), "/work/a.txt\n/work/src/main.c\n", 'several paths');
like(cowbox('diff', 'demo@4', 'demo@5')->{err}, qr/1 change in .* left out: --all/, 'left out, and said');
is(cowbox('diff', 'demo@4', 'demo', '--exit-code')->{status}, 1, '--exit-code with differences');
is(cowbox('diff', 'demo', 'demo', '--exit-code')->{status}, 0, '--exit-code without');
my $d = json('diff', 'demo@1', 'demo', '--patch');
is_deeply([map { "$_->{kind} " . ($_->{path} // $_->{key}) } @{$d->{changes}}],
	['renamed /work/b.txt', 'added /work/src', 'added /work/src/main.c', 'key plan'], 'json: changes');
is($d->{left_out}, 1, 'json: left out');
is($d->{from}{step}, 1, 'json: from');
is_deeply([@{$d->{changes}[0]}{qw(added removed binary modified)}], [1, 1, JSON::PP::false(), JSON::PP::true()], 'json: lines');
like($d->{patch}, qr/\+TWO/, 'json: patch');
cow('chmod', '600', 'demo:/work/b.txt');
is(cow('diff', 'demo'), "# file /work/b.txt: mode 0644 to 0600\n", 'a mode git has no word for');
fails(['diff', 'demo', 'nosuch'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['diff', 'demo@1', 'demo', '/work/nosuch'], 'NOTFOUND', 4, qr/nosuch.*demo\@1/);
fails(['diff', 'demo@1:a.txt', 'demo:b.txt'], 'INVALID', 2, qr/same path/);
fails(['diff', 'demo', '--stat', '--name-only'], 'INVALID', 2, qr/one of them/);
fails(['diff', 'demo', '-z'], 'INVALID', 2, qr/--name-only/);

# ---- restore, undo, redo ----
like(cow('undo', 'demo'), qr/\Astep 8: took back step 7 \(chmod \/work\/b.txt\)\n\z/, 'undo says what');
like(cow('redo', 'demo'), qr/\Astep 9: brought back step 7 \(chmod \/work\/b.txt\)\n\z/, 'redo says what');
like(cow('undo', 'demo@4'), qr/took back step 4 \(rename \/work\/a.txt \/work\/b.txt\)/, 'a middle step');
is(cow('show', 'demo:/work'), "a.txt\nsrc/\n", 'and only that');
like(cow('log', 'demo', '--oneline', '-n', '1'), qr/\A10 undo of step 4\n/, 'the log tells what was undone');
like(cow('restore', 'demo@middle'), qr/\Astep 11: restored demo\@3 \(\d+ changes\)\n\z/, 'restore a checkpoint');
is(cow('diff', 'demo@middle', 'demo', '--all'), '', 'and all is as it was');
cow('write', 'demo:/work/a.txt', 'lost');
like(cow('restore', 'demo@1:/work/a.txt'), qr/\Astep 13: restored demo\@1:\/work\/a.txt \(1 change\)\n/, 'restore a file');
is(cow('show', 'demo:/work/a.txt'), "one\ntwo\nthree\n", 'as it was');
is(cow('-q', 'restore', 'demo@0:/work/src'), '', 'restore what was not there removes it, quietly');
is(cow('show', 'demo:/work'), "a.txt\n", 'gone');
my $r = json('restore', 'demo@3');
is($r->{step}, 15, 'json: step');
is($r->{from_step}, 3, 'json: from');
cow('new', 'other');
cow('restore', 'demo:/work/a.txt', '--into', 'other');
is(cow('show', 'other:/work/a.txt'), "one\nTWO\nthree\n", '--into another box');
fails(['restore', 'demo'], 'INVALID', 2, qr/no older state/);
fails(['restore', 'demo@77'], 'NOTFOUND', 4, qr/cowbox log/);
fails(['restore', 'demo@3:/work/never'], 'NOTFOUND', 4, qr/neither/);
my $u = json('undo', 'other');
is_deeply([$u->{undone}[0]{target_step}, $u->{undone}[0]{change}{kind}], [1, 'restore'], 'json of undo');
fails(['undo', 'other'], 'NOTHING', 1, qr/nothing to undo/);
is(json('redo', 'other')->{redone}[0]{change}{step}, 1, 'json of redo');
fails(['redo', 'other'], 'NOTHING', 1, qr/nothing to redo/);
cow('write', 'other:/work/' . 'n' x 250, 'a long name');
like(cow('undo', 'other'), qr{took back step \d+ \(write /work/n+…\)\n\z}, 'a long text is cut, and that is shown');
cow('write', 'other:/work/t', "$_") for 1 .. 3;
is(scalar(() = cow('undo', 'other', '-n', '2') =~ /took back/g), 2, 'undo -n 2');
is(cow('show', 'other:/work/t'), "1\n", 'two back');
is(scalar(() = cow('redo', 'other', '-n', '2') =~ /brought back/g), 2, 'redo -n 2');
is(cow('show', 'other:/work/t'), "3\n", 'and forth');
like(cowbox('undo', 'other', '-n', '99')->{err}, qr/nothing more to undo after 4/, 'undo more than there is');
fails(['undo', 'demo@3', '-n', '2'], 'INVALID', 2, qr/one of them/);
fails(['undo', 'demo@0'], 'NOTHING', 1, qr/begins/);
fails([$_, 'demo', '-n', '0'], 'INVALID', 2, qr/-n 0/) for qw(undo redo);
cow('new', 'mixed');
cow('write', 'mixed:/work/f', $_) for qw(one two three);

# ---- undo in conflict: all paths, and advice that can be followed ----
sub told {
	my ($r, $j) = (cowbox('undo', $_[0]), cowbox('--json', 'undo', $_[0]));
	is($r->{status}, 9, "undo $_[0] conflicts");
	my $e = JSON::PP->new->utf8->decode($j->{err})->{error};
	is($j->{out} . $e->{code}, 'CONFLICT', 'and so with --json');
	is(join('', map {"conflict: $_->{path}: $_->{reason}\n"} @{$e->{conflicts}}), $r->{out}, 'which lists the same paths');
	is($r->{err}, "cowbox: $e->{message}; $e->{hint}\n", 'and says the same');
	return ($r->{out}, $r->{err});
}
my ($out, $err) = told('mixed@2');
is($out, "conflict: /work/f: changed on both sides\n", 'the path is named');
like($err, qr{undoing step 2: 1 conflict with later steps, nothing was changed; 'cowbox diff mixed\@2 mixed' shows.*'cowbox restore mixed\@1:/work/f' makes that path}, 'the advice');
cow('new', 'chosen');
cow('write', 'chosen:/work/f', $_) for qw(A B C B);
cow('undo', 'chosen@2');
($out, $err) = told('chosen');
like($err, qr{undoing step 4: .*; 'cowbox log chosen' shows the steps, 'cowbox restore chosen\@STEP' goes back}, 'the advice where undo chose the step');
cow('new', 'wide');
for my $text (1 .. 3) {
	cow('write', "wide:/work/a-rather-long-file-name-$_", $text) for 1 .. 12;
	cow('restore', 'wide@0'), cow('undo', 'wide') if $text < 3;
}
cow('fork', 'wide@0', 'wider', {notes => 1});
cow('restore', "wide\@$_", '--into', 'wider') for 12, 26, 40;
($out, $err) = told('wider@2');
is(scalar(() = $out =~ /^conflict: /mg), 12, 'all paths are named');
like($err, qr/12 conflicts with/, 'and counted');
cow('new', 'moved');
cow('write', 'moved:f', {in => "1\n2\n3\n"});
cow('edit', 'moved:f', '--old', '2', '--new', 'two');
cow('edit', 'moved:f', '--old', 'two', '--new', 'TWO');
cow('mv', 'moved:f', 'moved:g');
($out, $err) = told('moved@2');
like($out, qr{/work/g: }, 'a file that was renamed since, by its name of now');
like($err, qr{'cowbox restore moved\@1:/work/f' makes that path what it was before, beside its name of now, /work/g}, 'the advice has that of then');
cow('restore', 'moved@1:/work/f');
is(cow('cat', 'moved:f'), "1\n2\n3\n", 'and can be followed');
cow('new', 'made');
cow('write', 'made:x', $_) for 1 .. 2;
($out, $err) = told('made@1');
like($err, qr{'cowbox restore made\@0:/work/x' removes that path}, 'the advice says that it removes');
cow('kv', 'set', 'made', 'k', $_) for 1 .. 3;
($out, $err) = told('made@4');
is($out, "conflict: key 'k': changed on both sides\n", 'a key');
unlike($err, qr/restore/, 'has no such advice');
cow('write', 'made:a b', $_) for 1 .. 3;
like((told('made@7'))[1], qr{'cowbox restore made\@6:/PATH' makes a path}, 'nor a path that a shell would take apart');
cow('prune', 'mixed', '--keep', '2', '--yes', {notes => 1});
unlike((told('mixed@2'))[1], qr/restore/, 'nor a state that was pruned');

cow('write', 'mixed:/work/f', 'three');
is(cow('diff', 'mixed'), '', 'the same bytes again are no difference in a patch');
is(cow('diff', 'mixed', '--name-status'), "T\t/work/f\n", 'but new times');
cow('tag', 'add', 'mixed:/work/f', 'seen');
is(cow('diff', 'mixed'), "# file /work/f: attributes\n", 'a tag is told behind the patch');

# What git's format has no words for is told of every file, also of one whose other changes it tells.
cow('new', 'group');
cow('write', 'group:/work/f', 'f');
cow('chmod', '630', 'group:/work/f');
is(cow('diff', 'group@1', 'group'), "# file /work/f: mode 0644 to 0630\n", 'what only others may run is no program, as git has it');
cow('new', 'untold');
cow('write', "untold:/work/$_", $_) for qw(tagged texted ran closed set moved saved aside swap-a swap-b);
cow('chmod', '600', 'untold:/work/swap-a');
cow('ln', '-s', 'nowhere', 'untold:/work/link');
cow('mkdir', 'untold:/work/empty');
cow('write', '--parents', 'untold:/work/folder/in', 'in');
cow('checkpoint', 'save', 'untold', 'before', {notes => 1});
cow('tag', 'add', "untold:/work/$_", 'wip') for qw(tagged texted ran moved saved);
cow('touch', 'untold:/work/tagged');
cow('write', "untold:/work/$_", 'other') for qw(texted closed);
cow('chmod', @$_) for ['755', 'untold:/work/ran'], ['600', 'untold:/work/closed'], ['4755', 'untold:/work/set'], ['600', 'untold:/work/moved'],
	['700', 'untold:/work/folder'];
cow('mv', "untold:/work/$_->[0]", "untold:/work/$_->[1]") for ['moved', 'moved-2'], ['link', 'link-2'], ['empty', 'empty-2'], ['folder', 'folder-2'],
	['swap-a', 'swap'], ['swap-b', 'swap-a'], ['swap', 'swap-b'], ['saved', 'aside'];
cow('write', '-m', '600', 'untold:/work/new', 'new');
cow('write', '-m', '755', 'untold:/work/program', 'new');
cow('mkdir', 'untold:/work/made');
cow('chmod', '700', 'untold:/work/made');
cow('write', 'untold:/work/made/in', 'in');
is(join('', grep { /^#/ } map { "$_\n" } split /\n/, cow('diff', 'untold@before', 'untold')), <<'END', 'what git has no words for, of every file');
# file /work/aside: attributes
# file /work/closed: mode 0644 to 0600
# folder /work/empty-2: moved
# folder /work/folder-2: mode 0755 to 0700
# folder /work/made: mode 0700
# file /work/moved-2: attributes, mode 0644 to 0600
# file /work/new: mode 0600
# file /work/ran: attributes
# file /work/set: mode 0644 to 4755
# file /work/swap-a: mode 0600 to 0644
# file /work/swap-b: mode 0644 to 0600
# file /work/tagged: attributes
# file /work/texted: attributes
END
my %marked = map { $_->{path} => $_->{attributes_changed} } grep { $_->{path} } @{json('diff', 'untold@before', 'untold')->{changes}};
is_deeply([sort grep { $marked{$_} } keys %marked], [map { "/work/$_" } qw(aside moved-2 ran tagged texted)], 'json: whose attributes changed');
is(scalar(grep { !defined } values %marked), 0, 'json: said of every file');
cow('tag', 'add', 'untold:/work/new', 'late');
ok(json('show', 'untold')->{changes}[0]{attributes_changed}, 'json of show: attributes');
ok(json('log', 'untold', '-n', '1', '--stat')->{steps}[0]{changes}[0]{attributes_changed}, 'json of log: attributes');
like(cow('help', 'diff'), qr/\bmodified \(of renamed.*\battributes_changed \(/s, 'help lists them');
like(cow('help', $_), qr/^ *notes +that there was nothing more to $_/m, "help $_ lists the notes") for 'undo', 'redo';
is(scalar @{json('undo', 'untold', '-n', '99')->{notes}}, 1, 'json of undo: notes');

# ---- blame ----
cow('fork', 'demo', 'child', {notes => 1});
cow('--who', 'bob', 'write', 'child:/work/a.txt', {in => "one\nTWO\nthree\nfour\n"});
my $b = json('blame', 'child:a.txt');
is_deeply([map { "$_->{box}\@$_->{step} $_->{who} $_->{text}" } @{$b->{lines}}],
	['demo@1 tester one', 'demo@3 alice TWO', 'demo@1 tester three', 'child@1 bob four'], 'blame through a fork') or diag(explain($b));
like(cow('blame', 'child:a.txt', '-L', '4'), qr/\A1 +write bob +\S+Z +4\) four\n\z/, 'one line');
is(scalar(() = cow('blame', 'child:a.txt', '-L', '2,+2') =~ /\n/g), 2, '-L 2,+2');
is(scalar(() = cow('blame', 'child:a.txt', '-L', '3,') =~ /\n/g), 2, '-L 3,');
like(cow('blame', 'demo@3:a.txt'), qr/\A1 write tester.*one\n3 write alice.*TWO\n1 write tester.*three\n\z/, 'of an old state');
fails(['blame', 'child:a.txt', '-L', '9'], 'NOTFOUND', 4, qr/only 4 lines/);
fails(['blame', 'child:a.txt', '-L', '4,2'], 'INVALID', 2, qr/write lines as/);
fails(['blame', 'child:/work'], 'ISDIR', 6, qr/not a file/);
fails(['blame', 'child:/work/none'], 'NOTFOUND', 4, qr/none/);
cow('write', 'demo:/work/empty', {in => ''});
is(cow('blame', 'demo:/work/empty'), '', 'an empty file has no lines');
cow('write', 'demo:/work/nonl', {in => "a\nb"});
is(json('blame', 'demo:/work/nonl')->{lines}[1]{text}, 'b', 'no newline at the end');

# ---- pruned steps ----
cow('new', 'thin');
cow('write', 'thin:/work/f', {in => join('', map { "$_\n" } 1 .. $_)}) for 1 .. 6;
cow('prune', 'thin', '--keep', '2', '--yes', {notes => 1});
like(cow('log', 'thin'), qr/-- steps before \d+ were pruned --/, 'a gap is said');
ok(json('log', 'thin')->{pruned}, 'json: pruned');
fails(['cat', 'thin@1:/work/f'], 'STALE', 4, qr/step 1 was pruned; 'cowbox log thin' lists the steps/);
like(cow('blame', 'thin:/work/f'), qr/^pruned .* 1\) 1$/m, 'blame: lines of pruned steps');
my $first = (grep { $_->{pruned_before} } @{json('log', 'thin')->{steps}})[0]{step};
my $gap = cowbox('show', "thin\@$first");
is($gap->{status}, 0, 'show a step behind a gap');
like($gap->{out}, qr{/work/f}, 'and what it changed');
like($gap->{err}, qr/only the names .* can be shown; an undo can take it back where no later step changed the same/, 'and that it can be taken back');
cow('undo', 'thin');
cow('undo', "thin\@$first");
is(cow('cat', 'thin:f'), join('', map { "$_\n" } 1 .. 4), 'as an undo does');

# ---- paths behind links ----
cow('new', 'linked');
cow('write', '--parents', 'linked:dir/file', 'one');
cow('ln', '-s', 'dir', 'linked:link');
cow('write', 'linked:dir/file', 'two');
is(cow('diff', 'linked@1', 'linked', 'dir/file', '--name-only'), "/work/dir/file\n", 'a path behind a link, by its own name');
fails(['diff', 'linked@1', 'linked', 'link/file'], 'INVALID', 2, qr{symbolic link '/work/link': name the path});
is(cow('diff', 'linked@1', 'linked', 'link', '--name-only'), "/work/link\n", 'the link itself');

# ---- undo passes what later steps took back ----
cow('new', 'passed');
cow('write', 'passed:f', 'v0');
cow('rm', 'passed:f');
cow('undo', 'passed');
cow('write', 'passed:f', 'v2');
cow('restore', 'passed@2');
cow('undo', 'passed@2');
is(cow('undo', 'passed'), "step 7: took back step 1 (write /work/f)\n", 'of steps 5 and 4 nothing was left');
fails(['undo', 'passed'], 'NOTHING', 1, qr/nothing to undo/);

# What was pruned cannot be undone, and that is said: it is not that nothing was done.
cow('new', 'gap');
cow('write', 'gap:/work/a', $_) for 1 .. 6;
cow('checkpoint', 'save', 'gap@3', 'three', {notes => 1});
cow('prune', 'gap', '--keep', '1', '--yes', {notes => 1});
cow('undo', 'gap');
fails(['undo', 'gap'], 'NOTHING', 1, qr/what came before step 6 was pruned and cannot be undone: older states can be restored, the nearest is that of step 3/);
is(cow('redo', 'passed'), "step 8: brought back step 1 (write /work/f)\n", 'and redo brings that back');
like(cowbox('restore', 'passed@1')->{err}, qr/nothing to change/, 'the times of a folder alone are not restored');

# ---- undo of what counts, and changed nothing ----
cow('new', 'mine');
cow('write', 'mine:f', 'one');
cow('fork', 'mine', 'theirs', {notes => 1});
cow('write', 'mine:f', 'two');
cow('write', 'theirs:f', 'three');
cow('merge', 'theirs', '--into', 'mine', '--prefer', 'mine');
is(cow('undo', 'mine'), "step 4: took back step 3 (merge theirs), which no longer counts; nothing else changed\n", 'a merge that changed nothing');
is(cow('redo', 'mine'), "step 5: brought back step 3 (merge theirs), which counts again; nothing else changed\n", 'and back');
ok(!json('undo', 'mine')->{undone}[0]{changed}, 'json: not changed');
ok(json('undo', 'mine')->{undone}[0]{changed}, 'json: changed');

done_testing();
