//go:build cgo && linux

package host_test

import (
	"testing"
)

func nvmlScope(t *testing.T, lib string) {
	for _, c := range []struct {
		name        string
		files       map[string]string
		mig, module bool
	}{
		{"a plain board", nil, false, false},
		{"MIG off", map[string]string{"mig": "0"}, false, false},
		{"MIG on", map[string]string{"mig": "1"}, true, false},
		{"Grace-Hopper", map[string]string{"c2c_links": "10", "module_mw": "520000"}, false, true},
		{"a module's power without a CPU beside", map[string]string{"module_mw": "520000"}, false, false},
		{"no link", map[string]string{"c2c_links": "0", "module_mw": "520000"}, false, false},
		{"a link and no power of the module", map[string]string{"c2c_links": "10"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, 1)
			for name, value := range c.files {
				m.put(0, name, value)
			}
			if info := m.board(lib).Info(); info.MIG != c.mig || info.Module != c.module {
				t.Errorf("MIG %t, module %t", info.MIG, info.Module)
			}
		})
	}
}
