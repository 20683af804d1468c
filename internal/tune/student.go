package tune

import "math"

// tQuantile is the p-quantile of Student's t distribution with df degrees of freedom: the value a t variate stays below
// with probability p. It is +Inf for df < 1, so that an interval from a single window is honest about knowing nothing.
func tQuantile(p, df float64) float64 {
	switch {
	case math.IsNaN(p) || math.IsNaN(df):
		return math.NaN()
	case p == 0.5:
		return 0
	case df < 1 || p >= 1:
		return math.Inf(1)
	case p <= 0:
		return math.Inf(-1)
	case p < 0.5:
		return -tQuantile(1-p, df)
	}
	// Newton from the left: the tail is convex and falls, so that each step comes nearer and none goes too far.
	t := 0.0
	for range 200 {
		step := (tUpper(t, df) - (1 - p)) / tDensity(t, df)
		t += step
		if step <= 1e-12*t {
			break
		}
	}
	return t
}

// tDensity is the density of Student's t distribution.
func tDensity(t, df float64) float64 {
	a, _ := math.Lgamma((df + 1) / 2)
	b, _ := math.Lgamma(df / 2)
	return math.Exp(a-b-(df+1)/2*math.Log1p(t*t/df)) / math.Sqrt(df*math.Pi)
}

// tUpper is the probability that a t variate with df degrees of freedom exceeds t ≥ 0.
func tUpper(t, df float64) float64 {
	if t == 0 {
		return 0.5
	}
	return 0.5 * betaInc(df/2, 0.5, df/(df+t*t))
}

// betaInc is the regularised incomplete beta function I_x(a, b).
func betaInc(a, b, x float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log1p(-x))
	// The continued fraction converges fast only on its own side of the mean.
	if x < (a+1)/(a+b+2) {
		return front * betaFraction(a, b, x) / a
	}
	return 1 - front*betaFraction(b, a, 1-x)/b
}

// betaFraction is the continued fraction of the incomplete beta function, evaluated by the modified Lentz method.
func betaFraction(a, b, x float64) float64 {
	const tiny, eps = 1e-300, 1e-15
	away := func(v float64) float64 { // from zero
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/away(1-(a+b)*x/(a+1))
	f := d
	for m := 1.0; m < 500; m++ {
		for _, k := range [2]float64{
			m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)),
			-(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1)),
		} {
			d = 1 / away(1+k*d)
			c = away(1 + k/c)
			f *= c * d
		}
		if math.Abs(c*d-1) < eps {
			break
		}
	}
	return f
}
