// Package patch reads patches as mailing lists and git hand them out and applies
// them to files in memory. It writes nothing.
package patch

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Patch is one change: one mail, or a plain diff.
type Patch struct {
	// Name is the file that the patch was read from.
	Name string
	// Subject is that of the mail; empty for a plain diff.
	Subject string
	// Files are what the patch changes, in its order.
	Files []*gitdiff.File
}

// String names the patch for people.
func (p *Patch) String() string {
	if p.Subject == "" {
		return p.Name
	}
	return fmt.Sprintf("%s (%s)", p.Name, p.Subject)
}

// Error is a mistake in the text of a patch.
type Error struct {
	// Name is the file, Line the line in it from 1, 0 if it is in no line. Within a
	// mail that was encoded for transport the line is that of the decoded text.
	Name string
	Line int
	Err  error
}

// Error is file:line: what is wrong.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.Name, e.Line, e.Err)
}

// Unwrap is what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Read reads what a file holds: a plain diff, the output of git format-patch, a
// mail with text around the diff, or a mailbox with several, compressed by gzip
// or not. Mails without a diff, such as cover letters, are left out, and so are
// answers unless there is nothing else. A series is put into the order of its
// numbers.
func Read(name string, text []byte) ([]*Patch, error) {
	if bytes.HasPrefix(text, []byte("\x1f\x8b")) {
		r, err := gzip.NewReader(bytes.NewReader(text))
		if err == nil {
			text, err = io.ReadAll(r)
		}
		if err != nil {
			return nil, &Error{name, 0, err}
		}
	}
	var all []message
	var inAnswer error
	for _, part := range splitMailbox(text) {
		m, err := readMessage(name, part)
		switch {
		case err != nil && m.answer:
			inAnswer = err // people answer with half a diff
		case err != nil:
			return nil, err
		case len(m.patch.Files) > 0:
			all = append(all, m)
		}
	}
	if slices.ContainsFunc(all, func(m message) bool { return !m.answer }) {
		all = slices.DeleteFunc(all, func(m message) bool { return m.answer })
	}
	slices.SortStableFunc(all, func(a, b message) int { return a.number - b.number })
	if len(all) == 0 && inAnswer != nil {
		return nil, inAnswer
	}
	if len(all) == 0 {
		return nil, &Error{name, 0, errors.New("there is no diff in it")}
	}
	patches := make([]*Patch, len(all))
	for i, m := range all {
		patches[i] = m.patch
	}
	return patches, nil
}

// message is a mail with a patch.
type message struct {
	patch  *Patch
	number int // in its series, 0 outside of one
	answer bool
}

// letter is a part of a mailbox, and the number of lines before it.
type letter struct {
	text  []byte
	lines int
}

// fromLine begins a mail in a mailbox: From, who, and a date (RFC 4155). git
// format-patch writes the commit for who, and a date that never changes.
var fromLine = regexp.MustCompile(`(?m)^From \S+.* [0-9]{1,2}:[0-9]{2}(:[0-9]{2})? .*[0-9]{4}`)

func splitMailbox(text []byte) (letters []letter) {
	starts := []int{0}
	for _, at := range fromLine.FindAllIndex(text, -1) {
		if at[0] > 0 {
			starts = append(starts, at[0])
		}
	}
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		letters = append(letters, letter{text[at:end], bytes.Count(text[:at], []byte("\n"))})
	}
	return letters
}

// header tells a mail from a plain diff with text before it.
var header = regexp.MustCompile(`(?i)^(From [^\n]*\r?\n)?((from|subject|date|message-id|received|return-path|mime-version|content-[a-z-]*|to|delivered-to|x-[a-z-]*|list-[a-z-]*|archived-at): )`)

var (
	inSeries = regexp.MustCompile(`\[[^]]*\b([0-9]+)/[0-9]+[^]]*\]`)
	answered = regexp.MustCompile(`(?i)^(re|aw|antw|sv)(\[[0-9]+\])?:`)
)

func readMessage(name string, l letter) (message, error) {
	m := message{patch: &Patch{Name: name}}
	if !header.Match(l.text) {
		return m, m.readDiff(l.text, l.lines)
	}
	text := l.text
	before := l.lines
	if bytes.HasPrefix(text, []byte("From ")) {
		_, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		before++
	}
	parsed, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		// A header that is no mail's: git and patch read the diff all the same.
		return m, m.readDiff(l.text, l.lines)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
	if err != nil {
		subject = parsed.Header.Get("Subject") // in a character set that Go has not
	}
	m.patch.Subject = strings.Join(strings.Fields(subject), " ")
	m.answer = answered.MatchString(m.patch.Subject)
	if n := inSeries.FindStringSubmatch(m.patch.Subject); n != nil {
		m.number, _ = strconv.Atoi(n[1]) // so many that they are no number stay in their place
	}
	body, err := io.ReadAll(parsed.Body)
	if err != nil {
		return m, &Error{name, 0, err}
	}
	before += bytes.Count(text[:len(text)-len(body)], []byte("\n"))
	decoded, err := decode(part(parsed.Header), bytes.NewReader(body))
	if err != nil {
		return m, &Error{name, before + 1, fmt.Errorf("mail %q: %w", m.patch.Subject, err)}
	}
	if !bytes.Equal(decoded, body) {
		before = 0
	}
	return m, m.readDiff(decoded, before)
}

// part is the header of a mail or of one of its parts.
type part map[string][]string

func (p part) get(key string) string { return mail.Header(p).Get(key) }

// decode undoes the encodings of a body, and puts the parts of one that has
// several one after the other.
func decode(h part, body io.Reader) ([]byte, error) {
	kind, params, err := mime.ParseMediaType(h.get("Content-Type"))
	if err != nil {
		kind = "text/plain" // none is named, or not as it should be
	}
	if strings.HasPrefix(kind, "multipart/") {
		var all []byte
		parts := multipart.NewReader(body, params["boundary"])
		for {
			p, err := parts.NextRawPart()
			if err == io.EOF {
				return all, nil
			}
			if err != nil {
				return nil, err
			}
			text, err := decode(part(p.Header), p)
			if err != nil {
				return nil, err
			}
			all = append(append(all, text...), '\n')
		}
	}
	if kind == "text/html" {
		return nil, nil // says the same as the plain text, without its spaces
	}
	switch strings.ToLower(strings.TrimSpace(h.get("Content-Transfer-Encoding"))) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	text, err := io.ReadAll(body)
	return unixLines(text), err
}

// unixLines undoes what mail systems do to the ends of lines: they end them with
// CR LF, the kernel's sources do not.
func unixLines(text []byte) []byte {
	if n := bytes.Count(text, []byte("\r\n")); n > 0 && n == bytes.Count(text, []byte("\n")) {
		return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	return text
}

// gitdiffLine is how gitdiff says where an error is.
var gitdiffLine = regexp.MustCompile(`^gitdiff: line ([0-9]+): `)

// readDiff reads the files of the patch out of text, before which the file has
// that many lines.
func (m *message) readDiff(text []byte, before int) error {
	files, _, err := gitdiff.Parse(bytes.NewReader(unixLines(text)))
	if err != nil {
		line, said := 0, err.Error()
		if at := gitdiffLine.FindStringSubmatch(said); at != nil {
			line, _ = strconv.Atoi(at[1])
			line, said = line+before, strings.TrimPrefix(said, at[0])
		}
		if strings.HasPrefix(said, "invalid line operation") {
			said += ": was the line wrapped by a mail program?"
		}
		return &Error{m.patch.Name, line, errors.New(said)}
	}
	m.patch.Files = files
	return nil
}
