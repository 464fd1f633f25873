# Run.pm: for tests that run real programs in boxes: places to run them (a box in a tier, as root or as an ordinary user, or a plain folder of the
# host, which shows that a test itself is sound), a scan of a tree to compare with, and what is left of a run: processes, mounts, folders.
#
# COWBOX_NATIVE=1 runs the same scripts in plain folders, without cowbox; COWBOX_PLACE=TEXT runs only places with that in their name.
package Run;
use strict;
use warnings;
use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use FindBin;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(sleep time);
use lib "$FindBin::Bin/../cli";
use Kit;

our @EXPORT = (
	qw(native lacking run_world run_user as_user spawn_words run_words cow_as cow_json places in_place file_of tree_of scan_tree scan_program
		adopt_orphans descendants await_nobody mounts ordinary_uid rates), @Kit::EXPORT);

my $here = dirname(abs_path(__FILE__));
my $world;
my $user = 0; # runs are this uid's; 0: whoever we are

my $native = $ENV{COWBOX_NATIVE}; # world() clears the environment
sub native { $native }
my $only = $ENV{COWBOX_PLACE} // ''; # places with this in their name
# A uid that nobody has and that owns nothing.
sub ordinary_uid { 12345 }

# What of these programs a box would not see, as a reason to skip; '' when all are there. Missing what must be there is no reason: then the test
# runs, and fails.
sub lacking {
	for my $name (@_) {
		next if -x "/usr/bin/$name" || -x "/bin/$name";
		return "no $name here" unless must_work();
	}
	return '';
}

# ---- a world: store, home, folder, and programs that an ordinary user can reach ----

sub run_world {
	$world = world();
	chmod 0755, $world;
	need_sandbox() unless native();
	system('cp', program(), dirname(program()) . '/cowbox-box', $world) == 0 or BAIL_OUT('cowbox-box is not built') unless native();
	# The folder of the source may be closed to ordinary users.
	mkdir "$world/$_" for qw(users prepared);
	return $world;
}

# From here on runs are this uid's (0: the test's own), with a store and a home of their own.
sub run_user {
	($user) = @_;
	my $base = "$world/users/$user";
	if (!-d $base) {
		mkdir $base;
		mkdir "$base/$_" for qw(home folder tmp);
		if ($user) { chown $user, $user, $base, map { "$base/$_" } qw(home folder tmp) }
	}
	$ENV{HOME} = "$base/home";
	$ENV{COWBOX_STORE} = "$base/store";
	chdir "$base/folder" or die;
	return $base;
}

sub as_user { my @words = @_; return $user && $> == 0 ? ('setpriv', "--reuid=$user", "--regid=$user", '--clear-groups', @words) : @words }

# {in, out, err: handles or nothing, env, group} -> pid. Words are run as they are.
sub spawn_words {
	my ($options, @words) = @_;
	my $pid = fork;
	die "fork: $!" unless defined $pid;
	return $pid if $pid;
	$ENV{$_} = $options->{env}{$_} for keys %{$options->{env} || {}};
	open STDIN, '<&', $options->{in} or POSIX::_exit(98) if $options->{in};
	open STDIN, '<', '/dev/null' or POSIX::_exit(98) if !$options->{in};
	open STDOUT, '>&', $options->{out} or POSIX::_exit(98) if $options->{out};
	open STDERR, '>&', $options->{err} or POSIX::_exit(98) if $options->{err};
	chdir $options->{cwd} or POSIX::_exit(97) if $options->{cwd};
	exec {$words[0]} @words or POSIX::_exit(99);
}

# The same, to its end (at most seconds, 120 unless told): {out, err, status, signal}.
sub run_words {
	my ($options, @words) = @_;
	my ($out, $err) = map { File::Temp->new } 1 .. 2;
	my $pid = spawn_words({%$options, out => $out, err => $err}, as_user(@words));
	my $late;
	local $SIG{ALRM} = sub { $late = 1; kill 'KILL', $pid };
	alarm($options->{seconds} || 120);
	1 while waitpid($pid, 0) < 0 && $!{EINTR};
	my $status = $?;
	alarm 0;
	my $note = $late ? "\n(killed by the test: too slow)\n" : '';
	return {out => slurp($out->filename), err => slurp($err->filename) . $note, status => $status >> 8, signal => $status & 127};
}

# cowbox as the chosen user; it must succeed. Gives the output.
sub cow_as {
	my $options = ref $_[-1] eq 'HASH' ? pop : {};
	my @words = @_;
	my $r = run_words($options, "$world/cowbox", @words);
	return $r if $options->{any};
	$r->{status} == 0 && $r->{signal} == 0 or do {
		fail("cowbox @words");
		diag("status $r->{status} signal $r->{signal}: $r->{err}$r->{out}");
	};
	return $r->{out};
}

sub cow_json {
	my $options = ref $_[-1] eq 'HASH' ? pop : {};
	my $text = cow_as('--json', @_, $options);
	my $value = eval { JSON::PP->new->utf8->decode($text) };
	return $value if defined $value;
	fail("JSON of cowbox @_: $@");
	diag($text);
	return {};
}

# ---- places ----

# A place: {name, user, tier, filler}. filler makes a box too large for a plain folder: then it is a stack of layers.
sub places {
	return ({name => 'native', native => 1, user => 0}) if native();
	my @kinds = ({name => 'small box'}, {name => 'layers', tier => 'overlay', filler => 600}, {name => 'folder', tier => 'folder', filler => 600});
	my @users = $> == 0 ? (0, ordinary_uid()) : (0);
	return grep { index($_->{name}, $only) >= 0 } map {
		my $uid = $_;
		map { {%$_, user => $uid, name => "$_->{name}, " . ($> == 0 && !$uid ? 'root' : 'ordinary user')} } @kinds
	} @users;
}

# Makes the place's box, /work holding what the folder has; later in_place() runs there.
sub make_place {
	my ($place, $folder) = @_;
	run_user($place->{user});
	my $box = $place->{box} ||= 'p' . ++$Run::boxes;
	if ($place->{native}) {
		$place->{dir} = "$world/native-$box";
		system('cp', '-a', $folder, $place->{dir}) == 0 or die;
		return $place;
	}
	cow_as('new', $box);
	cow_as('import', $folder, "$box:/work", '--quiet');
	if ($place->{filler}) {
		my $filler = "$world/filler";
		if (!-d $filler) {
			mkdir $filler;
			spill("$filler/f$_", "filler $_\n") for 1 .. $place->{filler};
		}
		cow_as('import', $filler, "$box:/work/filler", '--quiet');
	}
	return $place;
}

# Words run in the place, in /work or a folder below it: {out, err, status, signal}.
sub in_place {
	my ($place, $options, @words) = @_;
	run_user($place->{user});
	if ($place->{native}) {
		my $cwd = $place->{dir} . ($options->{cwd} ? "/$options->{cwd}" : '');
		return run_words({%$options, cwd => $cwd}, @words);
	}
	my @exec = ('exec', $place->{box});
	push @exec, '--tier', $place->{tier} if $place->{tier};
	push @exec, '--cwd', "/work/$options->{cwd}" if $options->{cwd};
	push @exec, @{$options->{flags} || []};
	return run_words({%$options, cwd => undef}, "$world/cowbox", @exec, '--', @words);
}

# A file of the place as the host sees it: in a box, of its newest state. undef: not there.
sub file_of {
	my ($place, $path) = @_;
	run_user($place->{user});
	if ($place->{native}) { return -e "$place->{dir}/$path" ? slurp("$place->{dir}/$path") : undef }
	my $r = cow_as('cat', "$place->{box}:/work/$path", {any => 1});
	return $r->{status} ? undef : $r->{out};
}

# The place's /work, or a folder below it, as a folder of the host.
sub tree_of {
	my ($place, $to, $below) = @_;
	my $base = run_user($place->{user});
	$below = defined $below ? "/$below" : '';
	if ($place->{native}) {
		system('cp', '-a', "$place->{dir}$below", $to) == 0 or die;
		return $to;
	}
	my $out = "$base/tmp/out";
	cow_as('export', "$place->{box}:/work$below", $out);
	rename $out, $to or die "$out: $!";
	return $to;
}

# ---- a tree as lines ----

# Runs anywhere perl does: type, mode, size, times, links, targets, attributes and sums of all that is below a folder, one line each. The
# same text is run inside a box and on the host.
sub scan_program { return slurp("$here/scan.pl") }

# {path => line}
sub scan_tree {
	my ($folder) = @_;
	open my $f, '-|', 'perl', "$here/scan.pl", $folder or die;
	my %tree;
	while (<$f>) { chomp; my ($path, $rest) = split /\t/, $_, 2; $tree{$path} = $rest }
	close $f or die "scan of $folder failed";
	return \%tree;
}

# ---- what is left ----

# Whoever loses its parent below us becomes our child: nothing can hide.
sub adopt_orphans {
	my $prctl = {x86_64 => 157, aarch64 => 167}->{(POSIX::uname())[4]} or return;
	syscall($prctl, 36, 1, 0, 0, 0) == 0 or die "prctl: $!";
}

# {pid => command line} of everything that descends from us, other than zombies.
sub descendants {
	my (%parent, %line);
	for my $pid (map { m{(\d+)$} } glob '/proc/[0-9]*') {
		open my $f, '<', "/proc/$pid/stat" or next;
		my $stat = <$f>;
		next unless defined $stat && $stat =~ /^\d+ \((.*)\) (\S) (\d+)/s;
		my ($name, $state, $ppid) = ($1, $2, $3);
		$parent{$pid} = $ppid;
		next if $state eq 'Z' || $state eq 'X';
		my $words = eval { slurp("/proc/$pid/cmdline") };
		$words = defined $words && $words ne '' ? $words : "($name)";
		$words =~ tr/\0/ /;
		$line{$pid} = $words;
	}
	my %mine;
	for my $pid (keys %line) {
		my $up = $parent{$pid};
		my $steps = 0;
		while ($up && $up != $$ && $steps++ < 50) { $up = $parent{$up} }
		$mine{$pid} = $line{$pid} if $up && $up == $$;
	}
	return \%mine;
}

# Waits until nobody descends from us (or nobody whose line matches); the rest after that many seconds.
sub await_nobody {
	my ($seconds, $pattern) = @_;
	my $end = time + $seconds;
	my $left;
	do {
		1 while waitpid(-1, POSIX::WNOHANG()) > 0;
		$left = descendants();
		if (defined $pattern) { $left->{$_} =~ $pattern or delete $left->{$_} for keys %$left }
		return {} unless %$left;
		sleep 0.02;
	} while time < $end;
	return $left;
}

# Those of this world, and overlays with relative names as ours are: others mount things meanwhile.
sub mounts { return join "\n", grep { /\Q$world\E|upperdir=[^\/]/ } sort split /\n/, slurp('/proc/self/mountinfo') }

1;
