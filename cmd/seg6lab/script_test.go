package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"rsc.io/script"
	"rsc.io/script/scripttest"
)

// TestScripts runs the scripts in testdata/script, which show what the command
// does, says and returns. After each nothing of a lab may be left.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	engine := script.NewEngine()
	engine.Cmds = scripttest.DefaultCmds()
	engine.Conds = scripttest.DefaultConds()
	engine.Conds["root"] = script.BoolCondition("the tests run as root", os.Geteuid() == 0)
	engine.Cmds["exit"] = exitCommand()
	engine.Cmds["json"] = jsonCommand()
	env := environment(t)

	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			work := t.TempDir()
			s, err := script.NewState(context.Background(), work, append(env, "WORK="+work, "TMPDIR="+t.TempDir()))
			if err == nil {
				err = s.ExtractFiles(archive)
			}
			if err != nil {
				t.Fatal(err)
			}
			scripttest.Run(t, engine, s, file, bytes.NewReader(archive.Comment))
			nothingLeft(t)
		})
	}
}

// exitCommand runs a program that must end with an exit code.
func exitCommand() script.Cmd {
	return script.Command(script.CmdUsage{
		Summary: "run a program and check its exit code",
		Args:    "code program [args...]",
	}, func(s *script.State, args ...string) (script.WaitFunc, error) {
		if len(args) < 2 {
			return nil, script.ErrUsage
		}
		want, err := strconv.Atoi(args[0])
		if err != nil {
			return nil, script.ErrUsage
		}
		path, err := lookPath(s, args[1])
		if err != nil {
			return nil, err
		}
		var stdout, stderr strings.Builder
		cmd := exec.CommandContext(s.Context(), path, args[2:]...)
		cmd.Args[0], cmd.Dir, cmd.Env = args[1], s.Getwd(), s.Environ()
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err = cmd.Run()
		return func(*script.State) (string, string, error) {
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return stdout.String(), stderr.String(), err
			}
			if code := cmd.ProcessState.ExitCode(); code != want {
				return stdout.String(), stderr.String(), fmt.Errorf("exit code %d (%v), want %d", code, cmd.ProcessState, want)
			}
			return stdout.String(), stderr.String(), nil
		}, nil
	})
}

// lookPath finds a program in the script's PATH, not the test's.
func lookPath(s *script.State, program string) (string, error) {
	path, _ := s.LookupEnv("PATH")
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, program)
		if info, err := os.Stat(full); err == nil && !info.IsDir() {
			return full, nil
		}
	}
	return "", fmt.Errorf("%s: %w", program, exec.ErrNotFound)
}

// jsonCommand looks into JSON on standard output.
func jsonCommand() script.Cmd {
	return script.Command(script.CmdUsage{
		Summary: "check a value of the JSON in the stdout buffer",
		Args:    "path want",
		Detail:  []string{"The path has keys and indexes with dots between, 0.Name; want is as JSON writes it, without spaces."},
	}, func(s *script.State, args ...string) (script.WaitFunc, error) {
		if len(args) != 2 {
			return nil, script.ErrUsage
		}
		var v any
		if err := json.Unmarshal([]byte(s.Stdout()), &v); err != nil {
			return nil, fmt.Errorf("standard output: %w", err)
		}
		for key := range strings.SplitSeq(args[0], ".") {
			switch in := v.(type) {
			case map[string]any:
				v = in[key]
			case []any:
				i, err := strconv.Atoi(key)
				if err != nil || i >= len(in) {
					return nil, fmt.Errorf("%s: a list of %d has no %s", args[0], len(in), key)
				}
				v = in[i]
			default:
				return nil, fmt.Errorf("%s: there is no %s", args[0], key)
			}
		}
		got, err := json.Marshal(v)
		if err == nil && string(got) != args[1] {
			err = fmt.Errorf("%s is %s, want %s", args[0], got, args[1])
		}
		return nil, err
	})
}
