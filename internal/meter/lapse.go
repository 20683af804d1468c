package meter

// lapse gives up the base: what was drawn since is not known and never will be. The next reading is a first one, and the
// time up to it a gap.
func (t *timeline) lapse() {
	if !t.counter.hasBase {
		return
	}
	t.blind = t.counter.base.at
	t.counter.abandon()
	t.clear()
}
