package strictyaml

import (
	"fmt"
	"strings"
)

// Nearest gives the word of words that is most like word, or "" when none is
// near enough to be what was meant. Case does not count.
func Nearest(word string, words []string) string {
	best, at := "", max(2, len(word)/3)+1
	for _, w := range words {
		if d := distance(strings.ToLower(word), strings.ToLower(w)); d < at && d < max(len(w), len(word)) {
			best, at = w, d
		}
	}
	return best
}

// Suggest gives `; did you mean "x"?` for the nearest of words, and without a
// near one the words to choose from.
func Suggest(word string, words []string) string {
	if near := Nearest(word, words); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if len(words) == 0 {
		return ""
	}
	return "; expected " + OneOf(words)
}

// OneOf lists words: "a, b or c".
func OneOf(words []string) string {
	const most = 40
	if len(words) > most {
		return strings.Join(words[:most], ", ") + ", ..."
	}
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// distance is the edit distance of two words: insertions, deletions,
// substitutions and swaps of neighbours count 1 each.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
