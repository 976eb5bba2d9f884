package probe

import (
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"
)

// dropReasons are the names of enum skb_drop_reason in the running kernel; its
// values differ from one kernel to the next.
var dropReasons = sync.OnceValue(func() map[uint64]string {
	names := map[uint64]string{}
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return names
	}
	var reasons *btf.Enum
	if err := spec.TypeByName("skb_drop_reason", &reasons); err != nil {
		return names
	}
	for _, v := range reasons.Values {
		names[v.Value] = strings.TrimPrefix(strings.TrimPrefix(v.Name, "SKB_DROP_REASON_"), "SKB_")
	}
	return names
})

func dropReason(n int32) string {
	if name, ok := dropReasons()[uint64(uint32(n))]; ok {
		return name
	}
	return strconv.Itoa(int(n))
}
