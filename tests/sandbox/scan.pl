#!/usr/bin/perl
# scan.pl FOLDER: everything below a folder, one line each in byte order: path, type, mode, links, size, target or sum, user attributes. Sums are of
# the bytes read; times are left out. Needs nothing but perl's own modules, because it is run inside boxes too.
use strict;
use warnings;
use Digest::MD5;

my ($root) = @ARGV;
my %number = ((POSIX_arch() eq 'aarch64') ? (list => 12, get => 9) : (list => 195, get => 192));

sub POSIX_arch { require POSIX; return (POSIX::uname())[4] }
sub show { my ($text) = @_; $text =~ s/([^!-\$&-~])/sprintf '%%%02x', ord $1/ge; return $text }

# llistxattr, lgetxattr: perl has no functions for them.
sub attributes {
	my ($path) = @_;
	my $names = "\0" x 8192;
	my $size = syscall($number{list}, $path, $names, length $names);
	return '' if $size <= 0;
	my @found;
	for my $name (sort grep { /^user\./ } split /\0/, substr($names, 0, $size)) {
		my $value = "\0" x 65536;
		my $n = syscall($number{get}, $path, $name, $value, length $value);
		push @found, show($name) . '=' . ($n < 0 ? '?' : show(substr $value, 0, $n));
	}
	return join ',', @found;
}

sub sum {
	my ($path) = @_;
	open my $f, '<:raw', $path or return "?$!";
	return Digest::MD5->new->addfile($f)->hexdigest;
}

my %names; # of a file, by inode: each shows the first, when there are several below the folder
my @lines;

sub look {
	my ($path, $name) = @_;
	my @s = lstat $path or die "$path: $!\n";
	my $mode = sprintf '%04o', $s[2] & 07777;
	if (-l _) {
		push @lines, [$name, join "\t", 'link', show(readlink $path)];
	} elsif (-d _) {
		push @lines, [$name, join "\t", 'folder', $mode, attributes($path)];
		opendir my $d, $path or die "$path: $!\n";
		my @names = sort grep { $_ ne '.' && $_ ne '..' } readdir $d;
		closedir $d;
		look("$path/$_", $name eq '' ? $_ : "$name/$_") for @names;
	} elsif (-f _) {
		push @lines, [$name, join("\t", 'file', $mode, $s[7], sum($path), attributes($path), ''), $s[1]];
		push @{$names{$s[1]}}, $name;
	} else {
		push @lines, [$name, 'special'];
	}
}

look($root, '');
for (sort { $a->[0] cmp $b->[0] } @lines) {
	my ($name, $line, $inode) = @$_;
	my @same = $inode ? sort @{$names{$inode}} : ();
	print show($name), "\t$line", @same > 1 ? show($same[0]) : '', "\n";
}
