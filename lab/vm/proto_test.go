package vm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
	"time"
)

func TestFrameOnTheWire(t *testing.T) {
	var b bytes.Buffer
	w := &frameWriter{w: &b}
	if err := w.write(kindOutput, 0x01020304, []byte("ab")); err != nil {
		t.Fatal(err)
	}
	want := []byte{2, 0, 0, 0, byte(kindOutput), 4, 3, 2, 1, 'a', 'b'}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("frame is % x, want % x", b.Bytes(), want)
	}
}

func TestLongDataIsSplit(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), maxFrame/4)
	var b bytes.Buffer
	w := &frameWriter{w: &b}
	if err := w.write(kindInput, 7, data); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(&b)
	var got []byte
	for frames := 0; ; frames++ {
		f, err := readFrame(r)
		if err == io.EOF {
			if frames != 3 { // 2.5 times what a frame holds
				t.Errorf("%d frames, want 3", frames)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.kind != kindInput || f.call != 7 {
			t.Errorf("frame of kind %d, call %d", f.kind, f.call)
		}
		got = append(got, f.data...)
	}
	if !bytes.Equal(got, data) {
		t.Error("the data changed on the way")
	}
}

func TestDamagedFrames(t *testing.T) {
	for _, tt := range []struct {
		name string
		wire []byte
		want error
	}{
		{"nothing", nil, io.EOF},
		{"half a header", []byte{1, 0, 0}, io.ErrUnexpectedEOF},
		{"half the data", []byte{4, 0, 0, 0, byte(kindInput), 1, 0, 0, 0, 'x'}, io.ErrUnexpectedEOF},
		{"no data", []byte{4, 0, 0, 0, byte(kindInput), 1, 0, 0, 0}, io.ErrUnexpectedEOF},
		{"too long", []byte{1, 0, 1, 0, byte(kindInput), 1, 0, 0, 0}, errFrame},
		{"kind 0", []byte{0, 0, 0, 0, 0, 1, 0, 0, 0}, errFrame},
		{"unknown kind", []byte{0, 0, 0, 0, byte(kindEnd), 1, 0, 0, 0}, errFrame},
	} {
		if _, err := readFrame(bufio.NewReader(bytes.NewReader(tt.wire))); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// FuzzReadFrame: whatever is read back is what was written, and no input makes
// the reader hold more than one frame's worth.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, byte(kindOutput), 4, 3, 2, 1, 'a', 'b'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, wire []byte) {
		fr, err := readFrame(bufio.NewReader(bytes.NewReader(wire)))
		if err != nil {
			return
		}
		var b bytes.Buffer
		w := &frameWriter{w: &b}
		if err := w.write(fr.kind, fr.call, fr.data); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(wire, b.Bytes()) {
			t.Errorf("read % x, which is written % x", wire, b.Bytes())
		}
	})
}

func TestInboxCreditsWhatIsRead(t *testing.T) {
	credited := 0
	b := newInbox(func(n int) error { credited += n; return nil })
	for _, s := range []string{"abc", "de"} {
		if err := b.put([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if credited != 0 {
		t.Errorf("%d bytes credited before any was read", credited)
	}
	p := make([]byte, 2)
	if n, err := b.Read(p); n != 2 || err != nil || credited != 2 {
		t.Errorf("read %d, %v; credited %d", n, err, credited)
	}
	b.put(nil)
	rest, err := io.ReadAll(b)
	if string(rest) != "cde" || err != nil || credited != 5 {
		t.Errorf("the rest is %q, %v; credited %d, want cde and 5", rest, err, credited)
	}
}

func TestInboxRefusesMoreThanTheWindow(t *testing.T) {
	b := newInbox(func(int) error { return nil })
	if err := b.put(make([]byte, inputWindow)); err != nil {
		t.Fatal(err)
	}
	if err := b.put([]byte{1}); !errors.Is(err, errFrame) {
		t.Errorf("one byte past the window: %v, want %v", err, errFrame)
	}
}

func TestInboxClosedWhileReading(t *testing.T) {
	b := newInbox(func(int) error { return nil })
	gone := errors.New("gone")
	got := make(chan error)
	go func() {
		_, err := b.Read(make([]byte, 1))
		got <- err
	}()
	b.close(gone)
	select {
	case err := <-got:
		if err != gone {
			t.Errorf("%v, want %v", err, gone)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Read still waits")
	}
}
