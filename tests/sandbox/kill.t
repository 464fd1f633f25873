#!/usr/bin/perl
# kill -9 of the caller, of the holder, of the sandbox's init and of the program, at random moments of every stage: while the folders are built, while the
# program runs, while its changes are captured. Afterwards nothing runs and nothing is mounted, the store is sound, the next command works,
# and every file that the program had said to be finished is in the box.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Run;
use Time::HiRes qw(sleep time);

seed_random();
my $world = run_world();
my $rounds = soak();
adopt_orphans();
my $mounts_before = mounts();

mkdir "$world/prepared/small";
spill("$world/prepared/small/writer.pl", slurp("$FindBin::Bin/writer.pl"));
spill("$world/prepared/small/f$_", "file $_\n") for 1 .. 20;
system('cp', '-a', "$world/prepared/small", "$world/prepared/large") == 0 or die;
my $large = 700; # enough for layers
for (1 .. $large) {
	my $folder = "$world/prepared/large/d" . int $_ / 200;
	mkdir $folder;
	spill("$folder/f$_", "file $_\n" x 20);
}
system('chmod', '-R', 'a+rX', "$world/prepared") == 0 or die;

my $runs = 0;

# Starts a run of the writer: {pid, out (its standard output), marker, folder, read (numbers said)}.
sub start {
	my ($place, $count, $pause) = @_;
	run_user($place->{user});
	my $run = {marker => "marker-$$-" . ++$runs, folder => "out$runs", said => 0, text => ''};
	pipe my $out, my $in or die;
	$run->{errors} = File::Temp->new;
	my @words = ('perl', 'writer.pl', $run->{marker}, $run->{folder}, $count, $pause);
	my %options = (out => $in, err => $run->{errors});
	if ($place->{native}) { $run->{pid} = spawn_words({%options, cwd => $place->{dir}}, @words) }
	else { $run->{pid} = spawn_words(\%options, as_user("$world/cowbox", 'exec', $place->{box}, $place->{tier} ? ('--tier', $place->{tier}) : (), '--', @words)) }
	close $in;
	$out->blocking(0);
	$run->{out} = $out;
	return $run;
}

# Reads what has been said so far; true while there may be more.
sub hear {
	my ($run) = @_;
	while (1) {
		my $n = sysread $run->{out}, my $bytes, 65536;
		if (!defined $n) { return 1 }
		return 0 if $n == 0;
		$run->{text} .= $bytes;
		$run->{said} = $1 if $run->{text} =~ /.*^(\d+)\n/ms;
		$run->{end} = 1 if $run->{text} =~ /^end\n/m;
	}
}

sub parent_of { my $stat = eval { slurp("/proc/$_[0]/stat") } // ''; return $stat =~ /^\d+ \(.*\) \S (\d+)/s ? $1 : 0 }

# The pid of caller, holder, init, program; 0: not there (yet).
sub find_process {
	my ($run, $who) = @_;
	return $run->{pid} if $who eq 'caller';
	my $all = descendants();
	if ($who eq 'program') { return (grep { $all->{$_} =~ /^\S*perl\b.*\Q$run->{marker}\E/ } sort { $a <=> $b } keys %$all)[0] // 0 }
	my ($holder) = grep { parent_of($_) == $run->{pid} } keys %$all;
	return $holder // 0 if $who eq 'holder' || !$holder;
	return (grep { parent_of($_) == $holder } keys %$all)[0] // 0;
}

# Listens until the moment has come: {said => n}, {end => 1}, or nothing; then that many seconds more.
sub await_moment {
	my ($run, $moment) = @_;
	my $deadline = time + 60;
	while (time < $deadline && hear($run)) {
		last if !defined $moment->{said} && !$moment->{end};
		last if defined $moment->{said} && $run->{said} >= $moment->{said};
		last if $moment->{end} && $run->{end};
		sleep 0.0005;
	}
	my $until = time + $moment->{delay};
	while (time < $until) { hear($run); sleep 0.0005 }
}

sub check_after {
	my ($place, $run, $what) = @_;
	my $deadline = time + 30;
	while (hear($run) && time < $deadline) { sleep 0.002 }
	my $left = await_nobody(30);
	is_deeply($left, {}, "$what: nobody is left");
	is(mounts(), $mounts_before, "$what: nothing is mounted") unless $place->{native};
	my $r = in_place($place, {}, 'sh', '-c', 'echo works');
	ok($r->{status} == 0 && $r->{out} eq "works\n", "$what: the next command works") or diag("status $r->{status}: $r->{err}$r->{out}");
	my $said = $run->{said};
	my @missing;
	my $tree = $said ? tree_of($place, "$world/after-$runs", $run->{folder}) : '';
	for my $i (1 .. $said) {
		my $path = "$tree/" . int($i / 100) . "/f$i";
		push @missing, $i unless -f $path && slurp($path) eq "number $i\n" x (1 + $i % 50);
	}
	ok(!@missing, "$what: all $said files that were finished are there") or diag('missing: ' . join(' ', @missing[0 .. ($#missing < 20 ? $#missing : 20)]) . "\n" . slurp($run->{errors}->filename));
	is(file_of($place, 'f7'), "file 7\n", "$what: what was there is");
	system('rm', '-rf', "$world/after-$runs");
	return if $place->{native};
	my $fsck = cow_as('fsck', {any => 1});
	is($fsck->{status}, 0, "$what: the store is sound") or diag($fsck->{out} . $fsck->{err});
}

sub strike {
	my ($place, $who, $moment, $count, $pause) = @_;
	my $run = start($place, $count, $pause);
	await_moment($run, $moment);
	my $pid = find_process($run, $who);
	my $what = sprintf '%s: %s of %s%s', $place->{name}, $moment->{name}, $who, $pid ? '' : ' (not there then)';
	kill 'KILL', $pid if $pid;
	check_after($place, $run, $what);
}

# How long an undisturbed run takes until it speaks, and from its last word to its end.
sub measure {
	my ($place, $count) = @_;
	my $begin = time;
	my $run = start($place, $count, 0);
	await_moment($run, {said => 1, delay => 0});
	my $first = time - $begin;
	await_moment($run, {end => 1, delay => 0});
	my $end = time;
	while (hear($run)) { sleep 0.001 }
	waitpid $run->{pid}, 0;
	is($? >> 8, 0, "$place->{name}: an undisturbed run") or diag(slurp($run->{errors}->filename));
	return ($first, time - $end);
}

my @who = native() ? ('caller') : qw(caller caller holder init program);
my @places = places();
@places = pick(@places) if $ENV{COWBOX_ONLY_RANDOM}; # of many seeds (tools/seeds) each has a place and a stage of its own
for my $place (@places) {
	# Forks of one box: their first run builds.
	my $folder = $place->{filler} ? 'large' : 'small';
	delete $place->{filler};
	Run::make_place($place, "$world/prepared/$folder");
	my $first_box = $place->{box};
	cow_as('checkpoint', 'save', $first_box, 'start') unless $place->{native};
	my $many = 300;
	my ($build, $capture) = measure($place, $many);
	my $only = $ENV{COWBOX_ONLY_RANDOM} ? pick(qw(run capture build)) : '';
	for my $round (1 .. $rounds) {
		strike($place, pick(@who), {name => 'run', said => 1 + int rand 60, delay => rand 0.02}, 5000, 500) if $only =~ /^(run)?$/;
		strike($place, pick(@who), {name => 'capture', end => 1, delay => rand($capture * 1.1)}, $many, 0) if $only =~ /^(capture)?$/;
		next if $place->{native} || $only !~ /^(build)?$/;
		my $fork = "b$runs";
		cow_as('fork', "$first_box\@start", $fork);
		$place->{box} = $fork;
		strike($place, pick(@who), {name => 'build', delay => rand($build * 1.1)}, 50, 0);
	}
}
done_testing();
