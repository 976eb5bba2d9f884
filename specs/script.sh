# ---- what is the same in every such script ------------------------------

# Exit codes of kernel selftests.
readonly KSFT_PASS=0 KSFT_FAIL=1 KSFT_SKIP=4

id="s6-$$" # begins the name of every namespace
nodes=
result=skip
why=
ran= # the last command of ip or tc

# finish takes all down, whatever has happened, and says what came of it.
finish() {
	trap - EXIT HUP INT TERM
	set +e
	: "${why:=a command failed, as above, the last was: $(printf %.160s "$ran")}"
	for one in $nodes; do ip netns del "$id-$one"; done 2>/dev/null
	if [ -n "${trace:-}" ]; then
		echo nop >"$trace/current_tracer"
		rmdir "$trace"
	fi 2>/dev/null
	case $result in
	pass) echo "PASS: $title"; exit "$KSFT_PASS" ;;
	fail) echo "FAIL: $title: $why" >&2; exit "$KSFT_FAIL" ;;
	esac
	echo "SKIP: $title: $why" >&2
	exit "$KSFT_SKIP"
}

skip() { why=$1; exit 1; }
fail() { result=fail why="$step: $1"; exit 1; }

trap finish EXIT
trap 'skip interrupted' HUP INT TERM

[ "$(id -u)" = 0 ] || skip "root is needed"
for tool in ip tc sysctl ping; do
	command -v "$tool" >/dev/null || skip "there is no $tool"
done
case $FIX in
unfixed | partly | fixed) ;;
*) skip "FIX=$FIX: expected unfixed, partly or fixed" ;;
esac
# Caches of the kernel are per CPU.
! command -v taskset >/dev/null || taskset -cp 0 $$ >/dev/null

ip() { ran="ip $*"; command ip "$@"; }
tc() { ran="tc $*"; command tc "$@"; }

# on NODE COMMAND...
on() { at="$id-$1"; shift; ip netns exec "$at" "$@"; }

# ipn NODE ARGUMENTS...: ip in the node.
ipn() { at="$id-$1"; shift; ip -n "$at" "$@"; }

# tcn NODE ARGUMENTS...: tc in the node.
tcn() { at="$id-$1"; shift; tc -n "$at" "$@"; }

# when STATE COMMAND...: on kernels of which FIX says so.
when() { state=$1; shift; [ "$FIX" != "$state" ] || "$@"; }

# wait_for TENTHS COMMAND...: until it succeeds, so many tenths of a second.
wait_for() {
	tenths=$1
	shift
	until "$@"; do
		[ "$tenths" -gt 0 ] || return 1
		tenths=$((tenths - 1))
		sleep 0.1
	done
}

# node NAME: a namespace in which the kernel sends little on its own.
node() {
	ip netns add "$id-$1"
	nodes="$nodes $1"
	on "$1" sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0 \
		net.ipv6.conf.default.addr_gen_mode=1 net.ipv6.conf.default.router_solicitations=0 \
		net.ipv6.conf.default.accept_ra=0 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
	ipn "$1" link set lo up
}

# ready NODE ADDRESS...: its devices are up, and it takes packets to its addresses.
ready() {
	wait_for 100 links_up "$1" || skip "node $1: a device does not come up"
	name=$1
	shift
	for address; do
		wait_for 100 is_local "$name" "$address" || skip "node $name: $address is not local"
	done
}

links_up() {
	case $(ipn "$1" -o link show up) in
	*" state DOWN "* | *" state LOWERLAYERDOWN "*) return 1 ;;
	esac
}

is_local() {
	case $(ipn "$1" -6 route show table all type local) in
	*"local $2 "*) ;;
	*) return 1 ;;
	esac
}

# injector N NODE: a device s6gen, from which inject takes what leaves the node.
injector() {
	[ -n "${gen:-}" ] || { gen=.gen; node "$gen"; }
	ip link add "g$1" netns "$id-$gen" mtu 65535 type veth \
		peer name s6gen netns "$id-$2" mtu 65535 address 02:00:00:00:ff:02
	on "$2" sysctl -qw net.ipv6.conf.s6gen.disable_ipv6=1
	on "$gen" sysctl -qw "net.ipv6.conf.g$1.disable_ipv6=1"
	ipn "$2" link set s6gen up
	ipn "$gen" link set "g$1" up
	ipn "$gen" addr add "198.18.$1.1/24" dev "g$1"
	ipn "$gen" neigh add "198.18.$1.2" lladdr 02:00:00:00:ff:02 dev "g$1" nud permanent
}

# inject N NODE DEV COUNT HEADROOM HEX: the device sends a frame, which arrives with
# that headroom. It begins as a ping of that length, with the headroom 16, which tc
# gives other bytes, four at a time from the Ethernet header on, and sends out of the
# device. Up to three at the end are ping's pattern. For more headroom there are
# VLAN tags in front, 4 bytes each, or they and an Ethernet header of 14, which
# are popped on the way.
inject() {
	n=$1 name=$2 dev=$3 times=$4 room=$(($5 - 16)) hex=$(joined "$6") first=$3
	tcn "$name" qdisc replace dev s6gen clsact
	[ "$room" = 0 ] || pad
	payload=$((${#hex} / 2 - 42)) # behind Ethernet, IPv4 and ICMP
	tail=$((payload % 4)) pattern='' chain=0 keys=1
	if [ "$tail" -gt 0 ]; then
		body=$hex
		for one in 1 2 3; do [ "$one" -gt "$tail" ] || body=${body%??}; done
		if [ "$payload" -le 16 ]; then # ping fills a short payload only once
			pattern=$(printf %s "$hex" | cut -c 85-)
		else # it repeats from the first byte of the payload on
			pattern=${hex#"$body"}
			for one in 1 2 3; do
				[ "$one" -gt $((payload % tail)) ] || pattern=${pattern#"${pattern%??}"}${pattern%??}
			done
		fi
		hex=$body
	fi
	rest=${hex#????}
	munge="munge offset -14 u16 set 0x${hex%"$rest"}" at=-12 batch=''
	while [ -n "$rest" ]; do
		if [ "$keys" = 80 ]; then # tc takes no longer lines
			batch="$batch
				filter add dev s6gen ingress chain $chain protocol all matchall action pedit $munge goto chain $((chain + 1))"
			munge='' chain=$((chain + 1)) keys=0
		fi
		hex=$rest rest=${rest#????????}
		munge="$munge munge offset $at u32 set 0x${hex%"$rest"}"
		at=$((at + 4)) keys=$((keys + 1))
	done
	tcn "$name" -batch - <<-END
		$batch
		filter add dev s6gen ingress chain $chain protocol all matchall action pedit $munge pipe action mirred egress redirect dev $first
	END
	on "$gen" ping -q -c "$times" -i 0.002 -W 0.01 -s "$payload" ${pattern:+-p "$pattern"} "198.18.$n.2" >/dev/null || [ $? = 1 ]
	tcn "$name" qdisc del dev s6gen clsact
}

# pad puts in front of hex what takes the room, and has it popped behind a pair of
# devices, where the kernel sees that there are tags.
pad() {
	if ! ipn "$name" link show s6pop0 >/dev/null 2>&1; then
		ipn "$name" link add s6pop0 mtu 65535 type veth peer name s6pop1 mtu 65535
		for one in s6pop0 s6pop1; do
			on "$name" sysctl -qw "net.ipv6.conf.$one.disable_ipv6=1"
			ipn "$name" link set dev "$one" up
		done
	fi
	first=s6pop0 tags='' pops='' number=0 chain=0 batch=''
	[ $((room % 4)) = 0 ] || room=$((room - 14)) hex=020000000002020000000001,88b5$hex
	case $hex in
	*,*) last='action vlan pop_eth pipe' ;;
	*) last='' one=${hex#????????????????????????} hex=${hex%"$one"},$one ;;
	esac
	while [ "$number" -lt $((room / 4)) ]; do
		if [ $((number % 24)) = 0 ] && [ "$number" -gt 0 ]; then # no more actions go with a filter
			batch="$batch
				filter add dev s6pop1 ingress chain $chain protocol all matchall $pops action gact goto chain $((chain + 1))"
			pops='' chain=$((chain + 1))
		fi
		tags=${tags}81000001 pops="$pops action vlan pop pipe" number=$((number + 1))
	done
	hex=${hex%,*}$tags${hex#*,}
	! tcn "$name" qdisc del dev s6pop1 clsact 2>/dev/null || :
	tcn "$name" qdisc add dev s6pop1 clsact
	tcn "$name" -batch - <<-END
		$batch
		filter add dev s6pop1 ingress chain $chain protocol all matchall $pops $last action mirred egress redirect dev $dev
	END
}

# watch NODE DEV: counts anew what arrives there, by the filters that follow.
watch() {
	name=$1 dev=$2
	! tcn "$name" qdisc del dev "$dev" clsact 2>/dev/null || :
	tcn "$name" qdisc add dev "$dev" clsact
}

filter() { tcn "$name" filter add dev "$dev" ingress protocol all pref "$@"; }

# clone header|data: another sk_buff shares the packet for as long as the test
# takes, or did so once.
clone() {
	if ! ipn "$name" link show s6hold >/dev/null 2>&1; then
		ipn "$name" link add s6hold type dummy
		on "$name" sysctl -qw net.ipv6.conf.s6hold.disable_ipv6=1
		ipn "$name" link set s6hold up
	fi
	tcn "$name" qdisc del dev s6hold root 2>/dev/null || :
	[ "$1" = data ] || tcn "$name" qdisc add dev s6hold root netem delay 100s limit 100000
	filter 1 matchall action mirred egress mirror dev s6hold continue
}

# expect PREF HEX: frames of exactly these bytes.
expect() {
	value=$(joined "$2")
	filter "$1" bpf bytecode "$(bytecode $((${#value} / 2)) "$value" "$value")" action pass
}

# expect_like PREF HEX MASK: frames with these bits where the mask has ones.
expect_like() { filter "$1" bpf bytecode "$(bytecode 0 "$(joined "$2")" "$(joined "$3")")" action pass; }

joined() { printf %s "$1" | tr -d '[:space:]'; }

# bytecode LENGTH HEX MASK: classic BPF that takes such frames: without a VLAN tag
# beside the frame (SKF_AD_VLAN_TAG_PRESENT), of the length, unless it is 0, and
# then, for each four bytes, load, mask, compare. With a length all bits count.
bytecode() {
	ops="32 0 0 4294963248,21 1 0 0,6 0 0 0," at=0 count=4
	[ "$1" = 0 ] || ops="${ops}128 0 0 0,21 1 0 $1,6 0 0 0," count=7
	value=$2 mask=$3
	while [ -n "$value" ]; do
		case ${#value} in
		2) load=48 size=1 v=${value#??} m=${mask#??} ;;
		4 | 6) load=40 size=2 v=${value#????} m=${mask#????} ;;
		*) load=32 size=4 v=${value#????????} m=${mask#????????} ;;
		esac
		bits=$((0x${mask%"$m"}))
		[ "$1" = 0 ] || bits=4294967295
		if [ "$bits" != 0 ]; then
			ops="$ops$load 0 0 $at,84 0 0 $bits,21 1 0 $((0x${value%"$v"} & bits)),6 0 0 0,"
			count=$((count + 4))
		fi
		value=$v mask=$m at=$((at + size))
	done
	echo "$count,${ops}6 0 0 4294967295"
}

# others CONTROL: what no filter before took, what hosts and routers send on their
# own aside.
others() {
	filter 50000 bpf bytecode "$1" action pass
	filter 60000 matchall action pass
}

# counted NODE DEV PREF: the packets that a filter took.
counted() {
	tcn "$1" -s filter show dev "$2" ingress pref "$3" | {
		packets=0
		while read -r word _ _ number _; do
			[ "$word" != Sent ] || packets=$number
		done
		echo "$packets"
	}
}

arrived() { [ "$(counted "$1" "$2" "$3")" -ge "$4" ]; }

# await TENTHS NODE DEV PREF COUNT: for check to look at.
await() { limit=$1; shift; wait_for "$limit" arrived "$@" || :; }

# check NODE DEV PREF COUNT WHAT
check() {
	got=$(counted "$1" "$2" "$3")
	[ "$got" = "$4" ] || fail "at $1:$2 $got frames instead of $4: $5"
}

# trace_on: counts calls of pskb_expand_head from now on.
trace_on() {
	if [ -z "${trace:-}" ]; then
		[ -d /sys/kernel/tracing/instances ] || mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null || skip "there is no tracefs"
		trace=/sys/kernel/tracing/instances/$id
		mkdir "$trace"
		echo pskb_expand_head >"$trace/set_ftrace_filter" || skip "pskb_expand_head cannot be traced"
	fi
	echo function >"$trace/current_tracer" || skip "there is no function tracer"
	echo 1 >"$trace/options/func_stack_trace"
	echo >"$trace/trace"
	echo 1 >"$trace/tracing_on"
}

# callers: a line for each traced call, with the part of seg6 that asked for it.
callers() {
	by=none direct=yes
	while read -r word function rest; do
		case "$word $rest" in
		*"<stack trace>") by='' direct=yes; continue ;;
		"=> "*) [ -z "$by" ] || continue ;;
		*) [ -n "$by" ] || echo outside; by=none; continue ;;
		esac
		case $direct-${function%%[+.]*} in
		*-pskb_expand_head) direct=yes; continue ;; # what is above it is of the tracer
		*-skb_cow | *-__skb_cow | *-skb_cow_head) continue ;;
		yes-seg6_do_srh) by='direct-l2' ;;
		yes-__seg6_do_srh_encap | yes-seg6_do_srh_encap_red | yes-__seg6_do_srh_inline) by='cow-header' ;;
		yes-seg6_input_core | yes-seg6_output_core) by='cow-link-layer' ;;
		*-seg6_* | *-__seg6_* | *-input_action_*) by='other-seg6' ;;
		*-ip6_* | *-ip_* | *-ipv6_* | *-dev_* | *-__dev_* | *-__netif_*) by=outside ;;
		esac
		direct=no
		[ -z "$by" ] || echo "$by"
	done
	[ -n "$by" ] || echo outside
}

# calls WITHIN exactly|at-least|at-most COUNT: of pskb_expand_head since trace_on, by
# seg6 or one part of it.
calls() {
	echo 0 >"$trace/tracing_on"
	got=$(callers <"$trace/trace" | {
		number=0
		while read -r by; do
			case $1-$by in
			seg6-outside) ;;
			seg6-* | "$by-$by") number=$((number + 1)) ;;
			esac
		done
		echo "$number"
	})
	case $2 in
	exactly) [ "$got" = "$3" ] ;;
	at-least) [ "$got" -ge "$3" ] ;;
	at-most) [ "$got" -le "$3" ] ;;
	esac || fail "$got calls of pskb_expand_head within $1, expected $2 $3"
}

# fails TEXT COMMAND...: it must, with the text in its output.
fails() {
	text=$1
	shift
	if output=$("$@" 2>&1); then fail "the command succeeds, expected it to fail with: $text"; fi
	case $output in *"$text"*) ;; *) fail "expected: $text; got: $output" ;; esac
}

# says TEXT COMMAND...: it succeeds, with the text in its output.
says() {
	text=$1
	shift
	output=$("$@" 2>&1) || fail "the command fails: $output"
	case $output in *"$text"*) ;; *) fail "expected: $text; got: $output" ;; esac
}

# ---- what is this case's ---------------------------------------------------
