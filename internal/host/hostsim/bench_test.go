package hostsim

import "testing"

// BenchmarkReadCounter is what a simulated counter costs its reader: the hook, the file written and read.
func BenchmarkReadCounter(b *testing.B) {
	s := newSim(b, fixture(b, "workstation"))
	s.SetLoad("gpu0", 1)
	for b.Loop() {
		if _, err := s.Host().Sys.ReadUint("class/powercap/intel-rapl:0/energy_uj"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHook is the hook alone.
func BenchmarkHook(b *testing.B) {
	s := newSim(b, fixture(b, "workstation"))
	s.SetLoad("gpu0", 1)
	for b.Loop() {
		s.mu.Lock()
		delete(s.shown, "sys/devices/virtual/powercap/intel-rapl/intel-rapl:0/energy_uj")
		err := s.refresh("sys/devices/virtual/powercap/intel-rapl/intel-rapl:0/energy_uj")
		s.mu.Unlock()
		if err != nil {
			b.Fatal(err)
		}
	}
}
