package lab_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seg6lab/lab"
	"seg6lab/lab/topology"
	"seg6lab/topologies"
)

// BenchmarkChain brings chains of nodes up and down, and does the same beside
// it with ip -batch: one batch for namespaces and links, one for each
// namespace. ip cannot set sysctls: the lab sets about ten in each namespace on
// top of what ip does, and waits until every device is ready.
//
// The figures: milliseconds a node, and the lab's time in ip's.
func BenchmarkChain(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	for _, n := range []int{2, 16, 128, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := topologies.Chain(n)
			name := fmt.Sprintf("b%d", os.Getpid())
			script := newBatch(b, name, t)
			var up, down, ipUp, ipDown time.Duration
			took := func(sum *time.Duration, f func() error) {
				b.Helper()
				start := time.Now()
				if err := f(); err != nil {
					b.Fatal(err)
				}
				*sum += time.Since(start)
			}
			var l *lab.Lab
			rounds := 0
			for b.Loop() {
				took(&ipUp, script.up)
				took(&ipDown, script.down)
				took(&up, func() (err error) {
					l, err = lab.Up(context.Background(), t, lab.Options{Name: name, Owned: true})
					return err
				})
				took(&down, func() error { return l.Down() })
				rounds++
			}
			perNode := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(rounds*n) }
			b.ReportMetric(perNode(up), "up-ms/node")
			b.ReportMetric(perNode(down), "down-ms/node")
			b.ReportMetric(perNode(ipUp), "ip-up-ms/node")
			b.ReportMetric(perNode(ipDown), "ip-down-ms/node")
			b.ReportMetric(float64(up)/float64(ipUp), "up/ip-up")
			b.ReportMetric(float64(down)/float64(ipDown), "down/ip-down")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// batch is a topology as files for ip -batch.
type batch struct {
	create, remove string
	nodes          []string // namespace and file, one after the other
}

func newBatch(b *testing.B, name string, t *topology.Topology) *batch {
	b.Helper()
	dir := b.TempDir()
	write := func(file string, lines []string) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	ns := func(node string) string { return "ip-" + name + "-" + node }
	var create, remove []string
	lines := make(map[string][]string)
	for _, node := range slices.Sorted(maps.Keys(t.Nodes)) {
		create = append(create, "netns add "+ns(node))
		remove = append(remove, "netns del "+ns(node))
		lines[node] = []string{"link set lo up"}
	}
	for i, l := range t.Links {
		create = append(create, fmt.Sprintf("link add %s address %s netns %s type veth peer name %s address %s netns %s",
			l.Ends[0].Dev, l.MAC(i, 0), ns(l.Ends[0].Node), l.Ends[1].Dev, l.MAC(i, 1), ns(l.Ends[1].Node)))
		for _, e := range l.Ends {
			lines[e.Node] = append(lines[e.Node], "link set "+e.Dev+" up")
		}
	}
	for i, l := range t.Links {
		for end, e := range l.Ends {
			far := l.Ends[1-end]
			for _, p := range t.Nodes[e.Node].Addresses[e.Dev] {
				lines[e.Node] = append(lines[e.Node], fmt.Sprintf("addr add %s dev %s nodad", p, e.Dev))
				lines[far.Node] = append(lines[far.Node], fmt.Sprintf("neigh add %s lladdr %s dev %s nud permanent", p.Addr(), l.MAC(i, end), far.Dev))
			}
		}
	}
	s := &batch{create: write("create", create), remove: write("remove", remove)}
	for _, node := range slices.Sorted(maps.Keys(t.Nodes)) {
		for _, r := range t.Nodes[node].Routes {
			line := "route add " + r.To.String()
			if r.Via.IsValid() {
				line += " via " + r.Via.String()
			}
			if r.Dev != "" {
				line += " dev " + r.Dev
			}
			lines[node] = append(lines[node], line)
		}
		s.nodes = append(s.nodes, ns(node), write(node, lines[node]))
	}
	return s
}

func (s *batch) up() error {
	if err := ip("-batch", s.create); err != nil {
		return err
	}
	for i := 0; i < len(s.nodes); i += 2 {
		if err := ip("-6", "-n", s.nodes[i], "-batch", s.nodes[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (s *batch) down() error { return ip("-batch", s.remove) }

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
