package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"seg6lab/forwarder/skb"
	"seg6lab/lab/headroom"
	"seg6lab/specs/sweep"
)

func newHeadroomCommand() *cobra.Command {
	var (
		e            skb.Encapsulation
		mode, device string
		room, clone  string
		asJSON       bool
	)
	cmd := &cobra.Command{
		Use:   "headroom",
		Short: "Explain the headroom that an encapsulation needs",
		Long: `Explains by the sk_buff model what headroom an encapsulation needs, what is left,
and how often kernels before and after the fixes of the L2 modes reallocate the
head. It needs no root and asks no kernel; seg6lab sweep compares the model with
one.`,
		Example: `  seg6lab headroom --mode l2encap --segments 1 --mac-len 14 --device ethernet --headroom 206
  seg6lab headroom --mode encap --segments 3 --headroom veth --clone header`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e.Mode = skb.Mode(mode)
			var err error
			if e.Reserved, err = sweep.Reserved(device); err != nil {
				return inputError{err}
			}
			if e.Headroom, err = strconv.Atoi(room); err != nil {
				h, err := headroom.Parse(room)
				if err != nil {
					return inputError{err}
				}
				e.Headroom = h.Bytes()
			}
			c, err := headroom.ParseClone(clone)
			if err != nil {
				return inputError{err}
			}
			e.Cloned, e.HeaderCloned = c != headroom.NotCloned, c == headroom.HeaderCloned
			a, err := sweep.Account(e)
			if err != nil {
				return inputError{err}
			}
			if asJSON {
				return printJSON(cmd, a)
			}
			return a.Write(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&mode, "mode", string(skb.L2Encap), "inline, encap, encap.red, l2encap or l2encap.red")
	flags.IntVar(&e.Segments, "segments", 1, "number of segments")
	flags.IntVar(&e.MacLen, "mac-len", 14, "length of the MAC header in bytes: 14, and 4 for each tag that stays in the frame")
	flags.StringVar(&device, "device", "ethernet", "outgoing device: ethernet, vlan or tun")
	flags.StringVar(&room, "headroom", "ixgbe", "bytes in front of the packet, or veth, tap, ixgbe, page")
	flags.StringVar(&clone, "clone", "none", "none, data or header")
	flags.BoolVar(&e.HMAC, "hmac", false, "with an HMAC TLV")
	flags.BoolVar(&e.Cold, "cold", false, "with a cold dst cache")
	addJSONFlag(cmd, &asJSON)
	return cmd
}
