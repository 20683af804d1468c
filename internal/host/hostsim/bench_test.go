package hostsim

import (
	"testing"
	"time"
)

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

// BenchmarkHour is an hour of a machine under load whose counter is read each ten seconds.
func BenchmarkHour(b *testing.B) {
	f := fixture(b, "workstation")
	for b.Loop() {
		s := newSim(b, f)
		s.start = s.start.Add(-time.Hour)
		for t := time.Duration(0); t < time.Hour; t += 10 * time.Second {
			s.mu.Lock()
			if _, ok := s.counterText("sys/devices/virtual/powercap/intel-rapl/intel-rapl:0/energy_uj", t); !ok {
				b.Fatal("no counter")
			}
			s.mu.Unlock()
		}
	}
}
