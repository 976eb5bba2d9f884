// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Makes frames that a packet socket sends leave a device with more headroom
 * than the kernel gave them, or as a clone. Other frames pass untouched.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define AF_PACKET	17
#define TCX_NEXT	-1
#define TCX_DROP	2
#define ETH_HLEN	14
#define CHUNK		64
#define MAX_CHUNKS	256
#define CLONE_MARK	0x5e6c104e
#define NO_DEVICE	0x7fffffff
#define ETH_P_8021Q	0x8100
#define VLAN_HLEN	4
#define BASE		16	/* what the kernel gives an untagged frame */

__u32 target;	/* headroom at the network header; 0 leaves it */
__u32 clone;	/* send a clone in place of the frame */
__u32 accelerate;	/* take the tag out of the frame, as a driver does */

__u64 failed;

/* Moves what follows the Ethernet header back by n bytes, last bytes first. */
static __always_inline int move_back(struct __sk_buff *skb, __u32 len, __u32 n)
{
	__u8 buf[CHUNK];
	__u32 end = len, i;

	for (i = 0; i < MAX_CHUNKS && end >= ETH_HLEN + CHUNK; i++) {
		end -= CHUNK;
		if (bpf_skb_load_bytes(skb, end, buf, CHUNK) ||
		    bpf_skb_store_bytes(skb, end + n, buf, CHUNK, 0))
			return -1;
	}
	for (i = 0; i < CHUNK && end > ETH_HLEN; i++) {
		end--;
		if (bpf_skb_load_bytes(skb, end, buf, 1) ||
		    bpf_skb_store_bytes(skb, end + n, buf, 1, 0))
			return -1;
	}
	return end == ETH_HLEN ? 0 : -1;
}

/*
 * Grows the tail, moves the payload there, and cuts the gap out behind the
 * Ethernet header, which moves to the payload: the frame is as it was, n bytes
 * further from the head.
 */
static __always_inline int add_headroom(struct __sk_buff *skb, __u32 n)
{
	__u32 len = skb->len;

	if (bpf_skb_change_tail(skb, len + n, 0))
		return -1;
	if (move_back(skb, len, n))
		return -1;
	return bpf_skb_adjust_room(skb, -(__s32)n, BPF_ADJ_ROOM_MAC, 0);
}

/* Puts the TCI beside the frame, or with both EtherTypes into it. */
static __always_inline int put_tag(struct __sk_buff *skb, __u8 tag[6])
{
	if (accelerate)
		return bpf_skb_vlan_push(skb, __builtin_bswap16(ETH_P_8021Q), tag[2] << 8 | tag[3]);
	return bpf_skb_adjust_room(skb, VLAN_HLEN, BPF_ADJ_ROOM_MAC, 0) ||
	       bpf_skb_store_bytes(skb, 12, tag, 6, 0);
}

/*
 * bpf_skb_adjust_room wants IP behind the Ethernet header, so that a tag that is
 * part of the frame is taken out meanwhile.
 */
static __always_inline int set_headroom(struct __sk_buff *skb)
{
	bool tagged = skb->protocol == __builtin_bswap16(ETH_P_8021Q);
	__u32 base = tagged ? BASE + VLAN_HLEN : BASE;
	bool grow = target > base;
	__u8 tag[6];

	tagged = tagged && (grow || accelerate);
	if (tagged && (bpf_skb_load_bytes(skb, 12, tag, sizeof(tag)) || bpf_skb_vlan_pop(skb)))
		return -1;
	if (grow && add_headroom(skb, target - base))
		return -1;
	return tagged ? put_tag(skb, tag) : 0;
}

SEC("tcx/egress")
int prepare(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (clone && skb->mark == CLONE_MARK) {
		skb->mark = 0;
		return TCX_NEXT;
	}
	if (!sk || sk->family != AF_PACKET)
		return TCX_NEXT;
	if (set_headroom(skb))
		goto fail;
	if (clone) {
		/*
		 * The helper gives the frame itself a head of its own and
		 * leaves the old one, with its headroom, to the clone.
		 */
		skb->mark = CLONE_MARK;
		if (bpf_clone_redirect(skb, skb->ifindex, 0))
			goto fail;
	}
	/* A redirect to no device drops the frame and tells its sender success. */
	return clone ? bpf_redirect(NO_DEVICE, 0) : TCX_NEXT;
fail:
	__sync_fetch_and_add(&failed, 1);
	return TCX_DROP;
}

/* XDP in the driver: the kernel moves the frame into a page of its own. */
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
