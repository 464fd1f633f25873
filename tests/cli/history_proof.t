#!/usr/bin/perl
# diff against `git diff --no-index` and patch(1), merge against `git merge-file`, blame against a replay of the steps written here, on random
# texts; and several shells on one box, of which no acknowledged step may be lost.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

my $world = world();
seed_random();
my $only_random = $ENV{COWBOX_ONLY_RANDOM};

# Few different lines, so that they repeat and move; sometimes no newline at the end.
my @words = ('', 'a', 'b', '}', "\treturn 0;", 'x y', "\xc3\xa4", '-- ', '++', '@@ -1 +1 @@', '\\ No newline', 'diff --git', "cr\r");
sub random_lines { return map { pick(@words) . (rand() < 0.5 ? int rand 10 : '') } 1 .. int rand 30 }
sub text_of { my $text = join '', map { "$_\n" } @_; chop $text if @_ && rand() < 0.1; return $text }

sub change {
	my @lines = @_;
	for (0 .. int rand 4) {
		my $at = int rand(@lines + 1);
		my $how = rand;
		if ($how < 0.4) { splice @lines, $at, 0, map { pick(@words) } 0 .. int rand 3 }
		elsif ($how < 0.7) { splice @lines, $at, int rand 4 }
		elsif ($at < @lines) { $lines[$at] = pick(@words) . int rand 100 }
	}
	return @lines;
}

sub run_git { open my $f, '-|', 'git', '-c', 'core.quotepath=on', @_ or die; local $/; my $out = <$f>; close $f; return defined $out ? $out : '' }

# ---- diff ----

# Lines that stay and lines that change, whatever the hunks are called.
sub counts { my ($patch) = @_; my ($body) = $patch =~ /^(\@\@.*)\z/ms; $body //= ''; return (scalar(() = $body =~ /^\+/mg), scalar(() = $body =~ /^-/mg)) }

# Without context git apply takes a last line that has no newline for one like it that has.
sub git_follows_its_own {
	my ($patch, $old, $new) = @_;
	$patch =~ s{^(---|\+\+\+) [ab]/(?:old|new)$}{$1 . ($1 eq '---' ? ' a' : ' b') . '/own/f'}gme;
	$patch =~ s{^diff --git .*}{diff --git a/own/f b/own/f};
	mkdir 'own';
	spill('own/f', $old);
	spill('own.patch', $patch);
	return system('git apply -p1 --unidiff-zero --whitespace=nowarn own.patch >own.log 2>&1') == 0 && slurp('own/f') eq $new;
}

cow('new', 'texts');
my ($longer, $wrong, $serial) = (0, 0, 0);
for my $round (1 .. dose(25)) {
	my @old = random_lines();
	my ($old, $new) = (text_of(@old), text_of(change(@old)));
	my $context = pick(0, 1, 3, 3, 10);
	cowbox('write', 'texts:/work/f', {in => $old});
	my $from = JSON::PP->new->decode(cowbox('--json', 'log', 'texts', '-n', '1')->{out})->{steps}[0]{step};
	cowbox('write', 'texts:/work/f', {in => $new});
	my $ours = cowbox('diff', "texts\@$from", 'texts', '-U', $context)->{out};
	spill('old', $old);
	spill('new', $new);
	my $theirs = run_git('diff', '--no-index', '--no-color', "-U$context", 'old', 'new');
	my ($our_added, $our_removed) = counts($ours);
	my ($their_added, $their_removed) = counts($theirs);
	$wrong++, diag("round $round: $our_added+ $our_removed- against git's $their_added+ $their_removed-\n$ours$theirs")
		if $our_added - $our_removed != $their_added - $their_removed || ($ours eq '') != ($theirs eq '');
	$longer++ if $our_added > $their_added;
	next if $ours eq '';
	mkdir 'work';
	spill('work/f', $old);
	spill('ours.patch', $ours);
	system("git apply -p1 --unidiff-zero --whitespace=nowarn ours.patch >git.log 2>&1") == 0 or $wrong++, diag("round $round: git apply: " . slurp('git.log') . $ours);
	slurp('work/f') eq $new or $context == 0 && !git_follows_its_own($theirs, $old, $new) or $wrong++, diag("round $round: git apply gives another text\n$ours");
	next if $context == 0; # patch(1) guesses where hunks without context go
	spill('work/f', $old);
	system('patch -p1 -s --no-backup-if-mismatch --binary -F0 <ours.patch >patch.log 2>&1') == 0 or $wrong++, diag("round $round: patch: " . slurp('patch.log') . $ours);
	slurp('work/f') eq $new or $wrong++, diag("round $round: patch gives another text\n$ours");
}
is($wrong, 0, 'differences of random texts: as large as git says, and both git apply and patch make the new text of them');
cmp_ok($longer, '<=', 1 + dose(25) / 10, 'and hardly ever longer than those of git');

# Files, links and folders that take each other's places. Patches know no empty folders; and git looks through links that a patch takes away,
# so these lead nowhere.
sub files_below {
	my ($folder) = @_;
	my %files;
	my @below = ($folder);
	while (defined(my $at = shift @below)) {
		if (-l $at) { $files{$at} = 'link ' . readlink $at }
		elsif (-d $at) { opendir my $d, $at or die "$at: $!"; push @below, map { "$at/$_" } grep { !/^\.\.?$/ } readdir $d }
		else { $files{$at} = (-x $at ? 'program ' : 'file ') . slurp($at) }
	}
	return join "\n", map { substr($_, length $folder) . " $files{$_}" } sort keys %files;
}

sub random_node {
	my ($at, $depth) = @_;
	my $what = rand;
	return if $what < 0.2;
	if ($what < 0.45 && $depth < 3) {
		mkdir $at or die "$at: $!";
		random_node("$at/$_", $depth + 1) for 'a', 'b';
		rmdir $at if $at =~ m{/old/}; # if it is empty: git would not know that it is in the way
	} elsif ($what < 0.6) {
		symlink pick('nowhere', '../elsewhere'), $at or die "$at: $!";
	} else {
		spill($at, pick('', "one\n", "one\ntwo\n", "three"));
		chmod 0755, $at if rand() < 0.2;
	}
}

$wrong = 0;
mkdir 'types';
for my $round (1 .. dose(60)) {
	my $dir = "types/$round";
	mkdir $_ or die "$_: $!" for $dir, "$dir/old", "$dir/new", "$dir/old/work", "$dir/new/work";
	for my $side ('old', 'new') {
		random_node("$dir/$side/work/$_", 1) for 'a', 'b', 'c';
	}
	cowbox('new', "y$round");
	cowbox('import', "$dir/old/work", "y$round:/work");
	cowbox('fork', "y$round", "z$round");
	for my $name (map { substr($_, length "$dir/old") } glob "$dir/old/work/*") { cowbox('rm', '-r', "z$round:$name") }
	cowbox('import', "$dir/new/work", "z$round:/work");
	spill("$dir/patch", my $patch = cowbox('diff', "y$round", "z$round")->{out});
	my $differs = files_below("$dir/old") ne files_below("$dir/new");
	system("cd $dir/old && git apply -p1 --whitespace=nowarn ../patch >../git.log 2>&1") == 0 or $wrong++, diag("round $round: git apply: " . slurp("$dir/git.log") . $patch) if $differs;
	files_below("$dir/old") eq files_below("$dir/new") or $wrong++, diag("round $round: git apply makes\n" . files_below("$dir/old") . "\nnot\n" . files_below("$dir/new") . "\n$patch");
	cowbox('delete', $_, '--yes') for "y$round", "z$round";
}
is($wrong, 0, 'differences of random trees: git apply makes the new files and links of the old, whatever took the place of what');

# Every kind of change, under names that git writes in four ways, read by patch and by git apply; the ids in the text are those git gives, so
# that it may use them (--index, --3way). A binary file is only named: git apply says so, and takes none but one that goes.
sub make { my ($at, $what) = @_; my ($kind, $text) = @$what; if ($kind eq 'link') { symlink $text, $at or die "$at: $!" } else { spill($at, $text); chmod 0755, $at if $kind eq 'program' } }
sub quiet { my ($dir, $command, $log) = @_; return system("cd '$dir' && ($command) >'$log' 2>&1") == 0 }

my ($file, $empty, $program, $link) = (['file', "one\ntwo\n"], ['file', ''], ['program', "one\ntwo\n"], ['link', 'nowhere']);
my @kinds = (
	[text_changed => $file, ['file', "one\nthree\n"]], [text_added => undef, $file], [text_removed => $file, undef],
	[last_newline_gone => $file, ['file', "one\ntwo"]], [last_newline_new => ['file', 'one'], ['file', "one\n"]],
	[empty_added => undef, $empty], [empty_removed => $empty, undef], [emptied => $file, $empty], [filled => $empty, $file],
	[mode_only => $file, $program], [mode_of_empty => $empty, ['program', '']], [mode_and_text => $file, ['program', "three\n"]],
	[link_changed => $link, ['link', 'elsewhere']], [link_added => undef, $link], [link_removed => $link, undef],
	[file_to_link => $file, $link], [link_to_file => $link, $file],
	[renamed => $file, $file, 1], [renamed_with_mode => $file, $program, 1], [renamed_and_changed => $file, ['file', "one\nthree\n"], 1],
);
my @names = ('plain', 'a b', 't ', ' l', "ta\tb", 'q"uote', "new\nline", "\xff\xfe", 'back\\slash', "\"both\" \xc3\xa4 ", '-dash', 'a/b c/d');
$wrong = 0;
mkdir 'kinds';
for my $i (0 .. $#kinds) {
	my ($what, $old, $new, $renamed) = @{$kinds[$i]};
	my $all = $what =~ /^(text_changed|empty_added)$/;
	for my $name ($only_random ? () : $all ? @names : 'a b', $all ? () : @names[map { int rand @names } 1 .. dose(5)]) {
		my $dir = "$world/folder/kinds/" . ++$serial;
		my $to = $renamed ? "$name moved to " : $name;
		my ($folder) = $name =~ m{(.*)/};
		mkdir $_ or die "$_: $!" for $dir, map { my $side = $_; map { "$dir/$side$_" } '', '/work', $folder ? ('/work/a', "/work/$folder") : () } qw(old new);
		spill("$dir/$_/work/beside", "$_\n") for qw(old new);
		make("$dir/old/work/$name", $old) if $old;
		make("$dir/new/work/$to", $new) if $new;
		my ($was, $is) = ("k$serial", "l$serial");
		cowbox('new', $was);
		cowbox('import', "$dir/old/work", "$was:/work");
		cowbox('fork', $was, $is);
		cowbox('mv', "$is:/work/$name", "$is:/work/$to") if $renamed;
		cowbox('rm', "$is:/work/$name") if $old && !$new;
		cowbox('import', "$dir/new/work", "$is:/work");
		cowbox('kv', 'set', $is, 'key', 'value');
		cowbox('tag', 'add', "$is:/work/beside", 'tag');
		cowbox('mkdir', "$is:/work/folder");
		spill("$dir/text", my $patch = cowbox('diff', $was, $is)->{out});
		my $git = 'git -c core.autocrlf=false -c user.name=a -c user.email=a@a';
		for my $reader (['patch', 'patch -p1 -s -f --no-backup-if-mismatch <../text'], ['git', 'git apply -p1 --whitespace=nowarn ../text'],
			['index', "git init -q . && git add -A && git apply --index --whitespace=nowarn ../text && rm -rf .git"],
			['3way', "git init -q . && git add -A && $git commit -q -m old && git apply --3way --whitespace=nowarn ../text && rm -rf .git"]) {
			system('cp', '-a', "$dir/old", "$dir/$reader->[0]") == 0 or die;
			quiet("$dir/$reader->[0]", $reader->[1], "$dir/log") or $wrong++, diag("$what '$name': $reader->[0]: " . slurp("$dir/log") . $patch);
			files_below("$dir/$reader->[0]") eq files_below("$dir/new") or $wrong++,
				diag("$what '$name': $reader->[0] makes\n" . files_below("$dir/$reader->[0]") . "\nnot\n" . files_below("$dir/new") . "\n$patch");
		}
		for my $id (map { /^index (\w+)\.\.(\w+)/ ? [$1, $2] : () } split /\n/, $patch) {
			my @sizes = map { length } @$id;
			"@sizes" eq '40 40' or $wrong++, diag("$what '$name': ids of @sizes digits");
		}
		cowbox('delete', $_, '--yes') for $was, $is;
	}
}
is($wrong, 0, 'every kind of change under every kind of name: patch -p1 and git apply make the new files of the old');

# Files and links that move around among a few names, alone or with their folder, leave theirs to others, take others' and are written on the
# way: patch makes the changes one by one, and moves no links.
$wrong = 0;
mkdir 'moves';
for my $round (1 .. dose(12)) {
	my $dir = "$world/folder/moves/$round";
	my @all = map { ("a$_", "d/b $_", "d/e/c$_") } 1 .. 3;
	my ($was, $is) = ("m$round", "n$round");
	cowbox('new', $was);
	cowbox('write', '--parents', "$was:/work/$_", {in => "$_\n" . "line\n" x 5}) for grep { rand() < 0.6 } @all;
	cowbox('write', "$was:/work/beside", {in => "old\n"});
	cowbox('mkdir', '-p', "$was:/work/d/e");
	cowbox('ln', '-s', pick('no/where', '../else/where'), "$was:/work/$_") for grep { rand() < 0.5 } @all; # where no file is
	cowbox('fork', $was, $is);
	cowbox('write', "$is:/work/beside", {in => "new\n"});
	for (1 .. 2 + rand 6) {
		my ($from, $to) = map { $all[rand @all] } 1, 2;
		if (rand() < 0.15) { cowbox('rm', "$is:/work/$from"), cowbox('ln', '-s', pick('no/where', 'no/thing'), "$is:/work/$from") }
		elsif (rand() < 0.15) { cowbox('mv', "$is:/work/$_->[0]", "$is:/work/$_->[1]") for pick(['d/e', 'd/moved'], ['d/moved', 'd/e'], ['d/e', 'e']) }
		elsif (rand() < 0.3) { cowbox('write', "$is:/work/$from", {in => pick('', "new $from\n", "$from\n" . "line\n" x 5 . "more\n")}) }
		elsif (rand() < 0.5) { cowbox('mv', "$is:/work/$from", "$is:/work/$to") } # what is not there is not moved
		else { cowbox('mv', "$is:/work/$_->[0]", "$is:/work/$_->[1]") for [$from, 'aside'], [$to, $from], ['aside', $to] }
	}
	mkdir $_ or die "$_: $!" for $dir, map { "$dir/$_" } qw(patch git new);
	cowbox('export', "$was:/work", "$dir/$_/work") for qw(patch git);
	cowbox('export', "$is:/work", "$dir/new/work");
	spill("$dir/text", my $patch = cowbox('diff', $was, $is)->{out});
	for my $reader (['patch', 'patch -p1 -s -f --no-backup-if-mismatch <../text'], ['git', 'git apply -p1 --whitespace=nowarn ../text']) {
		quiet("$dir/$reader->[0]", $reader->[1], "$dir/log") or $wrong++, diag("round $round: $reader->[0]: " . slurp("$dir/log") . $patch);
		files_below("$dir/$reader->[0]") eq files_below("$dir/new") or $wrong++,
			diag("round $round: $reader->[0] makes\n" . files_below("$dir/$reader->[0]") . "\nnot\n" . files_below("$dir/new") . "\n$patch");
	}
	cowbox('delete', $_, '--yes') for $was, $is;
}
is($wrong, 0, 'files and links that take each other\'s names: patch -p1 and git apply make the new files of the old');

my @binary = (['changed', "a\0b", "a\0c"], ['added', undef, "a\0c"], ['removed', "a\0b", undef], ['large', 'x' x (17 << 20), 'y' x (17 << 20)]);
for my $case ($only_random ? () : @binary) {
	my ($how, $old, $new) = @$case;
	my $dir = "$world/folder/binary-$how";
	mkdir $_ or die "$_: $!" for $dir, "$dir/old", "$dir/old/work";
	cow('new', "bin-$how");
	for my $side (['b i', $old, 'one'], ['b i', $new, 'two']) {
		cowbox('write', "bin-$how:/work/$side->[0]", {in => $side->[1]}) if defined $side->[1];
		cowbox('rm', "bin-$how:/work/$side->[0]") if $side->[2] eq 'two' && !defined $new;
		cowbox('write', "bin-$how:/work/text", $side->[2]);
		cowbox('checkpoint', 'save', "bin-$how", $side->[2]);
	}
	spill("$dir/old/work/b i", $old) if defined $old;
	spill("$dir/old/work/text", "one\n");
	spill("$dir/patch", my $patch = cow('diff', "bin-$how\@one", "bin-$how"));
	my ($a, $b) = (defined $old ? 'a/work/b i' : '/dev/null', defined $new ? 'b/work/b i' : '/dev/null');
	like($patch, qr{^Binary files \Q$a\E and \Q$b\E differ$}m, "a binary file $how is named");
	my $read = quiet("$dir/old", 'git apply ../patch', "$dir/log");
	is($read, $how eq 'removed', "git apply, of a binary file $how, " . ($read ? 'takes it' : 'says that it cannot')) or diag(slurp("$dir/log") . $patch);
	like(slurp("$dir/log"), qr{\Aerror: (missing binary patch data for|cannot apply binary patch to) 'work/b i'}, 'and why') unless $read;
	is(-e "$dir/old/work/b i" ? 1 : 0, defined $old && defined $new || 0, 'nothing else is there') if $how ne 'added';
	is(slurp("$dir/old/work/text"), $read ? "two\n" : "one\n", 'all of the patch, or nothing');
}

# ---- merge ----

$wrong = 0;
my ($clean, $open) = (0, 0);
for my $round (1 .. dose(15)) {
	my @base = map { "line $_" } 1 .. 5 + int rand 60;
	my ($base, $ours, $theirs) = map { join '', map { "$_\n" } @$_ } \@base, [change(@base)], [change(@base)];
	cowbox('new', "m$round");
	cowbox('write', "m$round:/work/f", {in => $base});
	cowbox('fork', "m$round", "t$round");
	cowbox('write', "m$round:/work/f", {in => $ours});
	cowbox('write', "t$round:/work/f", {in => $theirs});
	spill($_->[0], $_->[1]) for ['base', $base], ['ours', $ours], ['theirs', $theirs];
	my $merged = run_git('merge-file', '-p', '-q', 'ours', 'base', 'theirs');
	my $conflicts = $? >> 8;
	my $r = cowbox('merge', "t$round", '--into', "m$round");
	if ($theirs eq $base) {
		$r->{status} == 0 || $r->{status} == 1 or $wrong++;
	} elsif ($conflicts == 0) {
		$clean++;
		my $got = cowbox('show', "m$round:/work/f")->{out};
		$r->{status} == 0 && $got eq $merged or $wrong++, diag("round $round: git merges, we: $r->{err}$got---\n$merged--- of\n$base--- and\n$ours--- and\n$theirs");
	} else {
		$open++;
		$r->{status} == 9 && $r->{out} =~ m{\Aconflict: /work/f: } or $wrong++, diag("round $round: git sees a conflict, we: $r->{status} $r->{err}\n$base---\n$ours---\n$theirs");
		cowbox('merge', "t$round", '--into', "m$round", '--prefer', "t$round")->{status} == 0 or $wrong++;
		cowbox('show', "m$round:/work/f")->{out} eq $theirs or $wrong++, diag("round $round: not the file that was preferred");
	}
	cowbox('delete', "$_$round", '--yes') for qw(m t);
}
is($wrong, 0, "merges of random texts are those of git merge-file ($clean clean, $open with conflicts)");

# ---- blame ----

# Another way to the same answer: every line carries a number of its own through splices that this test makes and knows, and lines are told
# apart, so there is one answer only.
$wrong = $serial = 0;
for my $round (1 .. dose(5)) {
	my $box = "b$round";
	cowbox('new', $box);
	my (@lines, $step) = ();
	my $path = '/work/f';
	for (1 .. 12) {
		my @touched = @lines;
		for (0 .. int rand 3) {
			my $at = int rand(@touched + 1);
			splice @touched, $at, int rand 3, map { {text => 'line ' . ++$serial, step => undef} } 0 .. int rand 3;
		}
		my $text = join '', map { "$_->{text}\n" } @touched;
		if (rand() < 0.15 && @lines) {
			my $to = $path eq '/work/f' ? '/work/g' : '/work/f';
			cowbox('mv', "$box:$path", "$box:$to");
			$path = $to;
			$step++;
		}
		next if @touched == @lines && !grep { !defined $_->{step} } @touched;
		cowbox('write', "$box:$path", {in => $text});
		$step++;
		$_->{step} //= $step for @touched;
		@lines = @touched;
	}
	my $got = JSON::PP->new->decode(cowbox('--json', 'blame', "$box:$path")->{out})->{lines};
	my $want = join "\n", map { "$_->{step} $_->{text}" } @lines;
	my $have = join "\n", map { "$_->{step} $_->{text}" } @$got;
	$have eq $want or $wrong++, diag("round $round: blame\n$have\nreplay\n$want");
}
is($wrong, 0, 'blame of random histories is that of a replay of the steps');

# ---- several shells on one box ----

cow('new', 'shared');
my @children;
for my $shell (1 .. 4) {
	my $pid = fork;
	if (!$pid) {
		my @steps;
		srand $shell;
		for my $i (1 .. 12) {
			my $r = cowbox('write', "shared:/work/$shell-$i", "$shell $i");
			push @steps, "$shell-$i" if $r->{status} == 0;
			my $read = pick(['log', 'shared', '--stat', '-n', '3'], ['diff', 'shared@0', 'shared', '--stat'], ['diff', 'shared'], ['show', 'shared']);
			my $answer = cowbox('--json', @$read);
			push @steps, "broken @$read: $answer->{err}" unless $answer->{status} == 0 && eval { JSON::PP->new->utf8->decode($answer->{out}) };
			cowbox('undo', 'shared') if $shell == 4 && $i % 4 == 0;
		}
		spill("$world/steps-$shell", join "\n", @steps);
		POSIX::_exit(0);
	}
	push @children, $pid;
}
waitpid $_, 0 for @children;
my $steps = json('log', 'shared')->{steps};
my %written = map { $_->{params} =~ m{/work/(.*)} ? ($1 => 1) : () } grep { $_->{kind} eq 'write' } @$steps;
my @acknowledged = map { split /\n/, slurp("$world/steps-$_") } 1 .. 4;
is(scalar(grep { /^broken/ } @acknowledged), 0, 'readers beside writers get whole answers') or diag(join "\n", grep { /^broken/ } @acknowledged);
is_deeply([grep { !$written{$_} } grep { !/^broken/ } @acknowledged], [], 'every acknowledged write of four shells is in the log');
is(scalar(@acknowledged), 48, 'and all were acknowledged');
is_deeply([map { $_->{step} } @$steps], [reverse 0 .. $#$steps], 'no step is missing or twice');
my $undone = grep { $_->{kind} eq 'undo' } @$steps;
my $files = () = cow('show', 'shared:/work') =~ /\n/g;
is($files, 48 - $undone, 'each undo took back one write');

done_testing();
