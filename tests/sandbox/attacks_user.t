#!/usr/bin/perl
# attacks.t as an ordinary user who owns nothing else, when root runs the tests.
use strict;
use warnings;
use FindBin;
use Test::More;

plan(skip_all => 'root: attacks.t already runs as an ordinary user') if $> != 0;
our $ordinary = 1;
do "$FindBin::Bin/attacks.t";
die $@ if $@;
