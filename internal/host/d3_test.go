package host

import (
	"strings"
	"testing"
)

func FuzzRuntimeD3(f *testing.F) {
	f.Add("Runtime D3 status:          Enabled (fine-grained)\nVideo Memory:               Active\n")
	f.Add("Runtime D3 status:          Disabled by default\nVideo Memory:               Active\n\nGPU Hardware Support:\n Video Memory Self Refresh: Not Supported\n")
	f.Add("Runtime D3 status:          Not supported\n")
	f.Add("Runtime D3 status:          ?\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		off := runtimeD3Off(text)
		// What cannot be understood must not pass for a board that never sleeps.
		if off && !strings.Contains(text, "Disabled") && !strings.Contains(text, "Not supported") {
			t.Errorf("%q passes for a board that never sleeps", text)
		}
	})
}
