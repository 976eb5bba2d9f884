package seg6

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// list joins the names for an error message, leaving out empty ones.
func list(names []string) string {
	var out []string
	for _, n := range names {
		if n != "" {
			out = append(out, n)
		}
	}
	return strings.Join(out, ", ")
}

// tableName is iproute2's name of a routing table, without the names that a
// machine's rt_tables may add.
func tableName(table uint32) string {
	switch table {
	case unix.RT_TABLE_DEFAULT:
		return "default"
	case unix.RT_TABLE_MAIN:
		return "main"
	case unix.RT_TABLE_LOCAL:
		return "local"
	}
	return strconv.FormatUint(uint64(table), 10)
}

// unknownIf is how iproute2 prints the index of an interface that it cannot
// find (ll_idx_n2a).
func unknownIf(index uint32) string { return fmt.Sprintf("if%d", index) }
