package specs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seg6lab/specs"
)

const fileCase = `case: beside
topology: p2p
files: [%s]
steps:
  - run: {node: a, command: "cat words.txt && ls", output: "from beside\nwords.txt\n"}
`

func writeFileCase(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"case.yaml": strings.Replace(fileCase, "%s", name, 1),
		"words.txt": "from beside\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "case.yaml")
}

func TestFilesBesideTheCase(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	cases, err := specs.LoadFile(writeFileCase(t, "words.txt"))
	if err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	if r := specs.Run(t.Context(), cases[0], specs.Options{}); r.Verdict != specs.Held {
		t.Errorf("%s: %s", r.Verdict, r.Failure)
	}
	if left, _ := filepath.Glob(filepath.Join(temporary, "*")); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}

func TestFilesRefused(t *testing.T) {
	for name, want := range map[string]string{
		"../words.txt": "expected the name of a file beside the case file",
		"/etc/passwd":  "expected the name of a file beside the case file",
		"..":           "expected the name of a file beside the case file",
		"none.txt":     "no such file",
	} {
		_, err := specs.LoadFile(writeFileCase(t, name))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "case.yaml:3:9: ") {
			t.Errorf("%s: error %v, expected %q at line 3, column 9", name, err, want)
		}
	}
}
