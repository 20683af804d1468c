package doctor

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
)

// process is the files of one.
func process(pid, comm, cgroup string) map[string]string {
	return map[string]string{
		"proc/" + pid + "/comm":   comm + "\n",
		"proc/" + pid + "/cgroup": "0::" + cgroup + "\n",
	}
}

func together(all ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, files := range all {
		maps.Copy(sum, files)
	}
	return sum
}

func TestConflictsAreKnownByTheirUnit(t *testing.T) {
	pstate := map[string]string{policy + "energy_performance_preference": "balance_power\n"}
	for name, c := range map[string]struct {
		files  map[string]string
		daemon string
		unit   string
		kinds  []levers.Kind
		remedy string
	}{
		"power-profiles-daemon": {together(pstate, process("812", "power-profiles-", "/system.slice/power-profiles-daemon.service")),
			"power-profiles-daemon", "power-profiles-daemon.service", []levers.Kind{levers.Governor, levers.EnergyPreference},
			"sudo systemctl disable --now power-profiles-daemon.service"},
		"power-profiles-daemon has nothing to move": {process("812", "power-profiles-", "/system.slice/power-profiles-daemon.service"), "", "", nil, ""},
		"tuned renamed":         {process("9", "python3", "/system.slice/tuned.service"), "tuned", "tuned.service", []levers.Kind{levers.Governor, levers.EnergyPreference}, "sudo systemctl disable --now tuned.service"},
		"in a slice of its own": {process("9", "x", "/system.slice/system-x.slice/thermald.service/sub"), "thermald", "thermald.service", []levers.Kind{levers.PackageLimit}, "sudo systemctl disable --now thermald.service"},
		"a name alone": {process("9", "thermald", "/user.slice/user-1000.slice/session-1.scope"), "thermald", "", []levers.Kind{levers.PackageLimit},
			"sudo systemctl disable --now thermald.service"},
		"a user's unit is nobody's word": {process("9", "x", "/user.slice/user-1000.slice/user@1000.service/app.slice/thermald.service"), "", "", nil, ""},
		"a container's is not either":    {process("9", "x", "/system.slice/docker-1.scope/system.slice/thermald.service"), "", "", nil, ""},
		"gamemode in a session": {process("9", "gamemoded", "/user.slice/user-1000.slice/user@1000.service/app.slice/gamemoded.service"), "gamemoded", "",
			[]levers.Kind{levers.Governor}, "systemctl --user disable --now gamemoded.service"},
		"TLP that has run":    {map[string]string{"run/tlp/last_pwr": "0\n"}, "TLP", "tlp.service", []levers.Kind{levers.Governor, levers.EnergyPreference}, "echo TLP_ENABLE=0 | sudo tee /etc/tlp.d/99-off.conf"},
		"TLP's unit active":   {map[string]string{"run/systemd/units/invocation:tlp.service": ""}, "TLP", "tlp.service", []levers.Kind{levers.Governor, levers.EnergyPreference}, "echo TLP_ENABLE=0 | sudo tee /etc/tlp.d/99-off.conf"},
		"the old hierarchy":   {map[string]string{"proc/7/comm": "e\n", "proc/7/cgroup": "4:memory:/foo\n1:name=systemd:/system.slice/earlyoom.service\n"}, "earlyoom", "earlyoom.service", nil, "sudo systemctl disable --now earlyoom.service"},
		"oomd and its socket": {process("7", "systemd-oomd", "/system.slice/systemd-oomd.service"), "systemd-oomd", "systemd-oomd.service", nil, "sudo systemctl disable --now systemd-oomd.service systemd-oomd.socket"},
		"a process half gone": {map[string]string{"proc/7/cgroup": "0::/system.slice/x.service\n"}, "", "", nil, ""},
		"nothing":             {nil, "", "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Conflicts(aHost(t, c.files))
			if c.daemon == "" {
				if len(got) > 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			want := []Conflict{{Daemon: c.daemon, Unit: c.unit, Contests: c.kinds, Remedy: c.remedy}}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Conflict{}, "PID", "Detail")); diff != "" {
				t.Error(diff)
			}
			for _, k := range []levers.Kind{levers.Governor, levers.PackageLimit} {
				if by, ok := Contested(got, k); ok && by.Unit == "" {
					t.Errorf("%s is contested by a name", k)
				}
			}
		})
	}
}

func TestAWatchSeesServicesComeAndGo(t *testing.T) {
	h := aHost(t, process("5", "thermald", "/system.slice/thermald.service"))
	proc := h.Proc.Path()
	w := NewWatch(h)
	if got := w.Look(); len(got) != 1 || got[0].PID != 5 {
		t.Fatalf("%+v", got)
	}
	write := func(pid, comm, cgroup string) {
		t.Helper()
		for name, text := range process(pid, comm, cgroup) {
			file := filepath.Join(filepath.Dir(proc), name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Another process gets the number of one that was a conflict, and one that was none becomes one.
	write("5", "sh", "/system.slice/cron.service")
	write("6", "tuned", "/system.slice/tuned.service")
	if got := w.Look(); len(got) != 1 || got[0].Daemon != "tuned" {
		t.Fatalf("%+v", got)
	}
	write("5", "thermald", "/system.slice/thermald.service")
	seen := false
	for range recheck {
		seen = len(w.Look()) == 2
		if seen {
			break
		}
	}
	if !seen {
		t.Errorf("a process number that was given anew was not looked at again in %d looks", recheck)
	}
	if err := os.RemoveAll(filepath.Join(proc, "6")); err != nil {
		t.Fatal(err)
	}
	if got := w.Look(); len(got) != 1 || got[0].Daemon != "thermald" {
		t.Errorf("%+v", got)
	}
}

func FuzzSystemUnit(f *testing.F) {
	f.Add("0::/system.slice/thermald.service\n")
	f.Add("1:name=systemd:/system.slice/a.slice/b.service/c\n0::/\n")
	f.Add("0::/../../system.slice/x.service")
	f.Add("0:::::\n\x00")
	f.Fuzz(func(t *testing.T, cgroup string) {
		unit := systemUnit(cgroup)
		if strings.ContainsAny(unit, "/\n") || unit != "" && !strings.Contains(cgroup, ":/system.slice/") {
			t.Errorf("unit %q", unit)
		}
	})
}

// A process's name is its own to choose: whatever it is, it gives no certainty.
func FuzzComm(f *testing.F) {
	f.Add("thermald", "0::/user.slice/x.scope\n")
	f.Add("foo) Z ", "0::/system.slice/cron.service\n")
	f.Fuzz(func(t *testing.T, comm, cgroup string) {
		unit := systemUnit(cgroup)
		all := rivals()
		i, certain := ofProcess(all, unit, comm)
		if certain && unit == "" {
			t.Error("certain by a name")
		}
		if i >= 0 && !certain && all[i].comm != comm {
			t.Errorf("%q taken for %s", comm, all[i].name)
		}
	})
}

func BenchmarkWatch(b *testing.B) {
	root := b.TempDir()
	for pid := 1; pid <= 500; pid++ {
		dir := filepath.Join(root, "proc", strconv.Itoa(pid))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for name, text := range map[string]string{"comm": "sh\n", "cgroup": "0::/user.slice/user-1000.slice/session-1.scope\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	w := NewWatch(host.Real(root, nil))
	w.Look()
	for b.Loop() {
		w.Look()
	}
}
