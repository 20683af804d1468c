package levers

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func sampleJournal() journal {
	return journal{schema: 1, generation: 7, entries: []entry{
		{Lever: policy0, Kind: Governor, Original: "schedutil", Ours: []Value{"powersave"}, Boot: thisBoot, Generation: 7,
			address: address{Path: "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"}},
		{Lever: boardCap, Kind: GPUCap, Original: "300000", Ours: []Value{"250000", "200000"}, Boot: thisBoot,
			Load: "module 4711", Generation: 6, Unit: "mW", address: address{UUID: boardUUID}},
	}}
}

func marshalled(t testing.TB, j journal) []byte {
	t.Helper()
	data, err := j.marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestJournalRoundTrip(t *testing.T) {
	for _, j := range []journal{sampleJournal(), {schema: 1, entries: []entry{}}} {
		got, err := parseJournal(bytes.NewReader(marshalled(t, j)))
		if err != nil || !reflect.DeepEqual(got, j) {
			t.Errorf("%+v, %v; want %+v", got, err, j)
		}
	}
}

func TestJournalThatCannotBeTrusted(t *testing.T) {
	good := string(marshalled(t, sampleJournal()))
	twice := sampleJournal()
	twice.entries[1].Lever = policy0
	newline := sampleJournal()
	newline.entries[0].Original = "schedutil\nrm"
	nothing := sampleJournal()
	nothing.entries[0].Original = ""
	tests := map[string]string{
		"empty":                "",
		"cut off":              good[:len(good)/2],
		"not JSON":             "rollback",
		"null":                 "null",
		"a list":               "[]",
		"more after it":        good + "{}",
		"schema 0":             strings.Replace(good, `"schema": 1`, `"schema": 0`, 1),
		"schema of words":      strings.Replace(good, `"schema": 1`, `"schema": "1"`, 1),
		"another original":     strings.Replace(good, "schedutil", "powersave", 1),
		"no checksum":          strings.Replace(good, "checksum", "checksun", 1),
		"no entries":           `{"schema":1,"checksum":""}`,
		"too long":             good + strings.Repeat(" ", 1<<20),
		"a lever twice":        string(marshalled(t, twice)),
		"a line in a value":    string(marshalled(t, newline)),
		"an entry of no value": string(marshalled(t, nothing)),
	}
	for name, text := range tests {
		if j, err := parseJournal(strings.NewReader(text)); err == nil || errors.Is(err, errForeign) {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
	}
}

func TestPredecessorsJournal(t *testing.T) {
	for _, text := range []string{`{"governor": {"cpu0": "schedutil"}, "gpu": {"0": 300}}`, "{}"} {
		if _, err := parseJournal(strings.NewReader(text)); !errors.Is(err, errForeign) {
			t.Errorf("%s: %v, want a journal of the predecessor", text, err)
		}
	}
}

// newerJournal is what a later quner may write: another schema, kinds and fields this one does not know.
func newerJournal(t testing.TB) []byte {
	t.Helper()
	entries := `[
	 {"lever":"cpufreq/policy0","kind":"governor","original":"schedutil","ours":["powersave"],"boot":"` + thisBoot + `","generation":3,"origin":{"by":"tune"}},
	 {"lever":"rapl/package-0","kind":"package","original":"65000000","ours":["45000000"],"boot":"` + thisBoot + `","generation":3,"twins":["msr","mmio"]}]`
	return []byte(`{"schema":9,"generation":3,"host":"new","checksum":"` + sumOf(t, entries) + `","entries":` + entries + `}`)
}

func sumOf(t testing.TB, entries string) string {
	t.Helper()
	var tight bytes.Buffer
	if err := json.Compact(&tight, []byte(entries)); err != nil {
		t.Fatal(err)
	}
	return checksum(tight.Bytes())
}

func TestNewerJournalKeepsWhatIsNotKnown(t *testing.T) {
	j, err := parseJournal(bytes.NewReader(newerJournal(t)))
	if err != nil {
		t.Fatal(err)
	}
	again, err := parseJournal(bytes.NewReader(marshalled(t, j)))
	if err != nil || again.schema != 9 || !reflect.DeepEqual(again.entries, j.entries) {
		t.Errorf("%+v, %v", again, err)
	}
	if text := string(marshalled(t, j)); !strings.Contains(text, `"by": "tune"`) || !strings.Contains(text, `"mmio"`) {
		t.Errorf("fields of a newer version are lost:\n%s", text)
	}
}

func FuzzParseJournal(f *testing.F) {
	f.Add(marshalled(f, sampleJournal()))
	f.Add(marshalled(f, journal{}))
	f.Add(newerJournal(f))
	f.Add([]byte(`{"cpu0": "schedutil"}`))
	f.Add([]byte(`{"schema":1,"generation":18446744073709551615,"checksum":"sha256:","entries":[{"lever":"x"}]}`))
	f.Add([]byte(`{"schema":1,"checksum":"sha256:37517e5f3dc66819f61f5a7bb8ace1921282415f10551d2defa5c3eb0985b570","entries":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		// Chance does not find a checksum: make it fit, so that what lies behind is reached.
		var e envelope
		if json.Unmarshal(data, &e) == nil && e.Schema > 0 && e.Entries != nil {
			e.Checksum = sumOf(t, string(e.Entries))
			if fitting, err := json.Marshal(e); err == nil {
				data = fitting
			}
		}
		j, err := parseJournal(bytes.NewReader(data))
		if err != nil {
			return
		}
		again, err := parseJournal(bytes.NewReader(marshalled(t, j)))
		if err != nil {
			t.Fatalf("its own text is refused: %v", err)
		}
		if again.generation != j.generation || len(again.entries) != len(j.entries) {
			t.Fatalf("%+v became %+v", j, again)
		}
		for i, e := range j.entries {
			if a := again.entries[i]; a.Lever != e.Lever || a.Original != e.Original || len(a.rest) != len(e.rest) {
				t.Fatalf("%+v became %+v", e, a)
			}
		}
		for line := range strings.Lines(script(j)) {
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "echo ") && !strings.HasPrefix(line, "nvidia-smi -i ") {
				t.Fatalf("restore script has the line %q", line)
			}
		}
	})
}
