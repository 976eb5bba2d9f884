package forwarder

// reason is why a packet was dropped.
type reason int

const (
	dropNone reason = iota
	dropOtherHost
	dropMalformed
	dropAddress
	dropHopLimit
	dropNoRoute
	dropTooBig
	dropNotForwarding
	dropBlackhole
	dropSegmentRouting
	dropHMAC
	dropNeighbour
	dropNoRoom
	dropLoop
	dropNotOurs
	dropProtocol
	reasons
)

var reasonNames = [reasons]string{
	dropNone:           "none",
	dropOtherHost:      "addressed to another host",
	dropMalformed:      "malformed header",
	dropAddress:        "address that may not be forwarded",
	dropHopLimit:       "hop limit exceeded",
	dropNoRoute:        "no route",
	dropTooBig:         "larger than the MTU",
	dropNotForwarding:  "forwarding is off",
	dropBlackhole:      "blackhole",
	dropSegmentRouting: "refused by the behaviour of the segment",
	dropHMAC:           "HMAC missing or wrong",
	dropNeighbour:      "neighbour did not answer",
	dropNoRoom:         "encapsulation does not fit",
	dropLoop:           "route loops inside the router",
	dropNotOurs:        "delivered to nobody",
	dropProtocol:       "unknown protocol",
}

func (r reason) String() string { return reasonNames[r] }

// drop counts a drop. It returns false, the verdict of a packet that was
// dropped with an error in the kernel's sense.
func (w *Worker) drop(r reason) bool {
	w.stats[r].Add(1)
	return false
}
