// Package skb models the Linux kernel's socket buffer closely enough to say
// when a head is reallocated, what that costs, and where its header offsets
// end up. It moves real bytes, so a clone shows what a packet socket would
// read, and its offsets are 16 bits wide and wrap as the kernel's do.
//
// It knows nothing of routes, devices or ports, and it is not on the
// forwarder's fast path: it is an account that can be kept beside it.
package skb

import (
	"errors"
	"fmt"
)

// NetSKBPad is NET_SKB_PAD: skb_cow rounds the headroom that it adds up to a
// multiple of it. max(32, cache line) in bytes, 64 on x86-64.
const NetSKBPad = 64

// macUnset is the value of a MAC header offset that was never set.
const macUnset = 0xffff

// ErrNoRoom is what the kernel answers with a panic (skb_under_panic,
// skb_over_panic): the headers or the data would leave the buffer.
var ErrNoRoom = errors.New("no room in the buffer")

// ErrNoMemory is -ENOMEM: kmalloc has no objects of that size.
var ErrNoMemory = errors.New("no memory")

// head is the memory that clones share: the bytes from skb->head to skb->end
// and what the kernel keeps in skb_shared_info.
type head struct {
	mem []byte
	// refs counts all references, payloadRefs those that only care for the
	// payload: the two halves of dataref.
	refs, payloadRefs int
	frags             [][]byte
}

// SKB is one struct sk_buff.
type SKB struct {
	kernel *Kernel
	head   *head
	// data and tail are offsets into the head.
	data, tail int
	// Offsets from skb->head, 16 bits wide as in the kernel.
	mac, network, transport uint16
	macLen                  uint16
	cloned, nohdr           bool
	hdrLen                  int
}

// Alloc is alloc_skb: a buffer without headroom and with room for at least
// size bytes. Allocations that start a packet's life are not counted; only
// reallocations are.
func (k *Kernel) Alloc(size int) *SKB {
	return k.build(headSize(k.objectSize(size)))
}

// AllocPage is build_skb over a page fragment, as drivers such as ixgbe
// receive: size is the room between skb->head and skb->end.
func (k *Kernel) AllocPage(size int) *SKB { return k.build(size) }

func (k *Kernel) build(size int) *SKB {
	return &SKB{kernel: k, head: &head{mem: make([]byte, size), refs: 1}, mac: macUnset}
}

// Headroom is skb_headroom in bytes.
func (s *SKB) Headroom() int { return s.data }

// Tailroom is skb_tailroom in bytes: 0 when the packet is not linear.
func (s *SKB) Tailroom() int {
	if len(s.head.frags) > 0 {
		return 0
	}
	return len(s.head.mem) - s.tail
}

// HeadLen is skb_headlen: the linear bytes from data to tail.
func (s *SKB) HeadLen() int { return s.tail - s.data }

// Len is skb->len: linear bytes and fragments.
func (s *SKB) Len() int {
	n := s.HeadLen()
	for _, f := range s.head.frags {
		n += len(f)
	}
	return n
}

// Data is the linear part. Writing to it writes to every clone.
func (s *SKB) Data() []byte { return s.head.mem[s.data:s.tail] }

// Bytes is a copy of the whole packet from data on.
func (s *SKB) Bytes() []byte {
	b := append([]byte(nil), s.Data()...)
	for _, f := range s.head.frags {
		b = append(b, f...)
	}
	return b
}

// AddFrag appends a page fragment, which makes the packet nonlinear.
func (s *SKB) AddFrag(b []byte) { s.head.frags = append(s.head.frags, b) }

// Reserve is skb_reserve: headroom in an empty buffer.
func (s *SKB) Reserve(n int) error {
	if s.data != s.tail || n < 0 || n > len(s.head.mem)-s.tail {
		return fmt.Errorf("reserve %d: %w", n, ErrNoRoom)
	}
	s.data += n
	s.tail += n
	return nil
}

// Put is skb_put: the n bytes added at the tail.
func (s *SKB) Put(n int) ([]byte, error) {
	if n < 0 || n > s.Tailroom() {
		return nil, fmt.Errorf("put %d of %d: %w", n, s.Tailroom(), ErrNoRoom)
	}
	s.tail += n
	return s.head.mem[s.tail-n : s.tail], nil
}

// Push is skb_push: data moves n bytes towards the head.
func (s *SKB) Push(n int) error {
	if n < 0 || n > s.data {
		return fmt.Errorf("push %d into a headroom of %d: %w", n, s.data, ErrNoRoom)
	}
	s.data -= n
	return nil
}

// Pull is skb_pull: data moves n bytes towards the tail.
func (s *SKB) Pull(n int) error {
	if n < 0 || n > s.HeadLen() {
		return fmt.Errorf("pull %d of %d: %w", n, s.HeadLen(), ErrNoRoom)
	}
	s.data += n
	return nil
}

// Clone is skb_clone: another sk_buff over the same head.
func (s *SKB) Clone() *SKB {
	n := *s
	if s.nohdr {
		n.hdrLen = s.Headroom()
	}
	n.cloned, n.nohdr = true, false
	s.head.refs++
	s.cloned = true
	return &n
}

// HeaderRelease is __skb_header_release: the owner keeps a payload-only
// reference and lets clones use the headroom, as TCP does. It may be called
// only before the first clone.
func (s *SKB) HeaderRelease() {
	s.nohdr = true
	s.head.refs, s.head.payloadRefs = 1, 1
}

// Free drops this reference to the head.
func (s *SKB) Free() { s.release() }

func (s *SKB) release() {
	s.head.refs--
	if s.nohdr {
		s.head.payloadRefs--
	}
}

// Cloned is skb_cloned: another sk_buff refers to the same head.
func (s *SKB) Cloned() bool { return s.cloned && s.head.refs != 1 }

// HeaderCloned is skb_header_cloned: another sk_buff may read the headers.
func (s *SKB) HeaderCloned() bool {
	return s.cloned && s.head.refs-s.head.payloadRefs != 1
}

// ExpandHead is pskb_expand_head: a private head with nhead more bytes in
// front and at least ntail more behind. By says which of seg6's calls it was.
func (s *SKB) ExpandHead(nhead, ntail int, by Site) error {
	if nhead < 0 || ntail < 0 {
		return fmt.Errorf("expand head by %d and %d: %w", nhead, ntail, ErrNoRoom)
	}
	object := s.kernel.objectSize(len(s.head.mem) + nhead + ntail)
	if object > maxObject {
		return fmt.Errorf("expand head to %d bytes: %w", object, ErrNoMemory)
	}
	mem := make([]byte, headSize(object))
	copied := copy(mem[nhead:], s.head.mem[:s.tail])
	s.kernel.note(Expansion{
		By: by, NHead: nhead, NTail: ntail, Headroom: s.Headroom(),
		Object: object, Copied: copied + sharedInfoUsed(len(s.head.frags)),
	})
	frags := s.head.frags
	s.release()
	s.head = &head{mem: mem, refs: 1, frags: frags}
	s.data += nhead
	s.tail += nhead
	s.network += uint16(nhead)
	s.transport += uint16(nhead)
	if s.mac != macUnset {
		s.mac += uint16(nhead)
	}
	s.cloned, s.nohdr, s.hdrLen = false, false, 0
	return nil
}

// CowHead is skb_cow_head: at least headroom bytes of room and headers that
// nobody else reads.
func (s *SKB) CowHead(headroom int, by Site) error { return s.cow(headroom, s.HeaderCloned(), by) }

// Cow is skb_cow: as CowHead, for one who also writes to the payload.
func (s *SKB) Cow(headroom int, by Site) error { return s.cow(headroom, s.Cloned(), by) }

func (s *SKB) cow(headroom int, cloned bool, by Site) error {
	missing := max(0, headroom-s.Headroom())
	if missing == 0 && !cloned {
		return nil
	}
	return s.ExpandHead(alignUp(missing, NetSKBPad), 0, by)
}

// EnsureWritable is skb_ensure_writable for the first n linear bytes.
func (s *SKB) EnsureWritable(n int, by Site) error {
	if n > s.HeadLen() {
		return fmt.Errorf("make %d of %d linear bytes writable: %w", n, s.HeadLen(), ErrNoRoom)
	}
	if !s.Cloned() || !s.HeaderCloned() && s.Headroom()+n <= s.hdrLen {
		return nil
	}
	return s.ExpandHead(0, 0, by)
}
