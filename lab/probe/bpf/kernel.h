/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the probe reads, with only the members that it
 * reads. CO-RE finds each member by name in the running kernel's BTF, so
 * neither their order nor their offsets here mean anything.
 */
#ifndef SEG6LAB_PROBE_KERNEL_H
#define SEG6LAB_PROBE_KERNEL_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef _Bool bool;
typedef __u32 gfp_t;
typedef unsigned long size_t;

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	char name[16];
	int ifindex;
	possible_net_t nd_net;
};

struct dst_entry {
	struct net_device *dev;
};

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
};

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	void *page;
} skb_frag_t;

struct skb_shared_info {
	__u8 nr_frags;
	atomic_t dataref;
	skb_frag_t frags[1];
};

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned long _skb_refdst;
	unsigned int len, data_len;
	__u16 mac_len;
	__u8 cloned : 1;
	__u8 encapsulation : 1;
	__be16 vlan_proto;
	__u16 vlan_tci;
	__be16 protocol;
	__u16 inner_network_header;
	__u16 network_header;
	__u16 mac_header;
	unsigned int tail, end;
	unsigned char *head, *data;
};

struct kmem_cache {
	unsigned int object_size;
};

struct nf_hook_state {
	__u8 hook;
};

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
};

struct napi_struct {
	struct sk_buff *skb;
	struct net_device *dev;
};

#pragma clang attribute pop

#endif
