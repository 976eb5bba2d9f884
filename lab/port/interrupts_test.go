package port

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/safchain/ethtool"
)

func TestParseCPUs(t *testing.T) {
	for _, row := range []struct {
		list string
		want []int
	}{
		{"", nil}, {"\n", nil}, {"3\n", []int{3}}, {"0-2,8\n", []int{0, 1, 2, 8}},
	} {
		if got, err := parseCPUs(row.list); err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%q: %v, %v, want %v", row.list, got, err, row.want)
		}
	}
	for _, list := range []string{"x", "1-", "1,,x"} {
		if got, err := parseCPUs(list); err == nil {
			t.Errorf("%q is %v", list, got)
		}
	}
}

// TestQueueInterrupt: names from request_irq in the drivers.
func TestQueueInterrupt(t *testing.T) {
	for _, row := range []struct{ name, queue string }{
		{"enp3s0f0-TxRx-11", "11"}, {"i40e-enp3s0f0-TxRx-3", "3"}, {"eth0-rx-0", "0"}, {"eth0-rxtx-2", "2"},
		{"virtio1-input.0", "0"}, {"mlx5_comp4@pci:0000:03:00.0", "4"},
		{"eth0", ""}, {"enp3s0f0", ""}, {"virtio1-config", ""}, {"mlx5_async@pci:0000:03:00.0", ""}, {"eth0-event", ""},
	} {
		queue := ""
		if m := queueInterrupt.FindStringSubmatch(row.name); m != nil {
			queue = m[1]
		}
		if queue != row.queue {
			t.Errorf("%s is of queue %q, want %q", row.name, queue, row.queue)
		}
	}
}

// TestQueues: a port uses as many queues as it is told, and all again afterwards.
func TestQueues(t *testing.T) {
	b := newBench(t)
	b.ip(`ip link del p0
		ip link add p0 numtxqueues 4 numrxqueues 4 type veth peer name cable numtxqueues 4 numrxqueues 4
		ip link set cable up`)
	queues := func(ns *namespace, device string) (s string) {
		t.Helper()
		count := func() error {
			tool, err := ethtool.NewEthtool()
			if err != nil {
				return err
			}
			defer tool.Close()
			c, err := tool.GetChannels(device)
			s = fmt.Sprintf("%d/%d", c.RxCount, c.TxCount)
			return err
		}
		if err := ns.do(count); err != nil {
			t.Fatal(err)
		}
		return s
	}
	here, err := home()
	if err != nil {
		t.Fatal(err)
	}
	defer here.close()
	was := queues(here, "p0")
	binding := b.binding()
	for _, n := range []int{1, 2, 4} {
		binding.Queues = n
		if _, err := Bind(binding); err != nil {
			t.Fatal(err)
		}
		if got, want := queues(b.node, "in"), fmt.Sprintf("%d/%d", n, n); got != want {
			t.Errorf("the port uses %s queues, want %s", got, want)
		}
		if err := b.release(); err != nil {
			t.Fatal(err)
		}
		if got := queues(here, "p0"); got != was {
			t.Errorf("the port uses %s queues, before it was %s", got, was)
		}
	}
	for _, row := range []struct {
		change func(*Binding)
		want   string
	}{
		{func(b *Binding) { b.Queues = 5 }, "4 at most"},
		{func(b *Binding) { b.Queues, b.PlaceInterrupts = 2, true }, "no interrupt for each queue"},
	} {
		binding := b.binding()
		row.change(&binding)
		if _, err := Bind(binding); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("error %v, want %s", err, row.want)
		}
		if got := queues(here, "p0"); got != was {
			t.Errorf("the port uses %s queues, before it was %s", got, was)
		}
		b.nothingLeft()
	}
}
