package specs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"seg6lab/traffic"
)

// Every shipped case makes a script that a shell can read, or says why not, with
// the place in its file.
func TestWriteScript(t *testing.T) {
	cases, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	said := 0
	seen := make(map[string]bool)
	var unsayable *UnsayableError
	for _, c := range cases {
		var b strings.Builder
		switch err := WriteScript(&b, c); {
		case errors.As(err, &unsayable):
			for _, r := range unsayable.Reasons {
				if !strings.HasPrefix(r, c.path+":") {
					t.Errorf("%s: where is it? %s", c.Name, r)
				}
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", c.Name, err)
		}
		said++
		name, _, _ := strings.Cut(c.Name, "/")
		if seen[name] {
			continue // the shell takes its time, and rows are alike
		}
		seen[name] = true
		path := filepath.Join(dir, name+".sh")
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("sh", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: sh -n: %v\n%s", c.Name, err, out)
		}
	}
	if said < len(cases)/2 {
		t.Errorf("%d of %d cases can be said, expected most", said, len(cases))
	}
}

func TestShellcheck(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip(err)
	}
	cases, err := Find([]string{"demo"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteScript(&b, cases[0]); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("shellcheck", "-")
	cmd.Stdin = strings.NewReader(b.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The program takes what controlKind calls control, and nothing else.
func TestControlProgram(t *testing.T) {
	program := controlProgram(controlKinds)
	withoutNA := controlProgram([]uint32{controlKinds[0], controlKinds[1], 0x86dd<<8 | 135})
	for expr, takes := range map[string][2]bool{
		`Ether()/ARP()`:                                           {true, true},
		`Ether()/IP(proto=2)/Raw(8)`:                              {true, true},
		`Ether()/IP()/UDP()`:                                      {false, false},
		`Ether()/IPv6()/ICMPv6ND_NS()`:                            {true, true},
		`Ether()/IPv6()/ICMPv6ND_NA()`:                            {true, false},
		`Ether()/IPv6()/ICMPv6EchoRequest()`:                      {false, false},
		`Ether()/IPv6()/ICMPv6Unknown(type=143, msgbody=b"1234")`: {true, false},
		`Ether()/IPv6()/IPv6ExtHdrHopByHop(options=[RouterAlert()])/ICMPv6Unknown(type=131, msgbody=b"1234")`: {true, false},
		`Ether()/IPv6()/IPv6ExtHdrHopByHop()/UDP()`:                                                           {false, false},
		`Ether()/IPv6()/SRH()/IPv6()/ICMPv6ND_NS()`:                                                           {false, false},
		`Ether(type=0x8847)/Raw(40)`:                                                                          {false, false},
	} {
		p, err := traffic.Parse(expr)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := p.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		for i, prog := range []string{program, withoutNA} {
			if got := runClassic(t, prog, frame); got != takes[i] {
				t.Errorf("%s, program %d: taken %v", expr, i, got)
			}
		}
		if got := controlKind(frame) != 0; got != takes[0] {
			t.Errorf("%s: controlKind %v", expr, got)
		}
	}
}

// runClassic executes the few instructions of classic BPF that the programs have.
func runClassic(t *testing.T, program string, frame []byte) bool {
	t.Helper()
	insns := strings.Split(program, ",")
	if n, _ := strconv.Atoi(insns[0]); n != len(insns)-1 {
		t.Fatalf("%d instructions, said to be %s", len(insns)-1, insns[0])
	}
	a := uint32(0)
	for pc := 1; pc < len(insns); pc++ {
		var op, yes, no int
		var k uint32
		if _, err := fmt.Sscan(insns[pc], &op, &yes, &no, &k); err != nil {
			t.Fatalf("instruction %d: %q: %v", pc, insns[pc], err)
		}
		switch op {
		case 0x28, 0x30:
			if int(k)+1 >= len(frame) {
				return false
			}
			if a = uint32(frame[k]); op == 0x28 {
				a = uint32(binary.BigEndian.Uint16(frame[k:]))
			}
		case 0x05:
			pc += int(k)
		case 0x15:
			if a == k {
				pc += yes
			} else {
				pc += no
			}
		case 0x06:
			return k != 0
		default:
			t.Fatalf("instruction %d: %q", pc, insns[pc])
		}
	}
	t.Fatal("the program does not end")
	return false
}
