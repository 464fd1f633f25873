#!/usr/bin/perl
# checkpoint: names for steps, by hand and by themselves.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Kit;

world();
cow('new', 'demo');
cow('write', 'demo:a.txt', $_) for 'one', 'two', 'three';
is(cow('checkpoint', 'list', 'demo'), '', 'none at first');

my $c = json('checkpoint', 'save', 'demo', 'now');
is($c->{step}, 3, 'the current step');
is($c->{name}, 'now', 'its name');
like($c->{created}, qr/^\d{4}-\d\d-\d\dT[\d:.]+Z$/, 'when');
is(json('checkpoint', 'save', 'demo@1', 'first')->{step}, 1, 'an older step');
is(json('checkpoint', 'save', 'demo@-1', 'before', '--no-sync')->{step}, 2, 'one step back');
is(cow('cat', 'demo@first:a.txt'), "one\n", 'opens by name');
like(cow('checkpoint', 'list', 'demo'), qr/\Afirst +step 1 .*\nbefore +step 2 .*\nnow +step 3 .*\n\z/, 'list by step');
is_deeply([map { "$_->{name}\@$_->{step}" } @{json('checkpoint', 'list', 'demo')->{checkpoints}}], ['first@1', 'before@2', 'now@3'], 'json');

$ENV{COWBOX_BOX} = 'demo';
cow('write', ':a.txt', 'four');
is(json('checkpoint', 'save', 'chosen')->{step}, 4, 'of the chosen box');
like(cow('checkpoint', 'delete', 'chosen'), qr/'chosen' was step 4.*'cowbox checkpoint save demo\@4 chosen'/, 'delete says what it named and how to name it again');
cow('checkpoint', 'save', 'demo@4', 'chosen');
is(json('checkpoint', 'delete', 'chosen')->{step}, 4, 'which works');
delete $ENV{COWBOX_BOX};

fails(['checkpoint', 'save', 'demo', 'now'], 'EXISTS', 5, qr/already.*another name/);
fails(['checkpoint', 'save', 'demo', $_], 'INVALID', 2, qr/name/) for '17', '.x', 'a b', 'x' x 65, '';
fails(['checkpoint', 'save', 'demo@99', 'x'], 'NOTFOUND', 4, qr/99/);
fails(['checkpoint', 'delete', 'demo', 'nosuch'], 'NOTFOUND', 4, qr/checkpoint list demo/);
fails(['checkpoint', 'delete', 'demo@1', 'now'], 'INVALID', 2, qr{a box is wanted});
fails(['checkpoint', 'list', 'nosuch'], 'NOTFOUND', 4, qr/cowbox list/);
fails(['checkpoint', 'save'], 'INVALID', 2, qr/NAME/);
fails(['checkpoint', 'frob'], 'INVALID', 2, qr/frob/);

# by themselves
cow('config', 'set', 'checkpoint.every', '2', '--for', 'demo');
cow('write', 'demo:a.txt', $_) for 5 .. 8;
is(json('checkpoint', 'list', 'demo')->{checkpoint_every}, 2, 'every 2 steps');
is_deeply([grep { /^auto/ } map { $_->{name} } @{json('checkpoint', 'list', 'demo')->{checkpoints}}], ['auto-6', 'auto-8'], 'saved by themselves');
is(cow('cat', 'demo@auto-6:a.txt'), "6\n", 'an automatic one opens');
cow('config', 'unset', 'checkpoint.every', '--for', 'demo');
cow('write', 'demo:a.txt', $_) for 9 .. 12;
is(scalar(grep { /^auto/ } map { $_->{name} } @{json('checkpoint', 'list', 'demo')->{checkpoints}}), 2, 'no more after unset');

done_testing();
