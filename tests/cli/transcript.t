#!/usr/bin/perl
# How it feels: the lines of the project's first page, verbatim, one after the other in a project's folder, each with its effect.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
mkdir 'src';
spill('a.txt', "first\nsecond\n");
spill('src/main.c', "int main(void)\n{\n\treturn 0;\n}\n");
spill('README.md', "# A project\n");
chmod 0755, 'src/main.c';
my %before = map { $_ => slurp($_) } qw(a.txt src/main.c README.md);

sub content { my ($path) = @_; return cow('cat', $path) }
sub steps { my ($box) = @_; return scalar @{json('log', $box)->{steps}} }

# new
script_ok(q{cowbox new demo --from .                      # this folder, at /work in the box; `cowbox new demo` alone is empty});
is(content("demo:/work/$_"), $before{$_}, "$_ came along") for sort keys %before;
is(json('stat', 'demo:/work/src/main.c')->{entries}[0]{mode}, '0755', 'with its mode');
script_ok('cowbox new empty');
is(cow('ls', 'empty:/work'), '', 'alone it is empty');

# write
script_ok(q{echo 'hello' | cowbox write demo:/work/a.txt  # or: cowbox write demo:/work/a.txt 'hello'});
is(content('demo:/work/a.txt'), "hello\n", 'standard input was written');
script_ok(q{cowbox write demo:/work/b.txt 'hello'});
is(content('demo:/work/b.txt'), "hello\n", 'a text is the same line');
script_ok(q{cowbox write demo:/work/a.txt 'hello'});
is(content('demo:/work/a.txt'), "hello\n", 'the same again');

# checkpoint
my $saved = steps('demo');
script_ok('cowbox checkpoint save demo before-refactor');
is(steps('demo'), $saved, 'a checkpoint is no step');
is(content('demo@before-refactor:/work/a.txt'), "hello\n", 'the checkpoint can be read');

# edit
script_ok('cowbox edit demo:/work/a.txt --old hello --new goodbye');
is(content('demo:/work/a.txt'), "goodbye\n", 'edited');
is(content('demo@before-refactor:/work/a.txt'), "hello\n", 'the checkpoint is as it was');

# diff
my $diff = script_ok(q{cowbox diff demo@before-refactor demo         # also: cowbox diff demo@-1, cowbox diff demo other-box});
like($diff, qr{^--- a/work/a\.txt\n\+\+\+ b/work/a\.txt\n@@ -1 \+1 @@\n-hello\n\+goodbye\n\z}m, 'the difference, as git shows it');
is(script_ok('cowbox diff demo@-1'), $diff, 'against the newest state');
script_ok('cowbox new other-box');
my $other = script_ok('cowbox diff demo other-box');
like($other, qr{^deleted file mode 100644\n(?:.*\n)*?--- a/work/a\.txt\n\+\+\+ /dev/null\n}m, 'of two boxes');

# undo, restore
script_ok(q{cowbox undo demo                              # the last change; cowbox restore demo@before-refactor; cowbox restore demo@3:/work/a.txt});
is(content('demo:/work/a.txt'), "hello\n", 'undone');
script_ok('cowbox write demo:/work/a.txt spoilt && cowbox rm demo:/work/b.txt');
script_ok('cowbox restore demo@before-refactor');
is(content('demo:/work/a.txt'), "hello\n", 'restored whole');
is(content('demo:/work/b.txt'), "hello\n", 'with what was removed');
my $third = content('demo@3:/work/a.txt');
script_ok('cowbox write demo:/work/a.txt spoilt && cowbox write demo:/work/b.txt kept');
script_ok('cowbox restore demo@3:/work/a.txt');
is(content('demo:/work/a.txt'), $third, 'one file restored');
is(content('demo:/work/b.txt'), "kept\n", 'and only that one');

# fork and merge: as it stands the line makes a fork without changes.
my $before_merge = steps('demo');
my $r = shell('cowbox fork demo try-1 --use && cowbox merge try-1 --into demo');
is($r->{status}, 0, 'a fork without changes merges') or diag($r->{err});
like($r->{err}, qr/\Acowbox: nothing to merge: [^\n]+\n\z/, 'that there was nothing to merge is said in a line');
is(steps('demo'), $before_merge, 'and makes no step');
is(json('merge', 'try-1', '--into', 'demo')->{step}, 0, 'nor in JSON');
chdir '..';
is(json('use')->{box}, 'try-1', '--use chose the fork, where the folder has no box of its own');
chdir 'folder';
cow('delete', 'try-1', '--yes', {notes => 1});
script_ok("cowbox fork demo try-1 --use && cowbox write try-1:/work/c.txt tried && cowbox merge try-1 --into demo");
is(content('demo:/work/c.txt'), "tried\n", 'merged');
is(steps('demo'), $before_merge + 1, 'as one step');

# log, show, blame
my $told = script_ok('cowbox log demo; cowbox show demo@4; cowbox blame demo:/work/a.txt');
like($told, qr/merge.*undo.*write/s, 'the log, newest first');
like($told, qr/goodbye|hello/, 'what a step did');
like($told, qr/hello$/m, 'and who wrote the line');

# apply
my $dry = script_ok(q{cowbox apply demo --dry-run                   # back to the folder it came from});
like($dry, qr/\ba\.txt/, 'a changed file is listed');
like($dry, qr/\bc\.txt/, 'a new file is listed');
is(slurp($_), $before{$_}, "$_ is as it was") for sort keys %before;
ok(!-e 'c.txt', 'nothing was written');
script_ok('cowbox apply demo');
is(slurp('c.txt'), "tried\n", 'without --dry-run it is');
is(slurp('a.txt'), content('demo:/work/a.txt'), 'and the changed file is the box\'s');

cow('fsck', {notes => 1});
done_testing();
