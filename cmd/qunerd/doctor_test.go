package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A capture for a bug report in several files takes the salt of the others; one on its own draws one.
func TestACaptureTakesTheSaltItIsGiven(t *testing.T) {
	capture := func(salt string, args ...string) (string, error) {
		file := filepath.Join(t.TempDir(), "x.txtar")
		c := doctorCommand()
		c.SetIn(strings.NewReader(salt))
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		c.SetArgs(append(args, "--simulate", "workstation", "--capture", file))
		if err := c.Execute(); err != nil {
			return "", err
		}
		data, err := os.ReadFile(file)
		id := bytes.Index(data, []byte("GPU-"))
		if err != nil || id < 0 {
			t.Fatalf("%v, a UUID at %d", err, id)
		}
		return string(data[id : id+40]), nil
	}
	const salt = "sixteen bytes..."
	one, err := capture(salt, "--salted")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := capture(salt, "--salted"); again != one {
		t.Errorf("%s, then %s: %v", one, again, err)
	}
	if other, err := capture("another salt...."+salt, "--salted"); other == one || err != nil {
		t.Errorf("another salt: %s, %v", other, err)
	}
	if own, err := capture(salt); own == one || err != nil {
		t.Errorf("with no flag: %s, %v", own, err)
	}
	if _, err := capture("short", "--salted"); err == nil || !strings.Contains(err.Error(), "5 bytes") {
		t.Errorf("%v", err)
	}
}
