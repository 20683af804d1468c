package profiles

import (
	"context"
	"strings"
	"testing"

	"github.com/qunerd/quner/internal/levers"
)

// lever is one whose name and choices a test says; nothing here moves it.
type lever struct {
	name    string
	choices []levers.Value
}

func (l lever) Name() string { return l.name }

func (l lever) Kind() levers.Kind {
	switch prefix, _, _ := strings.Cut(l.name, "/"); prefix {
	case "cpufreq":
		return levers.Governor
	case "epp":
		return levers.EnergyPreference
	}
	return levers.GPUCap
}
func (l lever) Span() levers.Span                           { return levers.Span{Choices: l.choices} }
func (l lever) Get(context.Context) (levers.Value, error)   { return "", levers.ErrUnknown }
func (l lever) Set(context.Context, levers.Value) error     { return levers.ErrUnknown }
func (l lever) Restore(context.Context, levers.Value) error { return levers.ErrUnknown }
func (l lever) Same(a, b levers.Value) bool                 { return a == b }

func TestDefault(t *testing.T) {
	all := []levers.Value{"conservative", "ondemand", "userspace", "powersave", "performance", "schedutil"}
	two := []levers.Value{"performance", "powersave"}
	active, acpi := Driver{Name: "intel_pstate", Mode: "active"}, Driver{Name: "acpi-cpufreq"}
	for name, c := range map[string]struct {
		profile Profile
		offered []levers.Value
		found   levers.Value
		c       Circumstances
		want    levers.Value // "": as found
	}{
		"idle, active pstate":              {Idle, two, "performance", Circumstances{Driver: active}, "powersave"},
		"idle, active pstate, as it was":   {Idle, two, "powersave", Circumstances{Driver: active}, ""},
		"idle, schedutil offered":          {Idle, all, "performance", Circumstances{Driver: acpi}, "schedutil"},
		"idle, only ondemand":              {Idle, all[:5], "performance", Circumstances{Driver: acpi}, "ondemand"},
		"idle, powersave pins the lowest":  {Idle, two, "performance", Circumstances{Driver: acpi}, ""},
		"idle, never faster than found":    {Idle, all, "powersave", Circumstances{Driver: acpi}, ""},
		"idle, conservative is slower":     {Idle, all, "conservative", Circumstances{Driver: acpi}, ""},
		"idle, ondemand is as good":        {Idle, all, "ondemand", Circumstances{Driver: acpi}, "schedutil"},
		"idle, a frequency set by hand":    {Idle, all, "userspace", Circumstances{Driver: acpi}, ""},
		"idle, not known what was found":   {Idle, all, "", Circumstances{Driver: acpi}, "schedutil"},
		"the same on battery":              {Idle, all, "", Circumstances{Driver: acpi, Source: Battery}, ""},
		"idle on battery":                  {Idle, all, "performance", Circumstances{Driver: acpi, Source: Battery}, "schedutil"},
		"training":                         {Training, all, "powersave", Circumstances{Driver: acpi, Training: AsFound}, ""},
		"training raised":                  {Training, two, "powersave", Circumstances{Driver: active, Training: AtFullThrottle}, "performance"},
		"training raised, not offered":     {Training, all[:3], "ondemand", Circumstances{Driver: acpi, Training: AtFullThrottle}, ""},
		"training raised, on battery":      {Training, two, "powersave", Circumstances{Driver: active, Training: AtFullThrottle, Source: Battery}, ""},
		"before the first sample, nothing": {Unknown, all, "performance", Circumstances{Driver: acpi, Training: AtFullThrottle}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.c.Found = map[string]levers.Value{}
			if c.found != "" {
				c.c.Found["cpufreq/policy0"] = c.found
			}
			bank := []levers.Lever{lever{"cpufreq/policy0", c.offered}, lever{"nvml/GPU-1", nil}}
			got := Default(c.profile, bank, c.c)
			want := levers.Point{}
			if c.want != "" {
				want = levers.NewPoint(levers.Setting{Lever: "cpufreq/policy0", Value: c.want})
			}
			if got.Key() != want.Key() {
				t.Errorf("%q, want %q", got.Key(), want.Key())
			}
		})
	}
}

func TestDefaultPreference(t *testing.T) {
	all := []levers.Value{"performance", "balance_performance", "balance_power", "power"}
	active := Driver{Name: "amd-pstate-epp", Mode: "active"}
	for name, c := range map[string]struct {
		profile Profile
		offered []levers.Value
		found   levers.Value
		c       Circumstances
		want    levers.Value // "": as found
	}{
		"idle":                             {Idle, all, "performance", Circumstances{Driver: active}, "balance_power"},
		"idle, between":                    {Idle, all, "balance_performance", Circumstances{Driver: active}, "balance_power"},
		"idle, as it was":                  {Idle, all, "balance_power", Circumstances{Driver: active}, ""},
		"idle, never faster than found":    {Idle, all, "power", Circumstances{Driver: active}, ""},
		"idle, a fast number":              {Idle, all, "100", Circumstances{Driver: active}, "balance_power"},
		"idle, a slow number":              {Idle, all, "200", Circumstances{Driver: active}, ""},
		"idle, not known what was found":   {Idle, all, "", Circumstances{Driver: active}, ""},
		"idle, not offered":                {Idle, all[:2], "performance", Circumstances{Driver: active}, ""},
		"idle, another driver":             {Idle, all, "performance", Circumstances{Driver: Driver{Name: "acpi-cpufreq"}}, ""},
		"idle on battery":                  {Idle, all, "performance", Circumstances{Driver: active, Source: Battery}, "balance_power"},
		"training":                         {Training, all, "power", Circumstances{Driver: active, Training: AtFullThrottle}, ""},
		"before the first sample, nothing": {Unknown, all, "performance", Circumstances{Driver: active}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.c.Found = map[string]levers.Value{"epp/policy0": c.found, "nvml/GPU-1": "performance"}
			got := Default(c.profile, []levers.Lever{lever{"epp/policy0", c.offered}, lever{"nvml/GPU-1", all}}, c.c)
			want := levers.Point{}
			if c.want != "" {
				want = levers.NewPoint(levers.Setting{Lever: "epp/policy0", Value: c.want})
			}
			if got.Key() != want.Key() {
				t.Errorf("%q, want %q", got.Key(), want.Key())
			}
		})
	}
}
