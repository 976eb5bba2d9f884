package traffic

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

type tokenKind int

const (
	tokEnd tokenKind = iota
	tokName
	tokNumber
	tokString
	tokPunct
)

// token is a word of an expression; pos is its byte offset.
type token struct {
	kind tokenKind
	pos  int
	text string
	num  uint64
}

func (t token) is(c byte) bool { return t.kind == tokPunct && t.text[0] == c }

func (t token) String() string {
	switch t.kind {
	case tokEnd:
		return "the end of the expression"
	case tokNumber:
		return "the number " + t.text
	case tokString:
		return fmt.Sprintf("the text %.40q", t.text)
	}
	return fmt.Sprintf("%.40q", t.text)
}

type lexer struct {
	src string
	pos int
}

func (l *lexer) peek() (token, error) {
	at := *l
	return at.next()
}

func isNameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func (l *lexer) next() (token, error) {
	for l.pos < len(l.src) && strings.IndexByte(" \t\r\n\\", l.src[l.pos]) >= 0 {
		l.pos++
	}
	t := token{pos: l.pos}
	if l.pos == len(l.src) {
		return t, nil
	}
	switch c := l.src[l.pos]; {
	case c == '"' || c == '\'':
		return l.quoted(t, false)
	case (c == 'b' || c == 'B') && l.pos+1 < len(l.src) && (l.src[l.pos+1] == '"' || l.src[l.pos+1] == '\''):
		l.pos++
		return l.quoted(t, true)
	case isNameByte(c):
		for l.pos < len(l.src) && isNameByte(l.src[l.pos]) {
			l.pos++
		}
		t.text = l.src[t.pos:l.pos]
		if c > '9' || c < '0' {
			t.kind = tokName
			return t, nil
		}
		t.kind = tokNumber
		var err error
		if t.num, err = strconv.ParseUint(t.text, 0, 64); err != nil || len(t.text) > 1 && c == '0' && isDigit(t.text[1]) {
			return t, failf(t.pos, "expected a number such as 64 or 0x86dd, up to 64 bits, found %.40q", t.text)
		}
		return t, nil
	case strings.IndexByte("/()[],=*+", c) >= 0:
		l.pos++
		t.kind, t.text = tokPunct, string(c)
		return t, nil
	}
	r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
	return t, failf(t.pos, "unexpected character %q", r)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'a': '\a', 'b': '\b', 'f': '\f', 'v': '\v', '0': 0, '\\': '\\', '\'': '\'', '"': '"'}

// quoted reads a Python string or bytes literal, whose quote is at l.pos.
func (l *lexer) quoted(t token, binary bool) (token, error) {
	quote := l.src[l.pos]
	var out strings.Builder
	for i := l.pos + 1; i < len(l.src); i++ {
		switch c := l.src[i]; {
		case c == quote:
			l.pos = i + 1
			t.kind, t.text = tokString, out.String()
			return t, nil
		case c == '\n':
			return t, failf(t.pos, "text is not closed on its line: expected another %c", quote)
		case c >= 0x80 && binary:
			return t, failf(i, "expected ASCII or \\x escapes in b\"...\"")
		case c != '\\':
			out.WriteByte(c)
		case i+1 == len(l.src):
		case l.src[i+1] == '0' && i+2 < len(l.src) && isDigit(l.src[i+2]):
			return t, failf(i, "octal escape: write the byte as \\x..")
		case l.src[i+1] == 'x':
			if i+4 > len(l.src) {
				return t, failf(i, "expected two hexadecimal digits after \\x")
			}
			n, err := strconv.ParseUint(l.src[i+2:i+4], 16, 8)
			if err != nil {
				return t, failf(i, "expected two hexadecimal digits after \\x")
			}
			out.WriteByte(byte(n))
			i += 3
		default:
			e, ok := escapes[l.src[i+1]]
			if !ok {
				return t, failf(i, "unknown escape \\%c: write the byte as \\x..", l.src[i+1])
			}
			out.WriteByte(e)
			i++
		}
	}
	return t, failf(t.pos, "text is not closed: expected another %c", quote)
}
