package traffic

import (
	"fmt"
	"strings"
)

// didYouMean names the word nearest to a wrong one, or the words there are when
// none is near and they are few.
func didYouMean(word string, words []string) string {
	best, at := "", len(word)/2+1
	for _, w := range words {
		if d := distance(strings.ToLower(word), strings.ToLower(w)); d < at {
			best, at = w, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf(": did you mean %s?", best)
	case len(words) <= 20:
		return ": expected one of " + strings.Join(words, ", ")
	}
	return ""
}

// distance is the number of single-character edits between two words.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
