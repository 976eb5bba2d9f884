package topology_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"seg6lab/lab/topology"
)

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// TestKernelAgrees holds the table of behaviours to the running kernel: what
// the validator takes, ip adds, and what it refuses, ip refuses too, except
// for what the kernel ignores in silence. Actions with vrftable are not here:
// the kernel's answer to them is that of its VRF devices.
func TestKernelAgrees(t *testing.T) {
	needsRoot(t)
	const taken, refused, ignored = "taken", "refused", "ignored"
	for _, c := range []struct{ yaml, ip, want string }{
		{`action: End`, `End`, taken},
		{`action: End, nh6: "2001:db8::2"`, `End nh6 2001:db8::2`, ignored},
		{`action: End, iif: in`, `End iif in`, taken},
		{`action: End, flavors: [psp]`, `End flavors psp`, taken},
		{`action: End, flavors: [usp]`, `End flavors usp`, refused},
		{`action: End, flavors: [usd]`, `End flavors usd`, refused},
		{`action: End, flavors: [next-csid]`, `End flavors next-csid`, taken},
		{`action: End, flavors: [psp, next-csid]`, `End flavors psp,next-csid`, taken},
		{`action: End, flavors: [next-csid], lblen: 120, nflen: 8`, `End flavors next-csid lblen 120 nflen 8`, taken},
		{`action: End, flavors: [next-csid], lblen: 120, nflen: 16`, `End flavors next-csid lblen 120 nflen 16`, refused},
		{`action: End, flavors: [next-csid], lblen: 12`, `End flavors next-csid lblen 12`, refused},
		{`action: End, flavors: [next-csid], lblen: 0`, `End flavors next-csid lblen 0`, refused},
		{`action: End, flavors: [next-csid], lblen: 128`, `End flavors next-csid lblen 128`, refused},
		{`action: End.X, nh6: "2001:db8::2"`, `End.X nh6 2001:db8::2`, taken},
		{`action: End.X, nh6: "2001:db8::2", oif: in`, `End.X nh6 2001:db8::2 oif in`, taken},
		{`action: End.X`, `End.X`, refused},
		{`action: End.X, nh6: "2001:db8::2", flavors: [next-csid]`, `End.X nh6 2001:db8::2 flavors next-csid`, taken},
		{`action: End.X, nh6: "2001:db8::2", flavors: [psp]`, `End.X nh6 2001:db8::2 flavors psp`, refused},
		{`action: End.T, table: 100`, `End.T table 100`, taken},
		{`action: End.T`, `End.T`, refused},
		{`action: End.T, table: 100, flavors: [psp]`, `End.T table 100 flavors psp`, ignored},
		{`action: End.DX2, oif: in`, `End.DX2 oif in`, taken},
		{`action: End.DX2`, `End.DX2`, refused},
		{`action: End.DX2, oif: in, table: 5`, `End.DX2 oif in table 5`, ignored},
		{`action: End.DX4, nh4: 192.0.2.1, count: true`, `End.DX4 nh4 192.0.2.1 count`, taken},
		{`action: End.DX4`, `End.DX4`, refused},
		{`action: End.DX6, nh6: "::"`, `End.DX6 nh6 ::`, taken},
		{`action: End.DX6`, `End.DX6`, refused},
		{`action: End.DX6, nh6: "::", oif: in`, `End.DX6 nh6 :: oif in`, ignored},
		{`action: End.DT6, table: 100`, `End.DT6 table 100`, taken},
		{`action: End.DT6`, `End.DT6`, refused},
		{`action: End.DT6, table: 100, vrftable: 100`, `End.DT6 table 100 vrftable 100`, refused},
		{`action: End.DT4`, `End.DT4`, refused},
		{`action: End.DT46`, `End.DT46`, refused},
		{`action: End.B6, srh: {segs: ["fc00::1", "fc00::2"]}`, `End.B6 srh segs fc00::1,fc00::2`, taken},
		{`action: End.B6`, `End.B6`, refused},
		{`action: End.B6.Encaps, srh: {segs: ["fc00::1"]}`, `End.B6.Encaps srh segs fc00::1`, taken},
		{`action: End.B6.Encaps`, `End.B6.Encaps`, refused},
	} {
		_, err := topology.Decode("f", []byte(withNode(seg6local("{"+c.yaml+"}"))))
		if (err == nil) != (c.want == taken) {
			t.Errorf("%s: want %s, the validator says %v", c.yaml, c.want, err)
		}
		script := "ip link add in type veth peer name peer && ip link set in up && ip link set peer up && " +
			"ip -6 addr add 2001:db8::1/64 dev in nodad || exit 9\n" +
			"ip -6 route add fc00::1 encap seg6local action " + c.ip + " dev in || exit 1"
		out, err := exec.Command("unshare", "-n", "sh", "-c", script).CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1):
			t.Fatalf("unshare -n sh -c %q: %v: %s", script, err, out)
		case c.want == taken && strings.Contains(string(out), "Unsupported Flavor operation"):
			t.Logf("%s: this kernel does not know the flavor yet", c.ip)
		case (err == nil) != (c.want != refused):
			t.Errorf("%s: want %s, the kernel says %v", c.ip, c.want, answer(err, out))
		}
	}
}

func answer(err error, out []byte) string {
	if err == nil {
		return "nothing"
	}
	return fmt.Sprintf("%v: %s", err, strings.TrimSpace(string(out)))
}
