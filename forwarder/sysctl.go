package forwarder

import (
	"fmt"
	"strconv"
)

// sysctls are the settings that the path of a packet reads.
type sysctls struct {
	forwarding6, forwarding4 bool
	flowlabel                int
	// ratelimits in milliseconds, 0 for none; perSecond and burst are global.
	ratelimit6, ratelimit4, perSecond, burst int
	ratemask4                                int // bits of limited types (icmpv4_mask_allow)
	ttl                                      uint8
}

// sysctlReader reads numbers and remembers what was wrong.
type sysctlReader struct {
	values map[string]string
	errs   []error
}

func (r *sysctlReader) get(name string, otherwise int) int {
	s, ok := r.values[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("sysctl %s: %q is not a number", name, s))
		return otherwise
	}
	return n
}

// conf is a setting of net.ipv6.conf for one device, which starts with the
// value of "default".
func (r *sysctlReader) conf(device, name string, otherwise int) int {
	otherwise = r.get("net.ipv6.conf.default."+name, otherwise)
	return r.get("net.ipv6.conf."+device+"."+name, otherwise)
}

func (r *sysctlReader) read() sysctls {
	return sysctls{
		forwarding6: r.get("net.ipv6.conf.all.forwarding", 0) != 0,
		forwarding4: r.get("net.ipv4.ip_forward", r.get("net.ipv4.conf.all.forwarding", 0)) != 0,
		flowlabel:   r.get("net.ipv6.seg6_flowlabel", 0),
		ratelimit6:  r.get("net.ipv6.icmp.ratelimit", 1000),
		ratelimit4:  r.get("net.ipv4.icmp_ratelimit", 1000),
		ratemask4:   r.get("net.ipv4.icmp_ratemask", 1<<icmp4Unreachable|1<<4|1<<icmp4TimeExceeded|1<<icmp4ParameterProblem),
		perSecond:   r.get("net.ipv4.icmp_msgs_per_sec", 1000),
		burst:       r.get("net.ipv4.icmp_msgs_burst", 50),
		ttl:         uint8(r.get("net.ipv4.ip_default_ttl", 64)),
	}
}
