package install

import "testing"

// A configuration that quner wrote and somebody changed outlives an uninstallation, but not the purge after the next one.
func TestKeptConfigurationGoesWithALaterPurge(t *testing.T) {
	const config, edited = "/etc/quner/quner.toml", "tick = \"6s\"\n"
	for _, live := range []bool{true, false} {
		m := newMachine(t)
		m.live = live
		if !live {
			m.root = t.TempDir() // quite empty
		}
		before := m.tree()
		m.install()
		m.put(config, edited)
		for range 3 {
			m.uninstall(false)
			m.release("v2")
			m.install()
		}
		if m.read(config) != edited {
			t.Error("an edited configuration is lost")
		}
		m.uninstall(false)
		m.refused(Wish{Purge: true}, Uninstall, "no installation", "sudo rm -r /etc/quner/quner.toml /var/lib/quner")
		m.install()
		m.uninstall(true)
		m.same(m.tree(), before, "after the purge")
	}
}

// What was written while quner was not installed is somebody's own, whatever lay there before.
func TestConfigurationOfOnesOwnOutlivesAPurge(t *testing.T) {
	const config, edited, own = "/etc/quner/quner.toml", "tick = \"6s\"\n", "tick = \"7s\"\n"
	for _, broken := range []bool{false, true} {
		m := newMachine(t)
		m.install()
		m.put(config, edited)
		m.uninstall(false)
		if broken {
			m.put(keptFile, "{")
		} else {
			m.put(config, own)
		}
		want := m.read(config)
		m.install()
		m.uninstall(false)
		if _, there := m.tree()[keptFile]; there {
			t.Error("what is known of another configuration is left")
		}
		m.install()
		m.uninstall(true)
		if m.read(config) != want {
			t.Error("a configuration of one's own is lost")
		}
	}
}

func FuzzKept(f *testing.F) {
	f.Add([]byte(`{"schema":1,"sha256":"00","left":"11","dirs":["/etc/quner","/home"]}`))
	f.Add([]byte(`{"schema":2,"sha256":"00","left":"11"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		k := parseKept(data)
		if k == nil {
			return
		}
		for _, d := range k.Dirs {
			if d != "/etc" && d != "/etc/quner" && d != "/var" && d != "/var/lib" {
				t.Errorf("took %q", d)
			}
		}
	})
}
