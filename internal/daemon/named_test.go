package daemon_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/profiles"
)

// What qunerctl shows of a lever is a name for it: a range, and the beginning of a board's UUID.
func TestLeversAreNamedAsTheyAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, stop := start(t, machine(t, "workstation"), config.Default())
		defer stop() //nolint:errcheck // nothing is moved
		name := func(typed string) (string, error) {
			names, _, err := d.SetLeverOwner(t.Context(), daemon.Caller{}, typed, profiles.OwnerQuner, true)
			return strings.Join(names, " "), err
		}
		for typed, want := range map[string]string{
			"cpufreq/policy0":     "cpufreq/policy0",
			"cpufreq/policy2-4":   "cpufreq/policy2 cpufreq/policy3 cpufreq/policy4",
			"rapl/package-0":      "rapl/package-0",
			"rapl-mmio/package-0": "rapl-mmio/package-0",
			"package":             "rapl/package-0 rapl-mmio/package-0",
		} {
			if got, err := name(typed); got != want || err != nil {
				t.Errorf("%s: %q, %v", typed, got, err)
			}
		}
		boards, err := name("gpu")
		if err != nil || !strings.HasPrefix(boards, "nvml/GPU-") {
			t.Fatal(boards, err)
		}
		short := boards[:len("nvml/GPU-01234567")]
		if got, err := name(short); got != boards || err != nil {
			t.Errorf("%s: %q, %v", short, got, err)
		}
		for _, typed := range []string{"", "n", "nvml/", "cpufreq/policy", "cpufreq/policy6-9", "cpufreq/policy4-2", "cpufreq/policy0-", "-"} {
			if got, err := name(typed); !errors.Is(err, daemon.ErrNoLever) {
				t.Errorf("%q: %q, %v", typed, got, err)
			}
		}
		_, err = name("nonsense")
		if err == nil || !strings.Contains(err.Error(), "the kinds governor, package, gpu, and the levers cpufreq/policy0, ") {
			t.Errorf("which kinds there are is not said: %v", err)
		}
	})
}
