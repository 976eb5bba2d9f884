package skb

import "math/bits"

// Sizes in bytes on x86-64.
const (
	cacheLine = 64
	// sharedInfo is sizeof(struct skb_shared_info), which lies behind the
	// head: a fixed part of 48 bytes and 17 fragments of 16.
	sharedInfo      = sharedInfoFixed + maxFrags*fragSize
	sharedInfoFixed = 48
	maxFrags        = 17
	fragSize        = 16
	// smallHead is SKB_SMALL_HEAD_CACHE_SIZE with CONFIG_IPV6_SIT or a like
	// tunnel and without wireless LAN: the object of the cache for small heads.
	smallHead = 640
	pageSize  = 4096
	// maxCached is KMALLOC_MAX_CACHE_SIZE: above it kmalloc takes pages.
	maxCached = 2 * pageSize
	// maxObject is KMALLOC_MAX_SIZE, 1 << (MAX_PAGE_ORDER + PAGE_SHIFT): kmalloc
	// fails above it.
	maxObject = pageSize << 10
)

// kmallocSizes are the general caches, smallest first (kmalloc_info).
var kmallocSizes = []int{8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, maxCached}

func alignUp(n, to int) int { return (n + to - 1) / to * to }

// kmallocSize is kmalloc_size_roundup.
func kmallocSize(n int) int {
	for _, size := range kmallocSizes {
		if n <= size {
			return size
		}
	}
	pages := (n + pageSize - 1) / pageSize
	return pageSize << bits.Len(uint(pages-1))
}

// objectSize is what kmalloc_reserve allocates for a head of n bytes, the
// shared info included.
func (k *Kernel) objectSize(n int) int {
	object := alignUp(n, cacheLine) + alignUp(sharedInfo, cacheLine)
	if object <= smallHead {
		return smallHead
	}
	return kmallocSize(object)
}

// headSize is SKB_WITH_OVERHEAD: what an object leaves for the head.
func headSize(object int) int { return object - alignUp(sharedInfo, cacheLine) }

// sharedInfoUsed is how much of the shared info a reallocation copies.
func sharedInfoUsed(frags int) int { return sharedInfoFixed + frags*fragSize }
