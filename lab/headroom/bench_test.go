package headroom

import "testing"

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		a := &Applied{}
		if err := a.load(); err != nil {
			b.Skip(err)
		}
		a.Close()
	}
}
