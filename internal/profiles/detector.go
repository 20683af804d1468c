package profiles

// Thresholds say from where on a machine counts as training, and how many ticks must agree. The zero value of a field
// takes the default named beside it.
type Thresholds struct {
	GPU   float64 // 0.30: utilisation of any board above this is training
	Load  float64 // 0.60: a 1-minute load above this × online CPUs is training
	Ticks int     // 3: consecutive agreeing ticks before a switch
}

// Detector turns samples into a profile. A switch needs a number of consecutive agreeing samples, both ways; the first
// sample decides alone, since a daemon that restarts under load must not throttle it first. It belongs to one goroutine.
type Detector struct {
	limits   Thresholds
	profile  Profile
	proposes Profile
	agreeing int
}

// NewDetector returns a detector that has seen nothing: its profile is Unknown.
func NewDetector(t Thresholds) *Detector { return &Detector{limits: t.withDefaults()} }

func (t Thresholds) withDefaults() Thresholds {
	if t.GPU == 0 {
		t.GPU = 0.30
	}
	if t.Load == 0 {
		t.Load = 0.60
	}
	if t.Ticks == 0 {
		t.Ticks = 3
	}
	return t
}

// Adjust takes other thresholds from the next sample on. The profile stays, and so do the samples that agree.
func (d *Detector) Adjust(t Thresholds) {
	d.limits = t.withDefaults()
	d.agreeing = min(d.agreeing, d.limits.Ticks)
}

// Add takes one sample and returns the profile now, and whether this sample changed it. A sample that shows no training
// while a signal could not be read abstains: it neither agrees nor breaks a row of agreeing ones.
func (d *Detector) Add(s Sample) (p Profile, changed bool) {
	vote := d.Judge(s)
	if vote == Unknown {
		return d.profile, false
	}
	if vote != d.proposes {
		d.proposes, d.agreeing = vote, 0
	}
	d.agreeing = min(d.agreeing+1, d.limits.Ticks)
	if d.profile == vote || (d.profile != Unknown && d.agreeing < d.limits.Ticks) {
		return d.profile, false
	}
	d.profile = vote
	return vote, true
}

// Judge is what one sample speaks for, with no memory; Unknown if it shows no training and a signal could not be read.
func (d *Detector) Judge(s Sample) Profile {
	switch {
	case s.GPUUtilisation > d.limits.GPU:
		return Training
	case s.CPUs > 0 && s.Load1 > d.limits.Load*float64(s.CPUs):
		return Training
	case len(s.Unread) > 0:
		return Unknown
	}
	return Idle
}

// Profile is what the samples so far came to; Unknown before the first.
func (d *Detector) Profile() Profile { return d.profile }

// Proposes is what the newest sample speaks for.
func (d *Detector) Proposes() Profile { return d.proposes }

// Agreeing is how many consecutive samples have proposed that, counted up to Needed.
func (d *Detector) Agreeing() int { return d.agreeing }

// Needed is how many consecutive samples make a switch.
func (d *Detector) Needed() int { return d.limits.Ticks }

// Reset starts the counting over and keeps the profile: samples from before a suspend say nothing about after it.
func (d *Detector) Reset() { d.proposes, d.agreeing = Unknown, 0 }

// Assume takes a profile as given, until a row of agreeing samples says otherwise.
func (d *Detector) Assume(p Profile) { d.profile, d.proposes, d.agreeing = p, Unknown, 0 }
