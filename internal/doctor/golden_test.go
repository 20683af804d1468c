package doctor_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/host/hostsim"
)

// update is for go test -run Golden -update: what is printed becomes the pages in testdata.
var update = flag.Bool("update", false, "write the pages of testdata anew")

func TestGoldenPages(t *testing.T) {
	for _, name := range hostsim.Names() {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			synctest.Test(t, func(t *testing.T) { // so that what is measured is the same each time
				if err := report(t, simulated(t, name).Host()).Print(&b); err != nil {
					t.Fatal(err)
				}
			})
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("%s is another page now; if that is right: go test ./internal/doctor -run Golden -update\n%s", file, diff)
			}
		})
	}
}
