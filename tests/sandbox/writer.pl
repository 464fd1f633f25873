#!/usr/bin/perl
# writer.pl MARKER FOLDER COUNT PAUSE_US: writes COUNT files, and says the number of each on standard output once it is closed; then "end". The marker is
# for whoever looks for this process.
use strict;
use warnings;
use Time::HiRes qw(usleep);

my ($marker, $folder, $count, $pause) = @ARGV;
$| = 1;
mkdir $folder;
for my $i (1 .. $count) {
	mkdir "$folder/" . int $i / 100 if $i % 100 == 0 || $i == 1;
	open my $f, '>', "$folder/" . int($i / 100) . "/f$i" or die "f$i: $!\n";
	print $f "number $i\n" x (1 + $i % 50);
	close $f or die "f$i: $!\n";
	print "$i\n";
	usleep($pause) if $pause;
}
print "end\n";
