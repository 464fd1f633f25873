# Range.pm: what attacks are aimed at: canaries, listeners, IPC objects and processes of the host, all open to the user that attacks (file modes would
# hide a hole), gone when the test ends. range() gives the KEY=VALUE words for the attack program.
package Range;
use strict;
use warnings;
use Exporter 'import';
use Fcntl;
use IO::Socket::INET;
use IO::Socket::UNIX;
use IPC::SysV qw(IPC_CREAT IPC_EXCL IPC_RMID);
use POSIX ();
use Run;
use Socket qw(pack_sockaddr_in6 IN6ADDR_LOOPBACK AF_INET6 SOCK_STREAM SOMAXCONN unpack_sockaddr_in6);

our @EXPORT = qw(range attack_list attack_names parse_verdicts bystander running canary_value canary_file);

my ($owner, @children, @files, @ids, $mq);
my $value = sprintf 'cowbox-%s-%d-%d', 'canary', $$, int rand 1e9;

sub canary_value { $value }

# Serves each socket in a child of its own: whoever connects or asks gets the canary.
sub serve {
	my ($socket, $answer) = @_;
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		$SIG{TERM} = 'DEFAULT';
		$answer->($socket) while 1;
	}
	push @children, $pid;
}

sub greet { my $peer = $_[0]->accept or return; print $peer $value; close $peer }

# A process of the user that attacks, which must be alive and unchanged after every attack.
sub bystander {
	my $pid = spawn_words({}, as_user('sleep', '3600'));
	push @children, $pid;
	return $pid;
}

sub canary_file {
	my ($path) = @_;
	open my $f, '>', $path or die "$path: $!";
	print $f $value;
	close $f;
	push @files, $path;
	return $path;
}

sub mq_number { (POSIX::uname())[4] eq 'x86_64' ? 240 : 180 }

sub ipc {
	my %at;
	for my $kind (qw(shm sem msg)) {
		my $key = 0x40000000 + int rand 0x3fffffff;
		my $id = $kind eq 'shm' ? shmget($key, 4096, IPC_CREAT | IPC_EXCL | 0666)
			: $kind eq 'sem' ? semget($key, 1, IPC_CREAT | IPC_EXCL | 0666) : msgget($key, IPC_CREAT | IPC_EXCL | 0666);
		next unless defined $id;
		push @ids, [$kind, $id];
		$at{$kind} = $key;
	}
	my $name = "cowbox-range-$$";
	my $fd = syscall(mq_number(), $name, O_RDWR | O_CREAT, 0666, 0);
	if ($fd >= 0) { POSIX::close($fd); $at{mq} = $mq = $name }
	return %at;
}

# A key in the user's keyring: made by the user, and gone when its session is.
sub key {
	my $number = (POSIX::uname())[4] eq 'x86_64' ? 248 : 217;
	system(as_user('perl', '-e', 'my ($t, $x) = ("user", "x"); syscall($ARGV[0] + 0, $t, $ARGV[1], $x, 1, -4) > 0 or exit 1', $number, "$value-key"));
}

sub host_address {
	my ($address) = `hostname -I 2>/dev/null` =~ /(\d+\.\d+\.\d+\.\d+)/;
	return $address;
}

# %given: store, helper and whatever else the test knows.
sub range {
	my ($folder, %given) = @_;
	$owner = $$;
	my %at = %given;
	$at{folder_canary} = canary_file("$folder/canary");
	$at{tmp_canary} = canary_file("/tmp/range-$$");
	$at{home_canary} = canary_file("$ENV{HOME}/canary");
	$at{shm_canary} = canary_file("/dev/shm/range-$$") if -w '/dev/shm';
	my $tcp = IO::Socket::INET->new(Listen => 8, LocalAddr => '0.0.0.0') or die "tcp: $!";
	my $udp = IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1') or die "udp: $!";
	my $path = "$folder/unix";
	my $unix = IO::Socket::UNIX->new(Listen => 8, Local => $path) or die "$path: $!";
	my $abstract = IO::Socket::UNIX->new(Listen => 8, Local => "\0cowbox-range-$$") or die "abstract: $!";
	chmod 0777, $path;
	serve($_, \&greet) for $tcp, $unix, $abstract;
	serve($udp, sub { my $from = $_[0]->recv(my $asked, 64); $_[0]->send($value, 0, $from) if defined $from });
	@at{qw(tcp udp unix abstract)} = ($tcp->sockport, $udp->sockport, $path, "cowbox-range-$$");
	if (socket my $six, AF_INET6, SOCK_STREAM, 0) {
		if (bind($six, pack_sockaddr_in6(0, IN6ADDR_LOOPBACK)) && listen($six, SOMAXCONN)) {
			($at{tcp6}) = unpack_sockaddr_in6(getsockname $six);
			serve($six, sub { accept(my $peer, $_[0]); print $peer $value; close $peer });
		}
	}
	my $address = host_address();
	$at{address} = $address if $address;
	$at{hostname} = (POSIX::uname())[1];
	if (open my $f, '<', '/etc/machine-id') { ($at{machine_id}) = <$f> =~ /(\w+)/; delete $at{machine_id} unless $at{machine_id} }
	$at{pid} = bystander();
	key();
	return (%at, ipc());
}

# name => {wall, flags => {flag => 1}}, and the names in their order.
my (%list, @names);
sub attack_list {
	my ($program) = @_;
	return \%list if @names;
	for (split /\n/, `'$program' --list`) {
		my ($name, $wall, $flags) = split /\t/;
		$list{$name} = {wall => $wall, flags => {map { $_ => 1 } split ' ', $flags || ''}};
		push @names, $name;
	}
	return \%list;
}
sub attack_names { grep { $_[0]->($list{$_}) } @names }

# The program's lines: name => [word, reason].
sub parse_verdicts { my %got; $got{$2} = [$1, $3] while $_[0] =~ /^(HELD|BROKEN|UNTRIED) (\S+): (.*)$/mg; return \%got }

# Processes of the host whose command line holds the word.
sub running {
	my ($word) = @_;
	my @found;
	for my $path (glob '/proc/[0-9]*/cmdline') {
		open my $f, '<', $path or next;
		my $line = <$f> // '';
		push @found, $1 if index($line, $word) >= 0 && $path =~ m{/(\d+)/};
	}
	return grep { $_ != $$ } @found;
}

END {
	if (defined $owner && $$ == $owner) {
		my $status = $?;
		kill 'KILL', @children if @children;
		waitpid $_, 0 for @children;
		unlink @files;
		for (@ids) {
			my ($kind, $id) = @$_;
			$kind eq 'shm' ? shmctl($id, IPC_RMID, 0) : $kind eq 'sem' ? semctl($id, 0, IPC_RMID, 0) : msgctl($id, IPC_RMID, 0);
		}
		syscall(mq_number() + 1, $mq) if defined $mq;
		$? = $status;
	}
}

1;
