package levers

// FileOf returns the path of the file behind a lever, "" for one that is none.
func FileOf(l Lever) string {
	if a, ok := l.(addressed); ok {
		return a.address().Path
	}
	return ""
}
