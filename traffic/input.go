package traffic

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// Limits of what Frames reads.
const (
	maxInputFile   = 64 << 20
	maxInputFrames = 100_000
)

// Where frames may come from, besides an expression.
const (
	hexPrefix  = "hex:"
	pcapPrefix = "pcap:"
)

// IsFrames reports whether s names frames, for Frames, rather than being a packet expression.
func IsFrames(s string) bool {
	return strings.HasPrefix(s, hexPrefix) || strings.HasPrefix(s, pcapPrefix)
}

// Frames returns the Ethernet frames that s names:
//
//	hex:020000000002 0200...  one frame in hexadecimal, spaces allowed
//	hex:@file                 a frame a line; empty lines and those that begin with # do not count
//	pcap:file                 every frame of a pcap or pcapng file
//	pcap:file#3               its third
//
// A relative file name is taken from dir.
func Frames(s, dir string) ([][]byte, error) {
	var frames [][]byte
	var err error
	switch digits, isHex := strings.CutPrefix(s, hexPrefix); {
	case isHex && strings.HasPrefix(digits, "@"):
		frames, err = hexFile(inDir(digits[1:], dir))
	case isHex:
		var frame []byte
		frame, err = hexFrame(digits)
		frames = [][]byte{frame}
	default:
		frames, err = pcapFrames(strings.TrimPrefix(s, pcapPrefix), dir)
	}
	if err != nil {
		return nil, err
	}
	for i, f := range frames {
		if len(f) < 14 || len(f) > MaxFrame {
			return nil, fmt.Errorf("%.40s: frame %d of %d bytes: expected 14 to %d", s, i+1, len(f), MaxFrame)
		}
	}
	return frames, nil
}

func inDir(name, dir string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

func hexFrame(s string) ([]byte, error) {
	digits := strings.Join(strings.Fields(s), "")
	if len(digits) > 2*MaxFrame {
		return nil, fmt.Errorf("hexadecimal frame of %d digits: at most %d are read", len(digits), 2*MaxFrame)
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return nil, fmt.Errorf("hexadecimal frame %.40q: %w", s, err)
	}
	return b, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxInputFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxInputFile {
		return nil, fmt.Errorf("%s: more than %d bytes", name, maxInputFile)
	}
	return b, nil
}

func hexFile(name string) ([][]byte, error) {
	b, err := readFile(name)
	if err != nil {
		return nil, err
	}
	var frames [][]byte
	number := 0
	for line := range strings.Lines(string(b)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if len(frames) == maxInputFrames {
			return nil, fmt.Errorf("%s: more than %d frames", name, maxInputFrames)
		}
		f, err := hexFrame(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		frames = append(frames, f)
	}
	if len(frames) == 0 {
		return nil, fmt.Errorf("%s: no frame in it", name)
	}
	return frames, nil
}

func pcapFrames(s, dir string) ([][]byte, error) {
	name, number, one := strings.Cut(s, "#")
	n := 0
	if one {
		var err error
		if n, err = strconv.Atoi(number); err != nil || n < 1 {
			return nil, fmt.Errorf("pcap:%s: expected the number of a frame, from 1, after #, found %q", s, number)
		}
	}
	name = inDir(name, dir)
	b, err := readFile(name)
	if err != nil {
		return nil, err
	}
	frames, err := readPcap(b)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(frames) == 0:
		return nil, fmt.Errorf("%s: no frame in it", name)
	case one && n > len(frames):
		return nil, fmt.Errorf("%s: no frame %d: it has %d", name, n, len(frames))
	case one:
		return frames[n-1 : n], nil
	}
	return frames, nil
}

type packetReader interface {
	ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	LinkType() layers.LinkType
}

// readPcap reads a pcap or pcapng file. The readers of the library are not
// proof against hostile files, so that a panic of theirs becomes an error.
func readPcap(b []byte) (frames [][]byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged pcap file: %v", r)
		}
	}()
	var r packetReader
	if len(b) >= 4 && string(b[:4]) == "\x0a\x0d\x0d\x0a" {
		r, err = pcapgo.NewNgReader(bytes.NewReader(b), pcapgo.DefaultNgReaderOptions)
	} else {
		r, err = pcapgo.NewReader(bytes.NewReader(b))
	}
	if err != nil {
		return nil, fmt.Errorf("not a pcap or pcapng file: %w", err)
	}
	if r.LinkType() != layers.LinkTypeEthernet {
		return nil, fmt.Errorf("link type is %v, expected Ethernet", r.LinkType())
	}
	for {
		data, ci, err := r.ReadPacketData()
		switch {
		case errors.Is(err, io.EOF) && ci.CaptureLength == 0: // else its header was the last
			return frames, nil
		case err != nil:
			return nil, fmt.Errorf("frame %d: %w", len(frames)+1, err)
		case len(frames) == maxInputFrames:
			return nil, fmt.Errorf("more than %d frames", maxInputFrames)
		}
		frames = append(frames, data)
	}
}

// FramesFile is the file that Frames would read for s, "" for none.
func FramesFile(s, dir string) string {
	if name, ok := strings.CutPrefix(s, hexPrefix+"@"); ok {
		return inDir(name, dir)
	}
	if name, ok := strings.CutPrefix(s, pcapPrefix); ok {
		name, _, _ = strings.Cut(name, "#")
		return inDir(name, dir)
	}
	return ""
}
