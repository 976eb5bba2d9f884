// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What happens to sk_buffs inside chosen network namespaces. Every program
 * appends one record to a ring buffer; all reasoning about the records is done
 * by their reader. Programs named fn_* need fentry and fexit; programs named
 * tp_* and nf_* replace them where the kernel refuses these; the others serve
 * both.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum kind {
	RECEIVE = 1,	/* tracepoint netif_receive_skb */
	ROUTE,		/* netfilter hook in front of routing */
	ENTER,		/* a kernel function was entered */
	EXPAND,		/* pskb_expand_head was entered */
	EXPANDED,	/* pskb_expand_head has returned */
	ALLOCATE,	/* pskb_expand_head has allocated a new head */
	PULL,		/* __pskb_pull_tail was entered */
	TRANSMIT,	/* tracepoint net_dev_start_xmit */
	DROP,		/* tracepoint kfree_skb */
	CONSUME,	/* tracepoint consume_skb */
};

#define STACK_DEPTH 24

struct state {
	__u64 head;
	__u32 data, tail, end;	/* offsets from head */
	__u32 len, data_len;
	__u32 dataref;
	__u32 info_size;	/* of skb_shared_info up to the last used fragment */
	__u16 mac_len, mac_header, network_header, inner_network_header;
	__u16 vlan_tci, vlan_proto, protocol;
	__u16 info_room;	/* sizeof(struct skb_shared_info) */
	__u8 nr_frags, cloned, encapsulation, pad[1];
	__u8 l3[40];		/* the bytes at the network header */
};

struct record {
	__u64 time, skb;
	__u32 kind, cpu, netns, ifindex;
	char dev[16];
	__u64 function;		/* ENTER: address of the function */
	__u64 address;		/* ALLOCATE: the new head; DROP: location */
	__u32 size;		/* ALLOCATE: bytes of the new head, as the slab counts */
	__s32 nhead, ntail;	/* EXPAND; PULL: ntail is delta */
	__s32 result;		/* EXPANDED: return value; DROP: reason */
	__u32 zeroing;		/* the kernel zeroes what it allocates */
	struct state state;
	__u32 depth;
	__u64 stack[STACK_DEPTH];
};

/* Puts the type into BTF, from which bpf2go writes its Go form. */
const struct record *record_type __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} records SEC(".maps");

/* Namespaces to report: inode number to anything. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} namespaces SEC(".maps");

/* sk_buffs seen inside a reported namespace, to that namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u32);
} inside SEC(".maps");

/* The sk_buff that a CPU works on, as far as tracepoints tell. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} current_skb SEC(".maps");

__u64 lost;

/*
 * From kallsyms, written before anything is attached: the text of
 * pskb_expand_head and kmalloc_reserve, the static key init_on_alloc.
 */
__u64 expand_lo, expand_hi, reserve_lo, reserve_hi, init_on_alloc;

static __always_inline __u32 skb_netns(const struct sk_buff *skb)
{
	struct net_device *dev = BPF_CORE_READ(skb, dev);
	struct dst_entry *dst;
	struct sock *sk;

	if (dev)
		return BPF_CORE_READ(dev, nd_net.net, ns.inum);
	/* SKB_DST_NOREF is the lowest bit. */
	dst = (void *)(BPF_CORE_READ(skb, _skb_refdst) & ~1ul);
	if (dst)
		return BPF_CORE_READ(dst, dev, nd_net.net, ns.inum);
	sk = BPF_CORE_READ(skb, sk);
	if (sk)
		return BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	return 0;
}

static __always_inline bool reported(__u32 netns)
{
	return bpf_map_lookup_elem(&namespaces, &netns) != 0;
}

static __always_inline void set_current(__u64 skb)
{
	__u32 zero = 0;
	__u64 *cur = bpf_map_lookup_elem(&current_skb, &zero);

	if (cur)
		*cur = skb;
}

static __always_inline void clear_current(__u64 skb)
{
	__u32 zero = 0;
	__u64 *cur = bpf_map_lookup_elem(&current_skb, &zero);

	if (cur && *cur == skb)
		*cur = 0;
}

static __always_inline void snapshot(struct state *s, const struct sk_buff *skb)
{
	unsigned char *head = BPF_CORE_READ(skb, head);
	struct skb_shared_info *info;

	s->head = (__u64)head;
	s->data = BPF_CORE_READ(skb, data) - head;
	s->tail = BPF_CORE_READ(skb, tail);
	s->end = BPF_CORE_READ(skb, end);
	s->len = BPF_CORE_READ(skb, len);
	s->data_len = BPF_CORE_READ(skb, data_len);
	s->mac_len = BPF_CORE_READ(skb, mac_len);
	s->mac_header = BPF_CORE_READ(skb, mac_header);
	s->network_header = BPF_CORE_READ(skb, network_header);
	s->inner_network_header = BPF_CORE_READ(skb, inner_network_header);
	s->vlan_tci = BPF_CORE_READ(skb, vlan_tci);
	s->vlan_proto = __builtin_bswap16(BPF_CORE_READ(skb, vlan_proto));
	s->protocol = __builtin_bswap16(BPF_CORE_READ(skb, protocol));
	s->cloned = BPF_CORE_READ_BITFIELD_PROBED(skb, cloned);
	s->encapsulation = BPF_CORE_READ_BITFIELD_PROBED(skb, encapsulation);
	info = (void *)head + s->end;
	s->dataref = BPF_CORE_READ(info, dataref.counter);
	s->nr_frags = BPF_CORE_READ(info, nr_frags);
	s->info_room = bpf_core_type_size(struct skb_shared_info);
	s->info_size = bpf_core_field_offset(info->frags) +
		       s->nr_frags * bpf_core_type_size(skb_frag_t);
	bpf_probe_read_kernel(s->l3, sizeof(s->l3), head + s->network_header);
}

static __always_inline struct record *begin(__u32 kind, const struct sk_buff *skb,
					    __u32 netns)
{
	struct record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	struct net_device *dev;

	if (!r) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->time = bpf_ktime_get_ns();
	r->skb = (__u64)skb;
	r->kind = kind;
	r->cpu = bpf_get_smp_processor_id();
	r->netns = netns;
	dev = BPF_CORE_READ(skb, dev);
	if (dev) {
		r->ifindex = BPF_CORE_READ(dev, ifindex);
		bpf_probe_read_kernel(r->dev, sizeof(r->dev), &dev->name);
	}
	/* A static key begins with its count of enablers. */
	if (init_on_alloc)
		bpf_probe_read_kernel(&r->zeroing, sizeof(r->zeroing), (void *)init_on_alloc);
	snapshot(&r->state, skb);
	return r;
}

static __always_inline void stack(struct record *r, void *ctx)
{
	long n = bpf_get_stack(ctx, r->stack, sizeof(r->stack), 0);

	r->depth = n > 0 ? n / sizeof(__u64) : 0;
}

/* Where the namespace of an sk_buff is, its device or what was seen before. */
static __always_inline __u32 where(const struct sk_buff *skb)
{
	__u64 key = (__u64)skb;
	__u32 netns = skb_netns(skb), *seen;

	if (reported(netns))
		return netns;
	seen = bpf_map_lookup_elem(&inside, &key);
	return seen ? *seen : 0;
}

static __always_inline void simple(__u32 kind, const struct sk_buff *skb)
{
	__u64 key = (__u64)skb;
	__u32 netns = skb_netns(skb);
	struct record *r;

	if (!reported(netns)) {
		bpf_map_delete_elem(&inside, &key);
		set_current(0);
		return;
	}
	bpf_map_update_elem(&inside, &key, &netns, BPF_ANY);
	set_current(key);
	r = begin(kind, skb, netns);
	if (r)
		bpf_ringbuf_submit(r, 0);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(receive, struct sk_buff *skb)
{
	simple(RECEIVE, skb);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(transmit, const struct sk_buff *skb)
{
	__u32 netns = skb_netns(skb);
	struct record *r;

	if (!reported(netns))
		return 0;
	r = begin(TRANSMIT, skb, netns);
	if (r)
		bpf_ringbuf_submit(r, 0);
	clear_current((__u64)skb);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(drop, struct sk_buff *skb, void *location, int reason)
{
	__u64 key = (__u64)skb;
	__u32 netns = where(skb);
	struct record *r;

	if (!netns)
		return 0;
	r = begin(DROP, skb, netns);
	if (r) {
		r->address = (__u64)location;
		r->result = reason;
		bpf_ringbuf_submit(r, 0);
	}
	bpf_map_delete_elem(&inside, &key);
	clear_current(key);
	return 0;
}

SEC("tp_btf/consume_skb")
int BPF_PROG(consume, struct sk_buff *skb)
{
	__u64 key = (__u64)skb;
	__u32 *netns = bpf_map_lookup_elem(&inside, &key);
	struct record *r;

	if (!netns)
		return 0;
	r = begin(CONSUME, skb, *netns);
	if (r)
		bpf_ringbuf_submit(r, 0);
	bpf_map_delete_elem(&inside, &key);
	clear_current(key);
	return 0;
}

/* The tracepoint backend. */

SEC("netfilter")
int nf_route(struct bpf_nf_ctx *ctx)
{
	simple(ROUTE, ctx->skb);
	return 1; /* NF_ACCEPT */
}

static __always_inline bool within(__u64 ip, __u64 lo, __u64 hi)
{
	return ip >= lo && ip < hi;
}

static __always_inline void allocate(void *ctx, __u64 site, void *head, __u32 size)
{
	__u64 *cur, skb;
	__u32 zero = 0, *netns, i;
	struct record *r;

	if (!within(site, reserve_lo, reserve_hi) && !within(site, expand_lo, expand_hi))
		return;
	cur = bpf_map_lookup_elem(&current_skb, &zero);
	if (!cur || !*cur)
		return;
	skb = *cur;
	netns = bpf_map_lookup_elem(&inside, &skb);
	if (!netns)
		return;
	r = begin(ALLOCATE, (void *)skb, *netns);
	if (!r)
		return;
	stack(r, ctx);
	for (i = 0; i < STACK_DEPTH; i++) {
		if (within(r->stack[i], expand_lo, expand_hi)) {
			r->address = (__u64)head;
			r->size = size;
			bpf_ringbuf_submit(r, 0);
			return;
		}
	}
	bpf_ringbuf_discard(r, 0);
}

/*
 * Raw tracepoints: up to 6.12 at least the verifier refuses to read an argument
 * of type const void * in tp_btf.
 */
SEC("raw_tp/kmem_cache_alloc")
int BPF_PROG(tp_kmem_cache_alloc, unsigned long site, const void *ptr, struct kmem_cache *s)
{
	allocate(ctx, site, (void *)ptr, BPF_CORE_READ(s, object_size));
	return 0;
}

SEC("raw_tp/kmalloc")
int BPF_PROG(tp_kmalloc, unsigned long site, const void *ptr, size_t req, size_t alloc)
{
	allocate(ctx, site, (void *)ptr, alloc);
	return 0;
}

/* The fentry backend. */

static __always_inline void enter(void *ctx, const struct sk_buff *skb)
{
	__u64 key = (__u64)skb;
	__u32 netns = where(skb);
	struct record *r;

	if (!netns)
		return;
	bpf_map_update_elem(&inside, &key, &netns, BPF_ANY);
	r = begin(ENTER, skb, netns);
	if (!r)
		return;
	r->function = bpf_get_func_ip(ctx);
	bpf_ringbuf_submit(r, 0);
}

SEC("fentry/seg6_do_srh")
int BPF_PROG(fn_seg6_do_srh, struct sk_buff *skb)
{
	enter(ctx, skb);
	return 0;
}

SEC("fentry/seg6_local_input")
int BPF_PROG(fn_seg6_local_input, struct sk_buff *skb)
{
	enter(ctx, skb);
	return 0;
}

SEC("fentry/ip6_forward")
int BPF_PROG(fn_ip6_forward, struct sk_buff *skb)
{
	enter(ctx, skb);
	return 0;
}

SEC("fentry/pskb_expand_head")
int BPF_PROG(fn_expand, struct sk_buff *skb, int nhead, int ntail)
{
	__u32 netns = where(skb);
	struct record *r;

	if (!netns)
		return 0;
	r = begin(EXPAND, skb, netns);
	if (!r)
		return 0;
	r->nhead = nhead;
	r->ntail = ntail;
	stack(r, ctx);
	bpf_ringbuf_submit(r, 0);
	return 0;
}

SEC("fexit/pskb_expand_head")
int BPF_PROG(fn_expanded, struct sk_buff *skb, int nhead, int ntail, gfp_t gfp, int ret)
{
	__u32 netns = where(skb);
	struct record *r;

	if (!netns)
		return 0;
	r = begin(EXPANDED, skb, netns);
	if (!r)
		return 0;
	r->nhead = nhead;
	r->ntail = ntail;
	r->result = ret;
	bpf_ringbuf_submit(r, 0);
	return 0;
}

SEC("fentry/__pskb_pull_tail")
int BPF_PROG(fn_pull, struct sk_buff *skb, int delta)
{
	__u32 netns = where(skb);
	struct record *r;

	if (!netns)
		return 0;
	r = begin(PULL, skb, netns);
	if (!r)
		return 0;
	r->ntail = delta;
	stack(r, ctx);
	bpf_ringbuf_submit(r, 0);
	return 0;
}
