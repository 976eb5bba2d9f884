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

// distance is the number of edits between two words: a character more, fewer or another, or two
// neighbours exchanged. A word that is part of the other is at distance 1.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	if len(a) > 2 && strings.Contains(b, a) && a != b {
		return 1
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(a)][len(b)]
}
