package sweep

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"seg6lab/lab/probe"
)

// columns of the CSV file. Sizes and offsets are in bytes; a list has a space
// between its values, one for each call of pskb_expand_head. What was not seen is
// empty.
var columns = []string{
	"mode", "segments", "mac_len", "headroom", "clone", "verdict",
	"calls", "by", "nhead", "copied", "mac_offset", "network_offset",
	"model_calls", "model_by", "model_nhead", "model_copied", "model_mac_offset", "model_network_offset",
	"why",
}

// WriteCSV writes a row for every point, after a row that names the columns.
func (r *Report) WriteCSV(out io.Writer) error {
	w := csv.NewWriter(out)
	if err := w.Write(columns); err != nil {
		return err
	}
	for _, x := range r.Results {
		row := []string{string(x.Mode), strconv.Itoa(x.Segments), strconv.Itoa(x.MacLen), strconv.Itoa(x.Headroom), string(x.Clone), string(x.Verdict)}
		if x.Got != nil {
			row = append(row, x.Got.fields()...)
		} else {
			row = append(row, make([]string, 6)...)
		}
		row = append(row, x.Want.fields()...)
		if err := w.Write(append(row, x.Why)); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func (s *State) fields() []string {
	var by, nhead, copied []string
	for _, c := range s.Calls {
		by = append(by, string(c.By))
		nhead = append(nhead, number(c.NHead))
		copied = append(copied, number(c.Copied))
	}
	return []string{
		strconv.Itoa(len(s.Calls)), strings.Join(by, " "), strings.Join(nhead, " "), strings.Join(copied, " "),
		number(s.Mac), number(s.Network),
	}
}

func number(n int) string {
	if n == probe.Unknown {
		return ""
	}
	return strconv.Itoa(n)
}
