#!/usr/bin/perl
# Each wall of the sandbox taken away by itself, in a build made for that (VARIANT=walls): attacks that are held with all walls must then succeed. It
# shows that the attack works, that the test would see it, and that this wall is what holds it.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Range;
use Run;

my %bit = (seccomp => 1 << 0, net => 1 << 1, pid => 1 << 2, root => 1 << 3, 'read-only' => 1 << 4, caps => 1 << 5, userns => 1 << 6, fds => 1 << 7,
	exe => 1 << 8, limits => 1 << 9, etc => 1 << 10, uid => 1 << 11, ipc => 1 << 12, 'proc-sys' => 1 << 13, stdio => 1 << 14);
# Held by two walls: each alone holds, without both it falls.
my %together = (userns => 'seccomp', exe => 'caps');

my $world = run_world();
my $attack = (program() =~ s{/cowbox$}{}r) . '/tests/sandbox/attack';
my $list = attack_list($attack);
ok(keys %$list >= 100, 'the attacks') or BAIL_OUT("$attack is not built");

# Nobody's modes protect the helper.
chmod 0777, "$world/cowbox-box";
mkdir "$world/open";
mkdir "$world/open/$_" for qw(range bind seed);
chmod 0777, "$world/open/bind";
spill("$world/open/bind/file", "host\n");
chmod 0666, "$world/open/bind/file";
spill("$world/open/bind/root", "root\n");
chmod 0600, "$world/open/bind/root";
system('cp', $attack, "$world/open/seed/attack") == 0 or die;

my %at;
my @bounds = ('--pids', 128, '--mem', '64M', '--disk', '16M');
my @bound_params = ('pids=128', 'mem=' . (64 << 20), 'disk=' . (16 << 20), 'bind=/mnt/bind', 'root_file=/mnt/bind/root');

# The verdicts of these attacks, each run in a box of its own state (--discard), with the walls down.
sub verdicts {
	my ($down, @names) = @_;
	my %got;
	# What needs a bound on the command line is run with it, one at a time: it may be ended. What empties the output would empty verdicts.
	my @apart = grep { $list->{$_}{wall} eq 'stdio' } @names;
	my @plain = grep { !$list->{$_}{flags}{bound} && $list->{$_}{wall} ne 'stdio' } @names;
	my @calls = (@plain ? [[], @plain] : (), map({ [[], $_] } @apart), map { [[@bounds, '--bind-ro', "$world/open/bind:/mnt/bind"], $_] } grep { $list->{$_}{flags}{bound} } @names);
	for my $call (@calls) {
		my ($options, @these) = @$call;
		my $name = File::Temp->new;
		# Appended to: an attack that empties it must not leave a hole before its verdict.
		open my $out, '>>', $name->filename or die;
		my $errors = File::Temp->new;
		my $pid = spawn_words({env => {COWBOX_TEST_WALLS_DOWN => $down, ATTACK_CANARY => canary_value()}, out => $out, err => $errors},
			as_user("$world/cowbox", 'exec', 'box', '--discard', @$options, '--', '/work/attack', map({ "$_=$at{$_}" } sort keys %at), @bound_params, @these));
		waitpid $pid, 0;
		my $text = slurp($name->filename);
		my $verdicts = parse_verdicts($text);
		# A program that was ended by a bound is held.
		$got{$_} = ($verdicts->{$_} || [$text eq '' && @these == 1 ? 'HELD' : 'NOTHING', "ended: $text"]) for @these;
	}
	return \%got;
}

sub fill_store { cow_as('new', 'box'); cow_as('import', "$world/open/seed", 'box:/work', '--quiet') }

sub all_are {
	my ($where, $word, $got) = @_;
	for (sort keys %$got) { ok($got->{$_}[0] eq $word, "$where: $_: $got->{$_}[1]") or diag("$got->{$_}[0], not $word") }
}

for my $user ($> == 0 ? (0, ordinary_uid()) : (0)) {
	run_user($user);
	my $who = $> == 0 && !$user ? 'root' : 'user';
	%at = range("$world/open/range", store => $ENV{COWBOX_STORE}, helper => "$world/cowbox-box") unless %at;
	bystander();
	fill_store();
	# Root has a reserved uid inside: that has no keys, and no wall to hold but its own.
	my @proofs = grep { $list->{$_}{wall} ne 'uid' || $who eq 'root' } grep { $_ ne 'key-names' || $who eq 'user' } attack_names(sub { $_[0]{flags}{proof} });
	all_are("$who, all walls up", 'HELD', verdicts(0, @proofs));
	for my $wall (sort { $bit{$a} <=> $bit{$b} } keys %bit) {
		my @names = grep { $list->{$_}{wall} eq $wall } @proofs;
		next if $wall eq 'uid' && $who eq 'user';
		ok(@names > 0, "$wall: there is an attack that shows what it holds");
		if (my $other = $together{$wall}) {
			all_are("$who, without $wall", 'HELD', verdicts($bit{$wall}, @names));
			all_are("$who, without $other", 'HELD', verdicts($bit{$other}, @names));
			all_are("$who, without $wall and $other", 'BROKEN', verdicts($bit{$wall} | $bit{$other}, @names));
			next;
		}
		# Whom the folders of a store belong to is settled once.
		local $ENV{COWBOX_STORE} = $wall eq 'uid' ? "$ENV{COWBOX_STORE}-root" : $ENV{COWBOX_STORE};
		fill_store() if $wall eq 'uid';
		all_are("$who, without $wall", 'BROKEN', verdicts($bit{$wall}, @names));
	}
}
done_testing();
