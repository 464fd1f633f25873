#!/usr/bin/perl
# What a run says it changed, against a whole look at the box before and after: random programs in small boxes, in layers and in the folder tier,
# several in a row, with undo, forks and writes from outside between them, so that what differs is brought to the folders of a run too.
# Nothing may be missing from the list and nothing more may be on it; and what a program sees in the box is what the box holds.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Run;

my $seed = seed_random();
my $world = run_world();
my $programs = "$world/programs";
mkdir $programs;
for (qw(churn.pl scan.pl)) { spill("$programs/$_", slurp("$FindBin::Bin/$_")) }

my $start = "$world/prepared/tree";
sub prepare {
	mkdir $_ for $start, map { "$start/$_" } qw(d d/e d/e/f other);
	spill("$start/d/f$_", "content $_\n" x $_) for 1 .. 12;
	spill("$start/d/e/f$_", 'x' x (1000 * $_)) for 1 .. 6;
	link "$start/d/f1", "$start/other/same" or die;
	symlink '../d/f2', "$start/other/link" or die;
	chmod 0600, "$start/d/f3";
	# The programs go in as files of the box, outside of what they play with.
	mkdir "$world/prepared/box";
	system('cp', '-a', $start, "$world/prepared/box/play") == 0 && system('cp', '-a', $programs, "$world/prepared/box/programs") == 0 or die;
	system('chmod', '-R', 'a+rX,u+w', "$world/prepared") == 0 or die;
}

my $number = 0;
sub state_of {
	my ($place) = @_;
	my $folder = "$world/state-" . ++$number;
	tree_of($place, $folder);
	my $tree = scan_tree("$folder/play");
	system('rm', '-rf', $folder);
	return $tree;
}

# Which names share a file is no difference of either.
sub essence {
	my ($line) = @_;
	return 'absent' unless defined $line;
	my @fields = split /\t/, $line, -1;
	$#fields = 4 if @fields > 5;
	return join "\t", @fields;
}

sub kind_of {
	my ($old, $new) = @_;
	return 'added' if $old eq 'absent';
	return 'deleted' if $new eq 'absent';
	# Of a file: type, size, sum; mode and attributes are no content.
	my ($a, $b) = map { my @f = split /\t/, $_, -1; $f[0] eq 'file' ? "@f[0, 2, 3]" : $f[0] eq 'folder' ? 'folder' : "@f" } $old, $new;
	return $a eq $b ? 'attributes' : 'modified';
}

# Paths that differ, {path => {what, text}}.
sub differences {
	my ($old, $new) = @_;
	my %differ;
	for my $path (keys %{{%$old, %$new}}) {
		my ($a, $b) = (essence($old->{$path}), essence($new->{$path}));
		$differ{$path} = {what => kind_of($a, $b), text => "$a -> $b"} if $a ne $b;
	}
	return \%differ;
}

# The list of a run, {path below play => kind}.
sub listed {
	my ($result) = @_;
	my %listed;
	for my $change (@{$result->{changed} || []}) {
		my $kind = $change->{change};
		for my $path ($change->{path}, $change->{old_path}) {
			next unless defined $path;
			my $bytes = $path;
			utf8::encode($bytes);
			$bytes =~ s{^/work/play/?}{} or do { $listed{"outside: $bytes"} = $kind; next };
			$bytes =~ s/([^!-\$&-~])/sprintf '%%%02x', ord $1/ge;
			$listed{$bytes} = $kind;
		}
	}
	return \%listed;
}

sub run_churn {
	my ($place, $old, $count) = @_;
	my $chosen = int rand 1e9;
	my $said = "$place->{name}: program $chosen, $count things";
	my @words = ('perl', '../programs/churn.pl', $chosen, $count, '.');
	if ($place->{native}) {
		my $r = in_place($place, {cwd => 'play'}, @words);
		is($r->{status}, 0, $said) or diag($r->{err});
		my $new = state_of($place);
		my $n = keys %{differences($old, $new)};
		note("$n differences");
		return $new;
	}
	my $r = in_place($place, {cwd => 'play', flags => ['--json']}, @words);
	my $result = eval { JSON::PP->new->utf8->decode($r->{out}) } || {};
	is($r->{status}, 0, "$said: runs") or diag("$r->{err}$r->{out}");
	my $new = state_of($place);
	my ($expected, $listed) = (differences($old, $new), listed($result));
	my @missing = grep { !exists $listed->{$_} } sort keys %$expected;
	# Which other names a file has may be listed as a change of its attributes.
	my @extra = grep { !exists $expected->{$_} && !($listed->{$_} eq 'attributes' && ($old->{$_} // '') ne ($new->{$_} // '')) } sort keys %$listed;
	# A rename is listed at its new name and tells the old one.
	my @wrong = grep { $listed->{$_} && $listed->{$_} ne 'renamed' && $listed->{$_} ne $expected->{$_}{what} } sort keys %$expected;
	ok(!@missing && !@extra && !@wrong, "$said: the list is exact (" . keys(%$expected) . ')') or do {
		diag("missing: $_: $expected->{$_}{text}") for @missing;
		diag("too much: $_: $listed->{$_}: " . ($new->{$_} // 'absent')) for @extra;
		diag("wrong: $_: $listed->{$_}, is $expected->{$_}{what}: $expected->{$_}{text}") for @wrong;
		diag($result->{stdout} // '');
	};
	return $new;
}

# A program of the box must see exactly what the box holds.
sub look_inside {
	my ($place, $known) = @_;
	my $tree = {%$known};
	my $r = in_place($place, {cwd => 'play'}, 'perl', '../programs/scan.pl', '.');
	my %inside = map { split /\t/, $_, 2 } split /\n/, $r->{out};
	# Programs may not read what has mode 000; the host's look may.
	for (grep { $inside{$_} =~ /\t\?Permission denied\t/ } keys %inside) {
		$inside{$_} =~ s/\t\?Permission denied\t/\t/;
		$tree->{$_} =~ s/\t[0-9a-f]{32}\t/\t/ if defined $tree->{$_};
	}
	# To open a file of a layer for writing parts it from its other names there, though nothing was written; an attribute that is set on one
	# of these is on all of them in the box, and on that one in the layer that it was set in.
	if (($place->{tier} // '') eq 'overlay') {
		for (grep { $tree->{$_} =~ /^file\t.*\t[^\t]+$/ && defined $inside{$_} } keys %$tree) { s/\t[^\t]*\t[^\t]*$/\t\t/ for $inside{$_}, $tree->{$_} }
		s/^(file\t.*\t)[^\t]*$/$1/ for values %inside, values %$tree;
	}
	my @wrong = grep { ($inside{$_} // 'absent') ne ($tree->{$_} // 'absent') } sort keys %{{%inside, %$tree}};
	ok($r->{status} == 0 && !@wrong, "$place->{name}: seen inside as it is") or do {
		diag($r->{err});
		diag("$_: inside " . ($inside{$_} // 'absent') . ', in the box ' . ($tree->{$_} // 'absent')) for @wrong;
	};
}

# Changes from outside, through the command line.
sub meddle {
	my ($place, $tree) = @_;
	my @files = grep { $tree->{$_} =~ /^file/ && !/%/ } sort keys %$tree;
	my @folders = grep { $tree->{$_} =~ /^folder/ && $_ ne '' && !/%/ } sort keys %$tree;
	my $box = "$place->{box}:/work/play";
	for (1 .. 1 + int rand 3) {
		my ($file, $folder) = (@files ? pick(@files) : 'none', @folders ? pick(@folders) : 'none');
		my $line = pick(
			['write', "$box/outside" . int rand 9, "from outside $_\n"], ['write', "$box/$file", "overwritten\n"], ['append', "$box/$file", "appended\n"],
			['rm', '-r', "$box/$folder"], ['rm', "$box/$file"], ['mkdir', "$box/made" . int rand 9], ['chmod', '640', "$box/$file"],
			['mv', "$box/$file", "$box/moved" . int rand 99], ['ln', "$box/$file", "$box/linked" . int rand 99], ['touch', "$box/$file"],
			['undo', $place->{box}], ['undo', $place->{box}], ['redo', $place->{box}], ['rm', '-r', "$box/$folder"]);
		my $r = cow_as(@$line, {any => 1});
		note("@$line: $r->{status}");
		# Not so far back that there was nothing to play with.
		cow_as('redo', $place->{box}) if $line->[0] eq 'undo' && cow_as('stat', $box, {any => 1})->{status};
	}
}

# Taken back, everything is as it was: also which names share a file.
sub take_back {
	my ($place, $old, $new) = @_;
	my $r = cow_as('undo', $place->{box}, {any => 1});
	return $new if $r->{status}; # it had changed nothing, and what went before was something else
	note('undo');
	my $now = state_of($place);
	my @wrong = grep { ($now->{$_} // 'absent') ne ($old->{$_} // 'absent') } sort keys %{{%$now, %$old}};
	ok(!@wrong, "$place->{name}: undo takes it back") or diag("$_: was " . ($old->{$_} // 'absent') . ', is ' . ($now->{$_} // 'absent')) for @wrong;
	return $now;
}

# Programs at once in folders of their own: each lists its own changes, the box has all of them.
sub run_at_once {
	my ($place) = @_;
	run_user($place->{user});
	my @tier = $place->{tier} ? ('--tier', $place->{tier}) : ();
	my %running;
	for my $i (1 .. 4) {
		my ($out, $err) = map { File::Temp->new } 1 .. 2;
		my $script = "mkdir -p at-once/$i && cd at-once/$i && for f in 1 2 3 4 5; do echo \$f-$i >\$f; sleep 0.05; done; ls .. >/dev/null";
		my $pid = spawn_words({out => $out, err => $err}, as_user("$world/cowbox", '--json', 'exec', $place->{box}, @tier, '--', 'sh', '-c', $script));
		$running{$pid} = {i => $i, out => $out, err => $err};
	}
	while (%running) {
		my $run = delete $running{waitpid -1, 0} or next;
		my $status = $?;
		my $result = eval { JSON::PP->new->utf8->decode(slurp($run->{out}->filename)) } || {};
		is($status, 0, "$place->{name}: at once") or diag(slurp($run->{err}->filename));
		my @others = grep { $_->{path} =~ m{/at-once/(\d)} && $1 != $run->{i} } @{$result->{changed} || []};
		ok(!@others && 5 == grep({ $_->{path} =~ m{/at-once/$run->{i}/\d$} } @{$result->{changed} || []}), "$place->{name}: at once, its own changes");
	}
	my $tree = tree_of($place, "$world/at-once-" . ++$number, 'at-once');
	is(join(' ', map { s/.*at-once-\d+.//r } sort glob "$tree/*/*"), join(' ', map { my $i = $_; map { "$i/$_" } 1 .. 5 } 1 .. 4), "$place->{name}: at once, all of them are there");
	system('rm', '-rf', $tree);
}

# What went wrong once: commands in a row, each with the paths it must list.
my @rows = (
	['what only the upper had, gone without a trace', ['mkdir made; echo x >made/f; echo y >alone', 'alone made made/f'], ['rm -r made alone', 'alone made made/f']],
	['a folder made anew over one of a layer', ['rm -r d/e; mkdir d/e; echo new >d/e/f1', 'd/e/f d/e/f1 d/e/f2 d/e/f3 d/e/f4 d/e/f5 d/e/f6'], ['rm -r d/e', 'd/e d/e/f1']],
	['a folder that moves with one of two names', ['mkdir n; echo x >n/f; ln n/f z', 'n n/f z'], ['true', ''], ['mv n a-moved', 'a-moved a-moved/f n n/f'], ['rm -r a-moved z', 'a-moved a-moved/f z']],
	['a whiteout that is taken back', ['rm d/f4', 'd/f4'], ['echo back >d/f4', 'd/f4'], ['rm d/f4', 'd/f4']],
);

sub run_rows {
	my ($place) = @_;
	for my $row (@rows) {
		my ($what, @commands) = @$row;
		for (@commands) {
			my ($script, $paths) = @$_;
			# Young entries are looked at again whatever they say: these must not be young.
			my $r = in_place($place, {cwd => 'play', flags => ['--json']}, 'sh', '-c', "$script; sleep 0.05");
			my $listed = listed(eval { JSON::PP->new->utf8->decode($r->{out}) } || {});
			is(join(' ', sort keys %$listed), $paths, "$place->{name}: $what: $script") or diag($r->{err});
			look_inside($place, state_of($place));
		}
	}
}

sub change_fork {
	my ($place) = @_;
	my $fork = "$place->{box}f";
	return if length $fork > 20;
	cow_as('fork', $place->{box}, $fork);
	note("fork $fork");
	$place->{box} = $fork;
}

prepare();
my $rounds = soak();
# The rows draw nothing: with many seeds (tools/seeds) one look at them is enough; and each seed has a place of its own.
my $only_random = $ENV{COWBOX_ONLY_RANDOM};
my @places = places();
@places = pick(@places) if $only_random;
for my $place (@places) {
	Run::make_place($place, "$world/prepared/box");
	run_rows($place) unless $place->{native} || $only_random;
	my $tree = state_of($place);
	for my $round (1 .. $rounds) {
		my $old = $tree;
		$tree = run_churn($place, $tree, pick(1, 5, 20, 60));
		next if $place->{native};
		run_user($place->{user});
		$tree = take_back($place, $old, $tree) if %{differences($old, $tree)} && rand() < 0.25;
		look_inside($place, $tree) if rand() < 0.4;
		change_fork($place) if rand() < 0.15;
		if (rand() < 0.5) { meddle($place, $tree); $tree = state_of($place) }
	}
	next if $place->{native};
	run_at_once($place);
	look_inside($place, state_of($place));
	like(cow_as('fsck'), qr/./, "$place->{name}: the store is sound");
}
done_testing();
