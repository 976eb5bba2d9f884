// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The programs of end-bpf.yaml, one a section. Each checks what the one before
// it did to the SRH, and drops the packet otherwise.

#include <linux/bpf.h>
#include <linux/seg6_local.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ENTRIES 4
#define UNITS (2 * ENTRIES) /* Hdr Ext Len of the segment list, in 8 bytes */
#define ALERT 0x10
#define TAG 0x5e61
#define TABLE 117

/* Where things are from the IPv6 header on. */
#define SRH 40
#define FLAGS (SRH + 5)
#define TLVS (SRH + 8 + 16 * ENTRIES)

struct srh {
	__u8 next_header, units, type, segments_left, last_entry, flags;
	__be16 tag;
};

/* Egress Node TLV (SRv6's first draft) and the PadN that aligns it to 8 bytes. */
struct tlvs {
	__u8 type, len, reserved, flags;
	__u8 node[16];
	__u8 pad_type, pad_len, pad[2];
} __attribute__((aligned(8)));

static const struct tlvs egress = {
	2, 18, 0, 0, {0xfc, 0, 0, 0x0b, 0, 0x0f, [15] = 1}, 4, 2, {0, 0},
};

static int has_srh(struct __sk_buff *skb, int units, int flags, int tag)
{
	struct srh h;

	if (bpf_skb_load_bytes(skb, SRH, &h, sizeof(h)))
		return 0;
	return h.type == 4 && h.units == units && h.flags == flags && h.tag == bpf_htons(tag);
}

static int set_flags_and_tag(struct __sk_buff *skb, __u8 flags, __u16 tag)
{
	__u8 b[] = {flags, tag >> 8, tag & 0xff};

	return bpf_lwt_seg6_store_bytes(skb, FLAGS, b, sizeof(b));
}

/* Push fc00:c::b1, fc00:d::b2, fc00:b::b3, fc00:b:f::1. */
SEC("srv6/push")
int push(struct __sk_buff *skb)
{
	struct {
		struct srh h;
		__u8 segments[ENTRIES][16];
	} srh = {
		{0, UNITS, 4, ENTRIES - 1, ENTRIES - 1, 0, 0},
		{
			{0xfc, 0, 0, 0x0b, 0, 0x0f, [15] = 0x01},
			{0xfc, 0, 0, 0x0b, [15] = 0xb3},
			{0xfc, 0, 0, 0x0d, [15] = 0xb2},
			{0xfc, 0, 0, 0x0c, [15] = 0xb1},
		},
	};

	return bpf_lwt_push_encap(skb, BPF_LWT_ENCAP_SEG6, &srh, sizeof(srh)) ? BPF_DROP : BPF_REDIRECT;
}

/* Add the Egress Node TLV, set the alert flag, and go to the adjacency (End.X). */
SEC("srv6/add")
int add(struct __sk_buff *skb)
{
	__u8 adjacency[16] = {0x20, 0x01, 0x0d, 0xb8, 0, 0xc2, [15] = 2};
	struct tlvs t = egress;

	if (!has_srh(skb, UNITS, 0, 0) ||
	    bpf_lwt_seg6_adjust_srh(skb, TLVS, sizeof(t)) ||
	    bpf_lwt_seg6_store_bytes(skb, TLVS, &t, sizeof(t)) ||
	    set_flags_and_tag(skb, ALERT, 0) ||
	    bpf_lwt_seg6_action(skb, SEG6_LOCAL_ACTION_END_X, adjacency, sizeof(adjacency)))
		return BPF_DROP;
	return BPF_REDIRECT;
}

/* Take the TLV away, set the tag; the rest is End. */
SEC("srv6/strip")
int strip(struct __sk_buff *skb)
{
	struct tlvs want = egress, got;
	__u64 *w = (__u64 *)&want, *g = (__u64 *)&got;

	if (!has_srh(skb, UNITS + sizeof(got) / 8, ALERT, 0) ||
	    bpf_skb_load_bytes(skb, TLVS, &got, sizeof(got)) ||
	    w[0] != g[0] || w[1] != g[1] || w[2] != g[2] ||
	    bpf_lwt_seg6_adjust_srh(skb, TLVS, -(int)sizeof(got)) ||
	    set_flags_and_tag(skb, 0, TAG))
		return BPF_DROP;
	return BPF_OK;
}

/* Look the last segment up in a table of its own (End.T). */
SEC("srv6/check")
int check(struct __sk_buff *skb)
{
	int table = TABLE;

	if (!has_srh(skb, UNITS, 0, TAG) ||
	    bpf_lwt_seg6_action(skb, SEG6_LOCAL_ACTION_END_T, &table, sizeof(table)))
		return BPF_DROP;
	return BPF_REDIRECT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
