package patch

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"mime/quotedprintable"
	"strings"
	"testing"
)

// diffOf changes one line of a file. The blank context line and the = are what
// transport encodings and mail programs touch.
func diffOf(file, old, new string) string {
	return "diff --git a/" + file + " b/" + file + "\nindex 1111111..2222222 100644\n--- a/" + file + "\n+++ b/" + file + "\n" +
		"@@ -1,4 +1,4 @@ int f(void)\n one = 1;\n \n-" + old + "\n+" + new + "\n \tfour\n"
}

// mailOf is a mail as git send-email sends it.
func mailOf(subject, headers, body string) string {
	return "From: A Developer <a@example.org>\nDate: Mon, 16 Sep 2026 10:00:00 +0200\nSubject: " + subject + "\n" + headers + "\n" + body
}

const fromGit = "From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\n"

func TestRead(t *testing.T) {
	diff := diffOf("net/f.c", "two", "2 == 2")
	text := "Why it is done.\n\nSigned-off-by: A Developer <a@example.org>\n---\nv2: changed.\n\n net/f.c | 2 +-\n 1 file changed\n\n" + diff + "-- \n2.39.2\n\n"
	var qp, zip bytes.Buffer
	w := quotedprintable.NewWriter(&qp)
	w.Write([]byte(text))
	w.Close()
	z := gzip.NewWriter(&zip)
	z.Write([]byte(fromGit + mailOf("[PATCH] one", "", text)))
	z.Close()
	b64 := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(text, "\n", "\r\n")))
	folded := ""
	for len(b64) > 76 {
		folded, b64 = folded+b64[:76]+"\n", b64[76:]
	}
	folded += b64 + "\n"
	multipart := "--b\nContent-Type: text/plain\n\nSee the attachment.\n--b\nContent-Type: text/html\n\n<pre>" + diff + "</pre>\n" +
		"--b\nContent-Type: text/x-patch\nContent-Transfer-Encoding: base64\n\n" + folded + "--b--\n"

	for _, tt := range []struct {
		name, text string
		want       []string // subject: the line that is added
	}{
		{"a plain diff", diff, []string{": 2 == 2"}},
		{"text around a diff", "This is what I have:\n\n" + diff + "\nIt works for me.\n", []string{": 2 == 2"}},
		{"git format-patch", fromGit + mailOf("[PATCH net] one", "", text), []string{"[PATCH net] one: 2 == 2"}},
		{"git show", "commit 0123\nAuthor: A Developer <a@example.org>\nDate: today\n\n    one\n\n" + diff, []string{": 2 == 2"}},
		{"a mail", "Return-Path: <a@example.org>\nReceived: from a\n\tby b\n" + mailOf("[PATCH] one\n two", "", text), []string{"[PATCH] one two: 2 == 2"}},
		{"an encoded subject", mailOf("=?utf-8?q?=5BPATCH=5D_f=C3=BCnf?=", "", text), []string{"[PATCH] fünf: 2 == 2"}},
		{"CR LF", strings.ReplaceAll(mailOf("one", "", text), "\n", "\r\n"), []string{"one: 2 == 2"}},
		{"quoted-printable", mailOf("one", "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n", qp.String()), []string{"one: 2 == 2"}},
		{"base64", mailOf("one", "Content-Transfer-Encoding: base64\n", folded), []string{"one: 2 == 2"}},
		{"an attachment beside HTML", mailOf("one", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n", multipart), []string{"one: 2 == 2"}},
		{"gzip", zip.String(), []string{"[PATCH] one: 2 == 2"}},
		{"a series out of order, with cover letter and answers",
			fromGit + mailOf("[PATCH v2 net-next 0/2] series", "", "Two changes.\n\n net/f.c | 2 +-\n") +
				fromGit + mailOf("[PATCH v2 net-next 2/2] second", "", diffOf("net/f.c", "2", "3")) +
				fromGit + mailOf("Re: [PATCH v2 net-next 2/2] second", "", "> -2\n> +3\n\nRather:\n\n"+diffOf("net/f.c", "2", "4")) +
				fromGit + mailOf("Re: [PATCH v2 net-next 2/2] second", "", "I mean here:\n@@ -1,4 +1,4 @@\n broken\n") +
				fromGit + mailOf("[PATCH v2 net-next 1/2] first", "", diffOf("net/f.c", "two", "2")),
			[]string{"[PATCH v2 net-next 1/2] first: 2", "[PATCH v2 net-next 2/2] second: 3"}},
		{"an answer alone", mailOf("Re: it crashes", "", "Can you try this?\n\n"+diff), []string{"Re: it crashes: 2 == 2"}},
		{"From in the text", fromGit + mailOf("one", "", "From here on it is wrong.\n---\n"+diff), []string{"one: 2 == 2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			patches, err := Read("p.mbox", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range patches {
				for _, f := range p.Files {
					if f.NewName != "net/f.c" {
						t.Errorf("file %s", f.NewName)
					}
					for _, h := range f.TextFragments {
						for _, l := range h.Lines {
							if l.New() && !l.Old() {
								got = append(got, fmt.Sprintf("%s: %s", p.Subject, strings.TrimSpace(l.Line)))
							}
						}
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestReadMistakes(t *testing.T) {
	short := strings.Replace(diffOf("f.c", "a", "b"), " \tfour\n", "", 1)
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "p: there is no diff in it"},
		{"a cover letter alone", mailOf("[PATCH 0/1] x", "", "Nothing.\n"), "p: there is no diff in it"},
		{"a hunk cut short", fromGit + mailOf("x", "", short), "p:1"},
		// A line of the mailbox, three of the header and a blank one, then line 8 of the diff.
		{"a line wrapped", fromGit + mailOf("x", "", strings.Replace(diffOf("f.c", "a", "b"), "-a", "a", 1)), "p:13: invalid line operation"},
		{"a hunk without a file", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "p:1: "},
		{"no gzip", "\x1f\x8bno", "p: "},
	} {
		_, err := Read("p", []byte(tt.text))
		if e := (*Error)(nil); !errors.As(err, &e) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(fromGit + mailOf("[PATCH 1/1] x", "Content-Transfer-Encoding: base64\n", "YQ==\n")))
	f.Add([]byte(diffOf("f.c", "a", "b")))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = Read("p", b) })
}
