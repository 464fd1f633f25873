#!/usr/bin/perl
# Many forks of one box, each running a command, some at once: each sees the box as it was and its own changes only; afterwards no process, no mount and no
# folder is left but the caches that cowbox keeps for boxes that exist, and `cowbox clean` takes those. COWBOX_SOAK=50 makes it a thousand.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Run;

my $world = run_world();
adopt_orphans();
my $mounts_before = mounts();
my $forks = 20 * soak();

mkdir "$world/prepared/$_" for qw(small large);
spill("$world/prepared/small/f$_", "file $_\n") for 1 .. 30;
spill("$world/prepared/large/f$_", "file $_\n") for 1 .. 700;
system('chmod', '-R', 'a+rX', "$world/prepared") == 0 or die;

sub work_folders { my ($base) = @_; return [sort map { m{([^/]+)$} } glob "$base/store/work/area/*"] }

# Four at a time; each changes a file of all, makes one of its own, and reads another.
sub run_forks {
	my ($place, @boxes) = @_;
	my (%running, @wrong);
	my $reap = sub {
		my $pid = waitpid -1, 0;
		my $run = delete $running{$pid} or return;
		my $text = slurp($run->{out}->filename);
		push @wrong, "$run->{box}: status $? says '$text'" unless $? == 0 && $text eq "file 7\n";
	};
	for my $box (@boxes) {
		$reap->() while keys %running >= 4;
		my $out = File::Temp->new;
		my @tier = $place->{tier} ? ('--tier', $place->{tier}) : ();
		my $script = "cat f7 && echo $box >f1 && echo own >own-$box && rm f9";
		$running{spawn_words({out => $out, err => $out}, as_user("$world/cowbox", 'exec', $box, @tier, '--', 'sh', '-c', $script))} = {box => $box, out => $out};
	}
	$reap->() while %running;
	return @wrong;
}

for my $place (places()) {
	next if $place->{native};
	my $base = run_user($place->{user});
	my $folder = delete $place->{filler} ? 'large' : 'small';
	Run::make_place($place, "$world/prepared/$folder");
	my $name = $place->{name};
	in_place($place, {}, 'true') if $folder eq 'large'; # a layer for all of them
	my @boxes = map { "$place->{box}-$_" } 1 .. $forks;
	cow_as('fork', $place->{box}, $_) for @boxes;
	my @wrong = run_forks($place, @boxes);
	ok(!@wrong, "$name: $forks forks run") or diag(join "\n", @wrong[0 .. ($#wrong < 5 ? $#wrong : 5)]);
	for my $box (@boxes) {
		my $files = cow_json('ls', "$box:/work");
		my %there = map { ($_->{name} // $_->{path}) => 1 } @{ref $files eq 'HASH' ? $files->{entries} : $files};
		push @wrong, "$box: " . join ' ', grep { /own/ } keys %there unless $there{"own-$box"} && !$there{f9} && 1 == grep { /^own-/ } keys %there;
		push @wrong, "$box: f1" unless cow_as('cat', "$box:/work/f1") eq "$box\n";
	}
	ok(!@wrong, "$name: each has its own changes and no other's") or diag(join "\n", @wrong[0 .. ($#wrong < 5 ? $#wrong : 5)]);
	is(cow_as('cat', "$place->{box}:/work/f1"), "file 1\n", "$name: the box they came from is as it was");
	is_deeply(await_nobody(20), {}, "$name: nobody is left");
	is(mounts(), $mounts_before, "$name: nothing is mounted");
	is(cow_as('fsck', {any => 1})->{status}, 0, "$name: the store is sound");
	cow_as('delete', '--yes', @boxes, $place->{box});
	cow_as('gc');
	my $left = work_folders($base);
	ok(!grep({ /^\d+\.\d+$/ } @$left), "$name: no folder of a run is left of boxes that are gone") or diag("@$left");
}
done_testing();
