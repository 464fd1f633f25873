#!/usr/bin/perl
# A transfer of more than a second shows a progress bar on a terminal, wipes it at the end, and shows none in a pipe, with --quiet or --json.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

my $world = world();
$ENV{TERM} = 'xterm';
cow('new', 'demo');
mkdir 'many';
spill("many/$_", "$_" x 100_000) for 1 .. 60;
system('tar', '-cf', 'many.tar', 'many') == 0 or die;
# A sender that pauses: what comes after the pause is told of a bar.
my $slow = '{ head -c 4000000 many.tar; sleep 1.5; tail -c +4000001 many.tar; }';
my $bar = qr/importing  \d+ files  [\d.]+ \w+/;

my $told = pty("$slow | cowbox import - demo:/work/one");
like($told, $bar, 'on a terminal there is a bar');
like($told, qr/\r\e\[K[^\e]*\z/, 'and it is wiped');
is(json('find', 'demo:/work/one', '--type', 'f')->{count}, 60, 'everything arrived');
unlike(pty("$slow | cowbox import - demo:/work/two 2>err; cat err"), $bar, 'none in a file');
unlike(pty("$slow | cowbox --quiet import - demo:/work/three"), $bar, 'none with --quiet');
unlike(pty("$slow | cowbox --json import - demo:/work/four"), $bar, 'none with --json');
my $r = shell("$slow | cowbox import - demo:/work/five");
is("$r->{out}$r->{err}", '', 'none in a pipe, nor anything else');
# Ctrl-C: nothing is changed, and that is said.
$r = shell("$slow | timeout -s INT 0.7 cowbox import - demo:/work/seven");
ok($r->{status} != 0 && $r->{err} =~ /\Acowbox: [^\n]+\n\z/, 'interrupted: one line') or diag("$r->{status} $r->{err}");
is(cowbox('ls', 'demo:/work/seven')->{status}, 4, 'and nothing is there');
done_testing();
