package traffic

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// Frames of several sizes arrive as they were, in order, once and again: the
// ring of one call is gone before the next.
func TestSendPages(t *testing.T) {
	p := newPair(t)
	c := p.capture(t, Incoming)
	var s *Socket
	inside(t, p.west, func() (err error) { s, err = Open("eth0"); return err })
	defer s.Close()
	var frames [][]byte
	for _, n := range []int{60, 61, 4064, 4065, 9014} {
		f := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, pattern(n-14)...)
		f[14] = byte(n)
		frames = append(frames, f)
	}
	for round := range 2 {
		if err := s.SendPages(frames); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var got [][]byte
		err := c.Wait(ctx, 0, func(fs []Frame) bool {
			got = nil
			for _, f := range c.Frames(0) {
				if bytes.HasPrefix(f.Data[12:], []byte{0x88, 0xb5}) {
					got = append(got, f.Data)
				}
			}
			return len(got) >= len(frames)*(round+1)
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range got[len(frames)*round:] {
			if !bytes.Equal(f, frames[i]) {
				t.Errorf("round %d, frame %d: got %x, want %x", round, i, f, frames[i])
			}
		}
	}
	if err := s.SendPages([][]byte{make([]byte, 9100)}); err == nil {
		t.Error("a frame beyond the MTU was sent")
	}
	// The socket is as before.
	if err := s.Send(frames[0]); err != nil {
		t.Error(err)
	}
}
