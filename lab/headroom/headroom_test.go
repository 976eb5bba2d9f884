package headroom

import "testing"

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in    string
		want  Headroom
		bytes int
		ok    bool
	}{
		{"", Veth, 16, true},
		{"veth", Veth, 16, true},
		{"tap", TAP, 78, true},
		{"ixgbe", IXGBE, 206, true},
		{"page", Page, 270, true},
		{"16", 16, 16, true},
		{"272", 272, 272, true},
		{"15", 0, 0, false},
		{"273", 0, 0, false},
		{"-1", 0, 0, false},
		{"e1000", 0, 0, false},
	} {
		got, err := Parse(c.in)
		if (err == nil) != c.ok {
			t.Errorf("Parse(%q): error %v, want success %v", c.in, err, c.ok)
		} else if c.ok && (got != c.want || got.Bytes() != c.bytes) {
			t.Errorf("Parse(%q) = %d with %d bytes, want %d with %d", c.in, got, got.Bytes(), c.want, c.bytes)
		}
	}
}

func TestParseClone(t *testing.T) {
	for in, want := range map[string]Clone{"": NotCloned, "none": NotCloned, "data": DataCloned, "header": HeaderCloned} {
		if got, err := ParseClone(in); err != nil || got != want {
			t.Errorf("ParseClone(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	if _, err := ParseClone("twice"); err == nil {
		t.Error(`ParseClone("twice") succeeded`)
	}
}
