package levers

// File returns the path of the file that a lever is, and "" for one that is none.
func File(l Lever) string {
	if a, ok := l.(addressed); ok {
		return a.address().Path
	}
	return ""
}
