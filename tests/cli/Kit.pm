# Kit.pm: for black-box tests of the command line: a world of its own per test (store, home, folder), runs of `cowbox`, checks of
# results, JSON and errors. Test::More's functions are exported as well.
package Kit;
use strict;
use warnings;
use Cwd qw(abs_path getcwd);
use Exporter 'import';
use Fcntl;
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use JSON::PP;
use POSIX ();
use Test::More;

our @EXPORT = (qw(world fixture fixture_again cowbox cow json fails script_ok shell pty spill slurp root_of program soak dose must_work lacks need_sandbox seed_random pick),
	@Test::More::EXPORT);

my $root = abs_path(dirname(__FILE__) . '/../..');
my $started_as = abs_path($0) // $0; # tests change folders
my $build = $ENV{COWBOX_BUILD} || "$root/build/release";
$build = "$root/$build" unless $build =~ m{^/};
my $world;

sub root_of { $root }
sub program { "$build/cowbox" }
sub soak { $ENV{COWBOX_SOAK} || 1 }
# Of random rounds: a twelfth of them in CI, all of them, so many times over, in a soak.
sub dose { my ($rounds) = @_; return soak() > 1 ? $rounds * soak() : int(($rounds + 11) / 12) }
# What bootstrap.sh installs may not be missing.
sub must_work { ($ENV{COWBOX_MUST_WORK} || '') eq '1' }

# What kernels, containers and users may lack: tests/may-lack. The reason to skip, or '' when the test must run, whatever comes of it.
sub lacks {
	my ($feature, $reason) = @_;
	return "$feature: $reason" if !must_work() || slurp("$root/tests/may-lack") =~ /^\Q$feature\E\s/m;
	return '';
}

# For tests that run programs in boxes: skips all of them where the machine cannot. After world().
sub need_sandbox {
	my @store = ('--store', "$world/probe");
	cowbox(@store, 'new', 'probe');
	my $r = cowbox(@store, '--json', 'exec', 'probe', '--', 'true');
	my $error = eval { JSON::PP->new->utf8->decode($r->{err})->{error} } || {};
	system('rm', '-rf', "$world/probe");
	return unless ($error->{code} || '') eq 'UNSUPPORTED';
	my $reason = lacks('sandbox', $error->{message});
	plan(skip_all => $reason) if $reason;
}

# A new folder with a store, a home and a work folder, which becomes the current one. Nothing of the user's is seen.
sub world {
	chdir '/';
	$world = tempdir('cowbox-cli-XXXXXX', TMPDIR => 1, CLEANUP => 1);
	mkdir "$world/$_" for qw(home folder);
	chdir "$world/folder" or die;
	delete @ENV{grep { /^COWBOX_(?!BUILD|SOAK|SEED|MUST_WORK|ONLY_RANDOM)/ || /^(XDG_|NO_COLOR|PAGER|LESS)/ } keys %ENV};
	$ENV{HOME} = "$world/home";
	$ENV{COWBOX_STORE} = "$world/store";
	$ENV{LOGNAME} = $ENV{USER} = 'tester';
	$ENV{PATH} = "$build:$ENV{PATH}" unless $ENV{PATH} =~ /^\Q$build\E:/;
	$ENV{TZ} = 'UTC';
	return $world;
}

# The world that the examples of every command run in: the current folder holds a small project and belongs to the box demo, which has a few
# steps on top, the checkpoint before-refactor in their middle and the fork try-1; the box other is empty.
sub fixture {
	world();
	mkdir 'src';
	spill('a.txt', "hi\n");
	spill('src/main.c', "#include <stdio.h>\n\nint main(void)\n{\n\treturn 0;\n}\n");
	spill('README.md', "# A project\n\nIt says hello.\n");
	my $r = shell(<<'END');
set -e
cowbox new demo --from .
cowbox write demo:/work/a.txt hello
printf '#include <stdio.h>\n\nint main(void)\n{\n\t/* %s: greet by name */\n\tputs("hello");\n\treturn 0;\n}\n' TO''DO | cowbox write demo:/work/src/main.c
cowbox checkpoint save demo before-refactor
printf '# A project\n\nIt says hello to everybody.\n\n## Use\n\nRun it.\n' | cowbox write demo:/work/README.md
cowbox chmod 755 demo:/work/src/main.c
cowbox kv set demo plan 'one, two'
cowbox tag add demo:/work/a.txt draft
cowbox meta set demo:/work/a.txt author ann
cowbox fork demo try-1
cowbox write try-1:/work/a.txt 'hello from a fork'
cowbox new other
END
	BAIL_OUT("the fixture: $r->{err}") if $r->{status} || $r->{err} ne '';
	system('mkdir', "$world/pristine") == 0 && system('cp', '-a', "$world/store", "$world/folder", "$world/pristine") == 0 or die;
	return $world;
}

# Back to where fixture() left it. The folder itself stays the same one, and its files do unless one was changed.
sub fixture_again {
	chdir "$world/folder" or die;
	system("rm -rf '$world/store' && cp -a '$world/pristine/store' '$world/store'") == 0 or die;
	return if system("diff -r '$world/pristine/folder' . >/dev/null 2>&1") == 0;
	system("find . -mindepth 1 -delete && cp -a '$world/pristine/folder/.' .") == 0 or die;
}

sub spill { my ($path, $text) = @_; open my $f, '>:raw', $path or die "$path: $!"; print $f $text; close $f or die "$path: $!" }
sub slurp { my ($path) = @_; open my $f, '<:raw', $path or die "$path: $!"; local $/; my $text = <$f>; return $text }

# cowbox(@words, {in => bytes, env => {..}}) gives {out, err, status, signal}.
sub cowbox {
	my $options = ref $_[-1] eq 'HASH' ? pop : {};
	my @words = @_;
	my ($in, $out, $err) = map { File::Temp->new } 1 .. 3;
	binmode $in;
	print $in $options->{in} if defined $options->{in};
	seek $in, 0, 0;
	my $pid = fork;
	die "fork: $!" unless defined $pid;
	if (!$pid) {
		$ENV{$_} = $options->{env}{$_} for keys %{$options->{env} || {}};
		open STDIN, '<&', $in;
		sysseek STDIN, 0, 0;
		open STDOUT, '>&', $out;
		open STDERR, '>&', $err;
		exec {program()} 'cowbox', @words or POSIX::_exit(99);
	}
	waitpid $pid, 0;
	my $status = $?;
	return {out => slurp($out->filename), err => slurp($err->filename), status => $status >> 8, signal => $status & 127};
}

# The same, which must succeed without a word on standard error (notes: {notes => 1}); gives its output.
sub cow {
	my $options = ref $_[-1] eq 'HASH' ? $_[-1] : {};
	my $r = cowbox(@_);
	my @words = grep { !ref } @_;
	my $good = $r->{status} == 0 && $r->{signal} == 0 && ($options->{notes} || $r->{err} eq '');
	ok($good, $options->{name} || "cowbox @words") or diag("status $r->{status} signal $r->{signal}: $r->{err}$r->{out}");
	return $r->{out};
}

# The same with --json, parsed.
sub json {
	my $options = ref $_[-1] eq 'HASH' ? pop : {};
	my $text = cow('--json', @_, $options);
	my $value = eval { JSON::PP->new->utf8->decode($text) };
	fail("JSON of @_: $@") and return {} unless defined $value;
	return $value;
}

# Must fail with that code (name of CB_ERROR_TABLE, by its JSON), one line on standard error that matches, nothing on standard output. The
# error is asked for twice, plain and as JSON, so the command must not have had an effect.
sub fails {
	my ($words, $code, $status, $pattern, $options) = @_;
	my $name = "fails: @$words";
	my $plain = cowbox(@$words, $options || {});
	my $r = cowbox('--json', @$words, $options || {});
	my $error = eval { JSON::PP->new->utf8->decode($r->{err})->{error} } || {};
	my $good = $plain->{status} == $status && $plain->{err} =~ /\Acowbox: [^\n]+\n\z/ && $plain->{err} =~ $pattern && $plain->{out} eq ''
		&& $r->{status} == $status && ($error->{code} || '') eq $code && $error->{exit} == $status;
	ok($good, $name) or diag("status $plain->{status}: $plain->{err}$plain->{out}json: $r->{err}");
	return $error;
}

# Shell lines as a user would type them; gives {out, err, status}.
sub shell {
	my ($text) = @_;
	my $err = File::Temp->new;
	open my $f, '-|', 'sh', '-c', "exec 2>'" . $err->filename . "'\n$text" or die;
	local $/;
	my $out = <$f>;
	close $f;
	return {out => defined $out ? $out : '', err => slurp($err->filename), status => $? >> 8};
}

sub script_ok {
	my ($text, $name) = @_;
	my $r = shell($text);
	ok($r->{status} == 0, $name || $text) or diag("status $r->{status}: $r->{err}$r->{out}");
	return $r->{out};
}

# Runs a shell line on a terminal of its own (script(1)), with what is typed; gives what the terminal showed.
sub pty {
	my ($line, $typed) = @_;
	my $log = File::Temp->new;
	local $SIG{INT} = 'DEFAULT'; # a shell that runs the tests in the background ignores it, and so would all below
	# script(1) also copies to its own standard output, which is the test's.
	open my $f, '|-', 'sh', '-c', 'exec script -qec "$1" "$2" >/dev/null', 'sh', $line, $log->filename or die;
	print $f $typed if defined $typed;
	close $f;
	my $text = slurp($log->filename);
	$text =~ s/\AScript started[^\n]*\n//;
	$text =~ s/\nScript done[^\n]*\n\z//;
	return $text;
}

# Every random choice of a test comes after this: then the seed repeats it.
my $seed;
sub seed_random {
	$seed = $ENV{COWBOX_SEED} || time;
	srand $seed;
	note("seed $seed");
	return $seed;
}

sub pick { $_[int rand @_] }

# The very command that repeats a failed random test, from the root of the source.
sub tell_again {
	my $builder = Test::More->builder;
	return if !defined $seed || $builder->is_passing;
	my @settings = map { "$_=$ENV{$_} " } grep { defined $ENV{$_} } qw(COWBOX_BUILD COWBOX_SOAK);
	(my $script = $started_as) =~ s{^\Q$root\E/}{};
	$builder->diag('again: ', @settings, "COWBOX_SEED=$seed $script");
}

END {
	tell_again();
	chdir "/";
}

1;
