package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// WritePcapng writes the frames read so far, ordered by time, as a pcapng file
// with an interface for every end of the capture.
func (c *Capture) WritePcapng(w io.Writer) error {
	ng, err := c.pcapng(w)
	if err == nil {
		err = writeFrames(ng, c.Frames(0))
	}
	if err != nil {
		return fmt.Errorf("write pcapng: %w", err)
	}
	return nil
}

// Stream writes the frames as a pcapng file as they are read, and forgets them. When
// the context ends it closes the capture and writes what had passed until then. Every
// end must have been added before.
func (c *Capture) Stream(ctx context.Context, w io.Writer) error {
	ng, err := c.pcapng(w)
	if err == nil {
		err = ng.Flush()
	}
	for err == nil {
		ended := c.Wait(ctx, 0, func(f []Frame) bool { return len(f) > 0 })
		if ended != nil {
			// The error of a reader is the capture's too.
			return errors.Join(c.Close(), c.flush(ng))
		}
		err = c.flush(ng)
	}
	return errors.Join(err, c.Close())
}

// flush writes what was read and forgets it.
func (c *Capture) flush(ng *pcapgo.NgWriter) error {
	c.mu.Lock()
	frames := c.frames
	c.frames = nil
	c.mu.Unlock()
	slices.SortStableFunc(frames, byTime)
	if err := writeFrames(ng, frames); err != nil {
		return fmt.Errorf("write pcapng: %w", err)
	}
	return nil
}

func (c *Capture) pcapng(w io.Writer) (*pcapgo.NgWriter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ends) == 0 {
		return nil, errors.New("nothing was captured: the capture has no end")
	}
	options := pcapgo.DefaultNgWriterOptions
	options.SectionInfo.Application = "seg6lab"
	ng, err := pcapgo.NewNgWriterInterface(fullWriter{w}, ngInterface(c.ends[0]), options)
	for _, e := range c.ends[1:] {
		if err == nil {
			_, err = ng.AddInterface(ngInterface(e))
		}
	}
	return ng, err
}

func ngInterface(e *end) pcapgo.NgInterface {
	return pcapgo.NgInterface{Name: e.name, LinkType: layers.LinkTypeEthernet, TimestampResolution: 9}
}

func writeFrames(ng *pcapgo.NgWriter, frames []Frame) error {
	for _, f := range frames {
		ci := gopacket.CaptureInfo{Timestamp: f.Time, CaptureLength: len(f.Data), Length: len(f.Data), InterfaceIndex: f.end}
		if err := ng.WritePacket(ci, f.Data); err != nil {
			return err
		}
	}
	return ng.Flush()
}

// fullWriter makes a short write an error, whatever the writer says.
type fullWriter struct{ w io.Writer }

func (f fullWriter) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}
