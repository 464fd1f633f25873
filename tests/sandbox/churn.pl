#!/usr/bin/perl
# churn.pl SEED COUNT FOLDER: a program that does COUNT random things to the files below a folder, the same ones for the same seed and tree. Whatever the
# filesystem refuses is refused; it ends with 0. It prints a line per thing done, for whoever looks for a reason.
use strict;
use warnings;
use Fcntl;
use POSIX ();

my ($seed, $count, $root) = @ARGV;
chdir $root or die "$root: $!\n";
srand $seed;
my %number = (POSIX::uname())[4] eq 'aarch64' ? (set => 5, remove => 14) : (set => 188, remove => 197);
my (@files, @folders, @links);

sub pick { return $_[int rand @_] }

sub look {
	my ($folder) = @_;
	opendir my $d, $folder or return;
	for my $name (sort grep { $_ ne '.' && $_ ne '..' } readdir $d) {
		my $path = $folder eq '.' ? $name : "$folder/$name";
		lstat $path or next;
		if (-l _) { push @links, $path }
		elsif (-d _) { push @folders, $path; look($path) }
		else { push @files, $path }
	}
}

sub again { @files = @links = (); @folders = ('.'); look('.') }

sub fresh_name {
	my $stem = pick('a', 'b', 'c', 'new', 'x y', '-dash', 'per%cent', "line\nbreak", "\xc3\xa4", 'v' x 200, '.hidden');
	return pick(@folders) . '/' . $stem . int rand 40;
}
sub any_name { return @files && rand() < 0.4 ? pick(@files) : fresh_name() }
sub bytes { my $n = pick(0, 1, 10, 100, 4096, 5000, 100_000); return substr(join('', map { chr(97 + rand 26) } 1 .. 64) x (1 + $n / 64), 0, $n) }
sub put { my ($path, $flags, $text, $at) = @_; sysopen my $f, $path, O_WRONLY | $flags, 0644 or return; sysseek $f, $at, 0 if $at; syswrite $f, $text; close $f }
# The text of a file without holes: to fill holes is a change of its own kind, though no byte differs.
sub dense_text { my ($path) = @_; my @s = stat $path; return if !@s || ($s[7] > 16384 && $s[12] * 512 < $s[7]); open my $f, '<:raw', $path or return; local $/; return scalar <$f> }
sub entry { my @all = (@files, @folders[1 .. $#folders], @links); return @all ? pick(@all) : 'nothing' }
sub remove { my ($path) = @_; return if $path eq '.'; system 'rm', '-rf', '--', "./$path" }

my %things = (
	create => sub { put(fresh_name(), O_CREAT | O_EXCL, bytes()) },
	overwrite => sub { put(any_name(), O_CREAT | O_TRUNC, bytes()) },
	write_within => sub { put(any_name(), 0, bytes(), int rand 5000) },
	append => sub { put(any_name(), O_APPEND, bytes()) },
	same_again => sub { my $p = any_name(); my $t = dense_text($p) // return; put($p, O_TRUNC, $t) },
	truncate_it => sub { truncate any_name(), pick(0, 1, 50, 5000, 70_000) },
	sparse => sub { put(any_name(), O_CREAT | O_TRUNC, 'end', pick(10_000, 300_000)) },
	open_only => sub { put(any_name(), 0, '') },
	touch => sub { my $t = 1_000_000_000 + int rand 1_000_000; utime $t, $t, entry() },
	rename_file => sub { rename any_name(), any_name() },
	rename_folder => sub { rename pick(@folders), fresh_name() },
	# As mv does where a rename is refused.
	move_folder => sub { my $p = pick(@folders); system 'mv', '--', "./$p", './' . fresh_name() if $p ne '.' },
	hard_link => sub { link any_name(), fresh_name() },
	unlink_one => sub { unlink any_name() },
	symbolic => sub { symlink pick('a1', '../a2', '/work/b3', 'nowhere'), fresh_name() },
	symbolic_again => sub { my $p = @links ? pick(@links) : return; unlink $p; symlink 'elsewhere' . int rand 9, $p },
	mode_of_file => sub { chmod pick(0644, 0600, 0755, 0444, 0640, 0000), any_name() },
	mode_of_folder => sub { chmod pick(0755, 0700, 0750, 01777), pick(@folders[1 .. $#folders]) if @folders > 1 },
	make_folder => sub { mkdir fresh_name(), pick(0755, 0700) },
	make_full => sub { my $p = fresh_name(); mkdir $p or return; put("$p/in$_", O_CREAT, bytes()) for 1 .. 3; mkdir "$p/deep"; put("$p/deep/er", O_CREAT, 'x') },
	remove_tree => sub { remove(pick(@folders)) if rand() < 0.5 },
	folder_anew => sub { my $p = pick(@folders); return if $p eq '.'; remove($p); mkdir $p; put("$p/only", O_CREAT, bytes()) if rand() < 0.6 },
	folder_emptied_and_back => sub { my $p = pick(@folders); return if $p eq '.'; rename $p, "$p.moved"; mkdir $p },
	file_to_folder => sub { my $p = any_name(); unlink $p; mkdir $p; put("$p/inside", O_CREAT, 'was a file') if rand() < 0.5 },
	folder_to_file => sub { my $p = pick(@folders); return if $p eq '.'; remove($p); put($p, O_CREAT, 'was a folder') },
	file_to_link => sub { my $p = any_name(); unlink $p; symlink 'was-a-file', $p },
	link_to_file => sub { my $p = @links ? pick(@links) : return; unlink $p; put($p, O_CREAT, 'was a link') },
	come_and_go => sub { my $p = fresh_name(); -e $p and return; put($p, O_CREAT, bytes()); unlink $p },
	replace_by_rename => sub { my $p = any_name(); put("$p.tmp", O_CREAT | O_TRUNC, bytes()); rename "$p.tmp", $p },
	replace_by_same => sub { my $p = any_name(); my $t = dense_text($p) // return; put("$p.tmp", O_CREAT | O_TRUNC, $t); rename "$p.tmp", $p },
	attribute => sub { my ($p, $n, $v) = (any_name(), 'user.' . pick('a', 'b'), bytes()); $v = substr $v, 0, 100; syscall $number{set}, $p, $n, $v, length $v, 0 },
	attribute_gone => sub { my ($p, $n) = (any_name(), 'user.' . pick('a', 'b')); syscall $number{remove}, $p, $n },
	folder_attribute => sub { my ($p, $n, $v) = (pick(@folders), 'user.f', 'v' . int rand 3); syscall $number{set}, $p, $n, $v, length $v, 0 if $p ne '.' },
);
my @names = sort keys %things;

umask 022;
for (1 .. $count) {
	again();
	my $what = pick(@names);
	$things{$what}->();
	print "$what\n";
}
