package main

import (
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

func TestSumNumbers(t *testing.T) {
	for text, want := range map[string]struct {
		sum  float64
		says string
	}{
		"":                             {0, ""},
		"1\n2.5\n":                     {3.5, ""},
		"1\n2":                         {3, ""},
		"7 \r\n":                       {7, ""},
		"1e3\n0\n":                     {1000, ""},
		"1\n\n":                        {0, "line 2: '': want a number"},
		"-1\n":                         {0, "line 1: -1: want"},
		"1\nNaN\n":                     {0, "line 2: NaN: want"},
		"inf\n":                        {0, "line 1: inf: want"},
		"1,5\n":                        {0, "line 1: 1,5: want"},
		"1\n2x":                        {0, "line 2: 2x: want"},
		"1e308\n1e308\n":               {0, "add up to more"},
		strings.Repeat("1", 65) + "\n": {0, "line 1: 11111111111111111111…: a line is longer"},
	} {
		for name, sum := range map[string]func() (float64, error){
			"whole":        func() (float64, error) { return sumNumbers(strings.NewReader(text), 3) },
			"byte by byte": func() (float64, error) { return sumNumbers(iotest.OneByteReader(strings.NewReader(text)), 3) },
		} {
			got, err := sum()
			switch {
			case want.says == "" && (err != nil || got != want.sum):
				t.Errorf("%q, %s: %v, %v; want %v", text, name, got, err, want.sum)
			case want.says != "" && (err == nil || !strings.Contains(err.Error(), want.says)):
				t.Errorf("%q, %s: %v; want what says %q", text, name, err, want.says)
			}
		}
	}
}

func FuzzSumNumbers(f *testing.F) {
	for _, seed := range []string{"1\n2.5\n", "1\n2", "x", "\n", "1e308\n1e308\n", "-0\n", strings.Repeat("9", 70)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sum, err := sumNumbers(strings.NewReader(text), 3)
		if err == nil && (!(sum >= 0) || math.IsInf(sum, 0)) {
			t.Errorf("%q is taken for %v", text, sum)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "descriptor 3 (--work-fd)") {
			t.Errorf("%q: %v", text, err)
		}
		again, err2 := sumNumbers(iotest.OneByteReader(strings.NewReader(text)), 3)
		if again != sum && err == nil || (err == nil) != (err2 == nil) {
			t.Errorf("%q: %v, %v in one piece, and %v, %v in many", text, sum, err, again, err2)
		}
	})
}
