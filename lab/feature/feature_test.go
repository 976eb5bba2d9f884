package feature

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"

	"seg6lab/lab/seg6"
)

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// A witness says the same with the real ip and tc, in a namespace with lo up:
// every command must exit with 0, and the output of the last one must have the
// words. What they cannot say is looked for in a file.
type witness struct {
	commands []string
	words    string
	file     string
}

// route is the witness of an encapsulation; words are what ip must show of it.
func route(args, words string) witness {
	return witness{commands: []string{
		"ip -6 route add 2001:db8:1::/64 encap " + args + " dev lo",
		"ip -6 -d -s route show 2001:db8:1::/64",
	}, words: words}
}

func vrfRoute(args, words string) witness {
	w := route(args, words)
	w.commands = append([]string{"ip link add vrf0 type vrf table 100", "sysctl -w net.vrf.strict_mode=1"}, w.commands...)
	return w
}

func device(args string) witness { return witness{commands: []string{"ip link add x0 type " + args}} }

var witnesses = map[string]witness{
	"veth":   device("veth peer name x1"),
	"vrf":    device("vrf table 100"),
	"bridge": device("bridge"),
	"dummy":  device("dummy"),
	"ifb":    device("ifb"),
	"vlan":   {commands: []string{"ip link add x0 type veth peer name x1", "ip link add link x0 name x2 type vlan id 7"}},
	"bridge.vlan_filtering": {commands: []string{"ip link add x0 type bridge vlan_filtering 1", "ip -d link show x0"},
		words: "vlan_filtering 1"},
	"tap":   {commands: []string{"ip tuntap add x0 mode tap"}},
	"netem": {commands: []string{"tc qdisc add dev lo root netem delay 1ms"}},
	// The names of protocols, and symbols of the kernel.
	"packet":  {file: "/proc/net/protocols", words: "\nPACKET "},
	"af_xdp":  {file: "/proc/net/protocols", words: "\nXDP "},
	"bpf":     {file: "/proc/kallsyms", words: " bpf_prog_load\n"},
	"bpf.lwt": {file: "/proc/kallsyms", words: " input_action_end_bpf\n"},
	"tcx":     {file: "/proc/kallsyms", words: " tcx_prog_attach\n"},
	// tun_chr_ioctl answers TUNGETFEATURES with a constant: only it can tell.
	"tap.napi-frags": {commands: []string{"ip tuntap add x0 mode tap"}},

	"seg6":              {commands: []string{"ip sr tunsrc show"}, words: "tunsrc addr ::"},
	"seg6.hmac":         {commands: []string{"ip sr hmac show"}},
	"seg6.inline":       route("seg6 mode inline segs fc00::1", "mode inline"),
	"seg6.encap":        route("seg6 mode encap segs fc00::1", "mode encap "),
	"seg6.encap.red":    route("seg6 mode encap.red segs fc00::1", "mode encap.red"),
	"seg6.l2encap":      route("seg6 mode l2encap segs fc00::1", "mode l2encap "),
	"seg6.l2encap.red":  route("seg6 mode l2encap.red segs fc00::1", "mode l2encap.red"),
	"seg6.end":          route("seg6local action End", "action End "),
	"seg6.end.x":        route("seg6local action End.X nh6 fc00::1", "nh6 fc00::1"),
	"seg6.end.x.oif":    route("seg6local action End.X nh6 fc00::1 oif lo", "oif lo"),
	"seg6.iif":          route("seg6local action End iif lo", "iif lo"),
	"seg6.end.t":        route("seg6local action End.T table 100", "table 100"),
	"seg6.dx2":          route("seg6local action End.DX2 oif lo", "oif lo"),
	"seg6.dx4":          route("seg6local action End.DX4 nh4 192.0.2.1", "nh4 192.0.2.1"),
	"seg6.dx6":          route("seg6local action End.DX6 nh6 fc00::1", "nh6 fc00::1"),
	"seg6.dt6":          route("seg6local action End.DT6 table 100", "table 100"),
	"seg6.dt4":          vrfRoute("seg6local action End.DT4 vrftable 100", "vrftable 100"),
	"seg6.dt6.vrftable": vrfRoute("seg6local action End.DT6 vrftable 100", "vrftable 100"),
	"seg6.dt46":         vrfRoute("seg6local action End.DT46 vrftable 100", "vrftable 100"),
	"seg6.b6":           route("seg6local action End.B6 srh segs fc00::1", "segs 2 [ fc00::1 :: ]"),
	"seg6.b6.encaps":    route("seg6local action End.B6.Encaps srh segs fc00::1", "segs 1 [ fc00::1 ]"),
	"seg6.counters":     route("seg6local action End count", "packets 0 bytes 0 errors 0"),
	"seg6.psp":          route("seg6local action End flavors psp", "flavors psp"),
	"seg6.next-csid":    route("seg6local action End flavors next-csid", "flavors next-csid"),
	"seg6.next-csid.x":  route("seg6local action End.X nh6 fc00::1 flavors next-csid", "flavors next-csid"),
}

// says runs the witness; said is what it bases its answer on.
func (w witness) says(t *testing.T) (present bool, said string) {
	t.Helper()
	err := inScratch(func() error {
		present = true
		if w.file != "" {
			b, err := os.ReadFile(strings.Replace(w.file, "/proc/net", "/proc/thread-self/net", 1))
			said = w.file
			present = strings.Contains(string(b), w.words)
			return err
		}
		for _, c := range w.commands {
			fields := strings.Fields(c)
			out, err := exec.Command(fields[0], fields[1:]...).CombinedOutput()
			said = c + ": " + string(out)
			if err != nil {
				present = false
				return nil
			}
		}
		present = strings.Contains(said, w.words)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return present, said
}

// TestAgainstWitnesses: every feature of the package is there or missing as the
// real tools say.
func TestAgainstWitnesses(t *testing.T) {
	needRoot(t)
	var missing []string
	for _, f := range slices.Concat(deviceFeatures, seg6Features) {
		t.Run(f.Name, func(t *testing.T) {
			w, ok := witnesses[f.Name]
			if !ok {
				t.Fatal("no witness")
			}
			err := Probe(f.Name)
			var lacks *Missing
			if err != nil && !errors.As(err, &lacks) {
				t.Fatalf("the probe failed: %v", err)
			}
			if err != nil {
				missing = append(missing, err.Error())
			}
			if present, said := w.says(t); present != (err == nil) {
				t.Errorf("Probe says %v, the witness %t by %q", err, present, said)
			}
		})
	}
	t.Logf("missing here:\n%s", strings.Join(missing, "\n"))
}

func TestOutcomes(t *testing.T) {
	needRoot(t)
	no := errors.New("no such thing")
	var calls atomic.Int32
	inside := ""
	for name, probe := range map[string]func() error{
		"test.present": func() error {
			calls.Add(1)
			var err error
			inside, err = os.Readlink("/proc/thread-self/ns/net")
			return err
		},
		"test.missing": func() error { return fmt.Errorf("try it: %w", Absent(no)) },
		"test.failed":  func() error { return no },
	} {
		Register(Feature{Name: name, About: "a test", Since: "9.9", Config: "CONFIG_TEST", Module: "test", Probe: probe})
	}

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := Probe("test.present"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("the probe ran %d times, want once", n)
	}
	// The scratch namespace was another one, and no thread is left in it.
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("threads of this process: %v, %v", tasks, err)
	}
	for _, task := range tasks {
		if ns, err := os.Readlink(task); err == nil && ns == inside {
			t.Errorf("%s is still in the scratch namespace %s", task, ns)
		}
	}

	err = Probe("test.missing")
	var lacks *Missing
	if !errors.As(err, &lacks) || lacks.Name != "test.missing" || !errors.Is(err, no) {
		t.Errorf("Probe of a missing feature: %v", err)
	}
	want := "test.missing: this kernel lacks a test: modprobe test, take Linux 9.9 or later with CONFIG_TEST, " +
		"or a guest with such a kernel (--kernel): try it: no such thing"
	if err.Error() != want {
		t.Errorf("message\n%s, want\n%s", err, want)
	}

	err = Probe("test.failed")
	if errors.As(err, &lacks) || !errors.Is(err, no) || !strings.HasPrefix(err.Error(), "probe test.failed: ") {
		t.Errorf("Probe that fails: %v", err)
	}

	var unknown *UnknownError
	if err := Probe("nonsense"); !errors.As(err, &unknown) || unknown.Name != "nonsense" {
		t.Errorf("Probe of an unknown feature: %v", err)
	}

	results := All()
	if len(results) != len(Names()) {
		t.Errorf("%d results for %d features", len(results), len(Names()))
	}
	for _, r := range results {
		if want := Probe(r.Name); r.Err != want {
			t.Errorf("All says %v of %s, Probe %v", r.Err, r.Name, want)
		}
	}

	defer func() {
		if recover() == nil {
			t.Error("a name was registered twice")
		}
	}()
	Register(Feature{Name: "vrf"})
}

func TestNeeds(t *testing.T) {
	nh := netip.MustParseAddr("fc00::1")
	for _, c := range []struct {
		encap netlink.Encap
		want  []string
	}{
		{&seg6.Encap{Mode: seg6.ModeL2EncapRed}, []string{"seg6.l2encap.red"}},
		{&seg6.Encap{Mode: seg6.ModeInline, HMACKeyID: 1}, []string{"seg6.inline", "seg6.hmac"}},
		{&seg6.Local{Action: seg6.ActionEnd, Flavors: seg6.FlavorPSP | seg6.FlavorNextCSID, Count: true},
			[]string{"seg6.end", "seg6.counters", "seg6.psp", "seg6.next-csid"}},
		{&seg6.Local{Action: seg6.ActionEndX, NH6: nh, OIF: 2, Flavors: seg6.FlavorNextCSID},
			[]string{"seg6.end.x", "seg6.end.x.oif", "seg6.next-csid.x"}},
		{&seg6.Local{Action: seg6.ActionEndDT6, Table: 5, IIF: 2}, []string{"seg6.dt6", "seg6.iif"}},
		{&seg6.Local{Action: seg6.ActionEndDT6, VRFTable: 5}, []string{"seg6.dt6.vrftable"}},
		{&seg6.Local{Action: seg6.ActionEndB6Encaps, SRH: &seg6.SRH{HMACKeyID: 1}}, []string{"seg6.b6.encaps", "seg6.hmac"}},
		{&seg6.OtherEncap{Kind: 4}, nil},
	} {
		if got := Needs(c.encap); !reflect.DeepEqual(got, c.want) {
			t.Errorf("Needs(%s) = %q, want %q", c.encap, got, c.want)
		}
	}
	// Every mode and action that seg6 can say has a feature.
	for _, m := range seg6.Modes() {
		if names := Needs(&seg6.Encap{Mode: m}); len(names) != 1 || !slices.Contains(Names(), names[0]) {
			t.Errorf("mode %s needs %q", m, names)
		}
	}
	for _, a := range seg6.Actions() {
		if names := Needs(&seg6.Local{Action: a.Action}); len(names) != 1 || !slices.Contains(Names(), names[0]) {
			t.Errorf("action %s needs %q", a.Action, names)
		}
	}
}

// BenchmarkAll is the time for all features without what has been kept.
func BenchmarkAll(b *testing.B) {
	needRoot(b)
	for b.Loop() {
		for _, f := range slices.Concat(deviceFeatures, seg6Features) {
			var lacks *Missing
			if err := probe(f); err != nil && !errors.As(err, &lacks) {
				b.Fatal(err)
			}
		}
	}
}
