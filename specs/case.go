package specs

import (
	"go.yaml.in/yaml/v3"

	"seg6lab/lab/topology"
	"seg6lab/lab/topology/strictyaml"
)

// File is what a case file holds. With a matrix it stands for several cases.
type File struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Case is the name, unique among the cases of a run.
	Case string `yaml:"case"`
	// About says in one sentence what the case shows.
	About string `yaml:"about,omitempty"`
	// Reported says where the case comes from.
	Reported *Reported `yaml:"reported,omitempty"`
	// Labels choose cases on the command line; "slow" is one.
	Labels []string `yaml:"labels,omitempty"`
	// Requires are features that the case needs on top of those that follow
	// from its topology (seg6lab doctor lists the names).
	Requires []string `yaml:"requires,omitempty"`
	// Matrix makes several cases of the file. Each axis has rows, each row
	// gives values to variables; the file stands for every combination of one
	// row of each axis, and ${name} anywhere else in it for the value.
	Matrix *yaml.Node `yaml:"matrix,omitempty"`
	// Fix names the fix of the kernel that "unfixed", "partly" and "fixed" in the
	// steps speak of. What the kernel has of it is found out by trying.
	Fix string `yaml:"fix,omitempty"`
	// Topology is the name of a shipped topology, or the path of a file as seen
	// from the case file.
	Topology string `yaml:"topology"`
	// With is laid over the topology's nodes: lists are appended, maps merged,
	// other values replaced.
	With map[string]*topology.Node `yaml:"with,omitempty"`
	// NICs are ends of links for which a network device of emulated hardware
	// stands, driven by the kernel's driver, by the end: the model in QEMU's words,
	// such as e1000. Such a case gets a guest of its own.
	NICs map[string]string `yaml:"nics,omitempty"`
	// Complaint is a text, as a regular expression, of what the kernel without the
	// case's fix says of the case on its console, such as a report of KASAN. That
	// is then what tells whether the kernel has the fix. One with it must be silent,
	// as every kernel must be of every other case.
	Complaint string `yaml:"complaint,omitempty"`
	// Files are the names of files beside the case file. The commands of steps
	// are executed in a directory with copies of them.
	Files []string `yaml:"files,omitempty"`
	// Cost has the instructions of the packets of a step counted.
	Cost *Cost `yaml:"cost,omitempty"`
	// Steps are done in order; the case ends with the first that fails.
	Steps []*Step `yaml:"steps"`
}

// Reported is the source of a case.
type Reported struct {
	strictyaml.At `yaml:"-" json:"-"`

	// List is the mailing list.
	List string `yaml:"list,omitempty"`
	// Subject of the mail.
	Subject string `yaml:"subject,omitempty"`
	// Date of the report, as far as it is known: 2026-09 or 2026-09-14.
	Date string `yaml:"date,omitempty"`
	// URL of the report.
	URL string `yaml:"url,omitempty"`
	// Fixed is the first Linux version with the fix.
	Fixed string `yaml:"fixed,omitempty"`
}

// Step is one thing that a case does: exactly one of Send and Run is set.
type Step struct {
	strictyaml.At `yaml:"-" json:"-"`

	// About says what the step shows.
	About string `yaml:"about,omitempty"`
	// Send injects frames.
	Send *Send `yaml:"send,omitempty"`
	// Run executes a command in a node.
	Run *Command `yaml:"run,omitempty"`
	// Expect says what arrives because of Send or Run.
	Expect []*Expect `yaml:"expect,omitempty"`
	// SKB says what happens to the sk_buffs of the step in a node's kernel.
	SKB []*SKB `yaml:"skb,omitempty"`
	// Counters says what segments have counted by the end of the step.
	Counters []*Counters `yaml:"counters,omitempty"`
	// Within is how long to wait for what is expected, two seconds when left
	// out, and how long nothing may arrive where nothing is expected, 200ms
	// when left out.
	Within topology.Duration `yaml:"within,omitempty"`
}

// Send injects frames into the network as if a device had sent them.
type Send struct {
	strictyaml.At `yaml:"-" json:"-"`

	// From is the end that the frame leaves.
	From topology.End `yaml:"from"`
	// Packet is a packet expression that begins with Ether. Without src or dst
	// the addresses of the link's two ends are filled in. "hex:..." gives bytes,
	// "pcap:FILE" and "pcap:FILE#N" the frames of a capture file.
	Packet string `yaml:"packet"`
	// Count is how many times the packet is sent, once when left out.
	Count int `yaml:"count,omitempty"`
	// Headroom in bytes with which the frame reaches the node at the other end
	// of the link: 16 to 272, or "veth" (16, as it is), "tap" (78), "ixgbe" (206)
	// or "page" (a page of its own, as native XDP leaves it).
	Headroom string `yaml:"headroom,omitempty" jsonschema:"oneof_type=string;integer"`
	// Clone is "none", "data" (the sk_buff is marked as cloned, the other one is
	// gone) or "header" (a packet socket shares data and header).
	Clone string `yaml:"clone,omitempty" jsonschema:"enum=none,enum=data,enum=header"`
	// Linear, when false, sends the frame in pages: all behind its Ethernet header
	// is in fragments until someone pulls it into the head. It goes with
	// headroom veth.
	Linear *bool `yaml:"linear,omitempty"`
	// TAP has the frame come from a TAP device of the node instead, which the step
	// makes under the name in From.
	TAP *TAP `yaml:"tap,omitempty"`
	// AccelVLAN says where the frame's 802.1Q tag is when it reaches the node:
	// beside the frame, as a driver with rx-vlan-offload leaves it, or in it.
	AccelVLAN *bool `yaml:"accel-vlan,omitempty"`
}

// shaped tells whether the frame is to arrive in a way that the case chooses.
func (s *Send) shaped() bool {
	return s.Headroom != "" || s.Clone != "" || s.Linear != nil || s.AccelVLAN != nil
}

// paged tells whether the frame is sent in pages.
func (s *Send) paged() bool { return s.Linear != nil && !*s.Linear }

// TAP is how a TAP device hands a frame to the kernel, which calls
// napi_gro_frags for each.
type TAP struct {
	strictyaml.At `yaml:"-" json:"-"`

	// First is the number of bytes in the first piece, which becomes the head of
	// the skb; the rest becomes a fragment. All in one piece when 0.
	First int `yaml:"first,omitempty" jsonschema:"minimum=0"`
	// GRO is the device's receive offload of that name, on when left out.
	GRO *bool `yaml:"gro,omitempty"`
}

// Command is a command line that a node executes.
type Command struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Node that executes the command.
	Node string `yaml:"node"`
	// Command line for the shell.
	Command string `yaml:"command"`
	// Fails says that the command must fail, with this text in its output.
	Fails string `yaml:"fails,omitempty"`
	// Output is a text that the output must have.
	Output string `yaml:"output,omitempty"`
}

// Expect is what must arrive at an end: a packet, or nothing.
type Expect struct {
	strictyaml.At `yaml:"-" json:"-"`

	// End where the frame arrives.
	End topology.End `yaml:"at"`
	// Packet is a packet expression. Fields left out are not compared, nor what
	// follows its last layer; but with Exact every byte is, and what is left
	// out has the value that sending it would give.
	Packet string `yaml:"packet,omitempty"`
	// Exact compares every byte.
	Exact bool `yaml:"exact,omitempty"`
	// Count is how many such packets arrive, neither more nor fewer; as many
	// as were sent when left out. With 0 nothing arrives, not even what Nothing
	// does not look at.
	Count *int `yaml:"count,omitempty"`
	// When is "unfixed", "partly" or "fixed": the expectation is of a kernel without
	// the case's fix, with an earlier version of it, or with it, alone.
	When string `yaml:"when,omitempty" jsonschema:"enum=unfixed,enum=partly,enum=fixed"`
	// Nothing says that no frame at all arrives. Neighbour discovery, router
	// and multicast listener messages and ARP are looked at only where a packet
	// expression of them is expected.
	Nothing bool `yaml:"nothing,omitempty"`
}

// SKB is what must happen in a node to the sk_buff of every packet that seg6
// works on in the step. The kernel is observed, never asked for its version.
type SKB struct {
	strictyaml.At `yaml:"-" json:"-"`

	// Node whose kernel is observed.
	Node string `yaml:"node"`
	// Packets is how many seg6 works on, as many as were sent when left out.
	Packets *Quantity `yaml:"packets,omitempty"`
	// Function whose calls are counted: pskb_expand_head or __pskb_pull_tail.
	Function string `yaml:"function,omitempty" jsonschema:"enum=pskb_expand_head,enum=__pskb_pull_tail"`
	// Within narrows the calls of pskb_expand_head down by who asked: seg6,
	// direct-l2, cow-header, cow-link-layer, other-seg6 or outside.
	Within string `yaml:"within,omitempty" jsonschema:"enum=seg6,enum=direct-l2,enum=cow-header,enum=cow-link-layer,enum=other-seg6,enum=outside"`
	// PerPacket is the number of calls for each packet.
	PerPacket *Quantity `yaml:"per-packet,omitempty"`
	// Copied is how many bytes the calls copy for each packet.
	Copied *Quantity `yaml:"copied,omitempty"`
	// Zeroed is how many bytes the allocator zeroes for each packet with
	// init_on_alloc=1. With 0 it zeroes none, and nothing is compared.
	Zeroed *Quantity `yaml:"zeroed,omitempty"`
	// Point is where State is looked at: "seg6" (the default), where the packet
	// reaches seg6, or the entry of ip6_forward, seg6_do_srh or
	// seg6_local_input, or "transmit".
	Point string `yaml:"point,omitempty" jsonschema:"enum=seg6,enum=ip6_forward,enum=seg6_do_srh,enum=seg6_local_input,enum=transmit"`
	// State of the sk_buff at Point.
	State *State `yaml:"state,omitempty"`
	// Dropped is the reason with which the packet is dropped, as in the kernel's
	// enum skb_drop_reason without its prefix.
	Dropped string `yaml:"dropped,omitempty"`
}

// State is what an sk_buff must look like. Offsets and lengths are in bytes,
// header offsets count from the start of the buffer.
type State struct {
	strictyaml.At `yaml:"-" json:"-"`

	Headroom      *Quantity `yaml:"headroom,omitempty"`
	Tailroom      *Quantity `yaml:"tailroom,omitempty"`
	Linear        *Quantity `yaml:"linear,omitempty"` // bytes in the head
	Frags         *Quantity `yaml:"frags,omitempty"`
	DataRef       *Quantity `yaml:"dataref,omitempty"`
	MacLen        *Quantity `yaml:"mac_len,omitempty"`
	MacHeader     *Quantity `yaml:"mac_header,omitempty"`
	NetworkHeader *Quantity `yaml:"network_header,omitempty"`
	// MacToNetwork is the network header's offset less the MAC header's.
	MacToNetwork *Quantity `yaml:"mac_to_network,omitempty"`
	Cloned       *bool     `yaml:"cloned,omitempty"`
	HeaderCloned *bool     `yaml:"header_cloned,omitempty"`
}

// Quantity is what a number must be: exactly a number, written as such; or
// bounds; or one thing on a kernel without the case's fix, another with an earlier
// version of it (such as l2-cow-maclen-only for l2-cow), and another with it. What
// is left out of these is not compared.
type Quantity struct {
	strictyaml.At `yaml:"-" json:"-"`

	Exactly *int      `yaml:"exactly,omitempty" short:"scalar"`
	AtLeast *int      `yaml:"at-least,omitempty"`
	AtMost  *int      `yaml:"at-most,omitempty"`
	Unfixed *Quantity `yaml:"unfixed,omitempty"`
	Partly  *Quantity `yaml:"partly,omitempty"`
	Fixed   *Quantity `yaml:"fixed,omitempty"`
	// ByDriver is the number by what drives the device that the packet came in
	// by, in the words of ethtool -i.
	ByDriver map[string]*Quantity `yaml:"by-driver,omitempty"`
}
