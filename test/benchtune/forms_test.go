package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryFormIsRead(t *testing.T) {
	curves, skipped, err := ReadDir("testdata")
	if err != nil || len(curves) != 114 {
		t.Fatalf("%d curves: %v", len(curves), err)
	}
	if len(skipped) != 0 {
		t.Errorf("skipped %q", skipped)
	}
	byName := map[string]Curve{}
	for _, c := range curves {
		byName[filepath.ToSlash(c.Name)] = c
	}
	for name, want := range map[string]struct {
		at, cap, rate, watts float64
	}{
		"zeus-nsdi23/summary_power_a40 cifar100 shufflenetv2 1024 adadelta": {2, 150, 1 / 11.09, 141.60988713420585},
		"zeus-windows/A40+resnet50+gpu0":                                    {8, 300, 1 / 24.011604165658355, 6224.88599999249 / 24.011604165658355},
		"zeus-windows/A40+resnet50+gpu0,1,2,3":                              {8, 300, 1 / 8.226085375994444, (1067.512999996543 + 1072.432999998331 + 1049.1979999989271 + 1129.594999998808) / 8.226085375994444},
		"consumer/club3090_power-cap-3090-qwen36_data rate 2":               {1, 200, 15.58, 199.72},
		"consumer/club3090_power-cap-4090-qwen36_decode_single rate 1":      {0, 230, 41.47, 229.72},
	} {
		c, s := byName[name], int(want.at)
		if len(c.Rate) <= s || c.Caps[s] != want.cap || math.Abs(c.Rate[s]/want.rate-1) > 1e-9 || math.Abs(c.Watts[s]/want.watts-1) > 1e-9 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestUnknownFormsAreNamedAndSkipped(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.csv":     "power_limit,time_per_epoch,average_power,dataset\n200,10,190,x\n100,12,99,x\n",
		"prose.txt":    "This is not a table.\nNor is this.\n",
		"ragged.csv":   "100,1,2,0.5\n200,1,2\n",
		"strange.csv":  "100,1,2,3,4\n200,1,2,3,4\n",
		"empty.csv":    "",
		"windows.csv":  "window_name,elapsed_time\na_100,3\n",
		"point.csv":    "power_limit,time_per_epoch,average_power\n200,10,190\n200,12,195\n",
		"negative.csv": "power_limit,time_per_epoch,average_power\n200,10,190\n100,-12,99\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	curves, skipped, err := ReadDir(dir)
	if err != nil || len(curves) != 1 || curves[0].Caps[0] != 100 {
		t.Fatalf("%+v, %v", curves, err)
	}
	told := strings.Join(skipped, "\n")
	for _, name := range []string{"prose.txt", "ragged.csv", "strange.csv", "empty.csv", "windows.csv", "point", "negative"} {
		if !strings.Contains(told, name) {
			t.Errorf("%s is not named in:\n%s", name, told)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"zeus-nsdi23/summary_power_a40.csv", "zeus-windows/A40+resnet50+gpu0,1,2,3.csv", "consumer/club3090_power-cap-3090-qwen36_data.csv"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 600)])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		curves, err := parse("x", bytes.NewReader(text))
		if err != nil && !errors.Is(err, errForm) {
			t.Errorf("error of another kind: %v", err)
		}
		for _, c := range curves {
			if c.check() != nil {
				continue
			}
			if best := c.best(); best < 0 || best > c.top() || !(c.regret(best) == 0) {
				t.Errorf("best of %+v is %d", c, best)
			}
		}
	})
}

// The whole program, on few curves: what JSON readers rely on, and a plot.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	svg := filepath.Join(t.TempDir(), "x.svg")
	err := run(t.Context(), []string{"-data", "testdata/consumer", "-seeds", "3", "-json", "-plot", svg}, &out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var object struct {
		Sigma map[string]map[string]float64 `json:"sigma"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &object); err != nil {
		t.Fatal(err)
	}
	for _, sigma := range []string{"0.5", "1", "2", "3"} {
		for _, key := range []string{"in_band", "mean_windows", "mean_regret", "p99_regret", "certified", "wrong_certified", "flat_recall", "slow_violations"} {
			if _, ok := object.Sigma[sigma][key]; !ok {
				t.Errorf("σ %s: no %s", sigma, key)
			}
		}
	}
	text := out.String()
	for _, want := range []string{"4 curves", "σ/2 on the device's watts", "greedy", "windows\n", "Bars at σ = 2 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if picture, err := os.ReadFile(svg); err != nil || !bytes.Contains(picture, []byte("<polyline")) {
		t.Errorf("plot: %v\n%s", err, picture)
	}
	for _, args := range [][]string{{"-seeds", "0"}, {"-sigma", "x"}, {"-rate-noise", "-1"}, {"-data", t.TempDir()}, {"-synthetic", "1", "-kind", "none"}} {
		if err := run(t.Context(), args, &out); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
