package tune

// Thin picks at most MaxStates of n states for an axis: evenly, the lowest, the highest and the one found among them. It
// returns their indices, ascending; all of them if there are no more than an axis may have.
func Thin(n, found int) []int {
	keep := make([]int, 0, min(n, MaxStates))
	if n <= MaxStates {
		for i := range n {
			keep = append(keep, i)
		}
		return keep
	}
	near := 0
	for i := range MaxStates {
		s := (2*i*(n-1) + MaxStates - 1) / (2 * (MaxStates - 1))
		keep = append(keep, s)
		if i > 0 && i < MaxStates-1 && abs(s-found) < abs(keep[near]-found) {
			near = i
		}
	}
	if found != keep[0] && found != keep[MaxStates-1] && found >= 0 && found < n {
		keep[max(1, near)] = found
	}
	return keep
}

func abs(i int) int {
	if i < 0 {
		return -i
	}
	return i
}
