package probe

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// bootZeroes tells whether the kernel was booted to zero what it allocates, for
// kernels whose symbols do not name the static key init_on_alloc. It cannot
// change afterwards.
var bootZeroes = sync.OnceValues(func() (yes, known bool) {
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return false, false
	}
	return zeroesBy(string(cmdline), kernelConfig())
})

// zeroesBy decides by the command line, or else by the kernel's configuration,
// which may be empty.
func zeroesBy(cmdline, config string) (yes, known bool) {
	for _, field := range strings.Fields(cmdline) {
		if v, ok := strings.CutPrefix(field, "init_on_alloc="); ok {
			// What kstrtobool takes for true.
			yes, known = strings.ContainsRune("1yYtT", rune((v + " ")[0])) || strings.EqualFold(v, "on"), true
		}
	}
	if known {
		return yes, true
	}
	for line := range strings.Lines(config) {
		switch strings.TrimSpace(line) {
		case "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y":
			return true, true
		case "# CONFIG_INIT_ON_ALLOC_DEFAULT_ON is not set":
			return false, true
		}
	}
	return false, false
}

func kernelConfig() string {
	if b, err := os.ReadFile("/proc/config.gz"); err == nil {
		if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
			if config, err := io.ReadAll(z); err == nil {
				return string(config)
			}
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	config, _ := os.ReadFile("/boot/config-" + unix.ByteSliceToString(u.Release[:]))
	return string(config)
}
