package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// setting takes a value from the file. It returns what is allowed, for people, if it does not take it, else "".
type setting func(value any) (allowed string)

// settings are the keys of the file, each with where its value goes and its bounds.
func settings(c *Config) map[string]setting {
	return map[string]setting{
		"tick":             duration(&c.Tick, time.Second, time.Minute),
		"untuned_training": oneOf(&c.UntunedTraining, "found", "performance"),
		"allow_raise":      yesOrNo(&c.AllowRaise),
		"base_watts":       watts(&c.Base, 100*unit.Kilowatt),
		"payback_horizon":  duration(&c.PaybackHorizon, 0, 10*365*24*time.Hour),

		"detector.gpu_utilisation": number(&c.Detector.GPU, 0.01, 0.99),
		"detector.load":            number(&c.Detector.Load, 0.01, 10),
		"detector.ticks":           integer(&c.Detector.Ticks, 1, 60),

		"limits.windows_per_uid":        integer(&c.Limits.WindowsPerUID, 1, 65536),
		"limits.windows":                integer(&c.Limits.Windows, 1, 65536),
		"limits.window_life":            duration(&c.Limits.WindowLife, time.Minute, 24*time.Hour),
		"limits.results_per_uid":        integer(&c.Limits.ResultsPerUID, 1, 65536),
		"limits.connections_per_uid":    integer(&c.Serving.ConnectionsPerUID, 1, 65536),
		"limits.connections":            integer(&c.Serving.Connections, 2, 65536),
		"limits.admin_connections":      integer(&c.Serving.AdminConnections, 1, 65535),
		"limits.streams_per_connection": integer(&c.Serving.StreamsPerConn, 1, 65536),
		"limits.message_bytes":          integer(&c.Serving.MessageBytes, 4096, 16<<20),
		"limits.handshake":              duration(&c.Serving.Handshake, 100*time.Millisecond, time.Minute),
		"limits.call":                   duration(&c.Serving.Call, time.Second, 10*time.Minute),
		"limits.idle_connection":        duration(&c.Serving.IdleConnection, time.Second, 24*time.Hour),
	}
}

// plain writes a duration as people do: "1m", not "1m0s".
func plain(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func duration(to *time.Duration, lo, hi time.Duration) setting {
	return func(value any) string {
		text, _ := value.(string)
		d, err := time.ParseDuration(text)
		if err != nil || d < lo || d > hi {
			return fmt.Sprintf("a duration from %q to %q, in quotes", plain(lo), plain(hi))
		}
		*to = d
		return ""
	}
}

func oneOf(to *string, words ...string) setting {
	return func(value any) string {
		text, _ := value.(string)
		if !slices.Contains(words, text) {
			return `"` + strings.Join(words, `" or "`) + `"`
		}
		*to = text
		return ""
	}
}

func yesOrNo(to *bool) setting {
	return func(value any) string {
		v, ok := value.(bool)
		if !ok {
			return "true or false, without quotes"
		}
		*to = v
		return ""
	}
}

func integer(to *int, lo, hi int) setting {
	return func(value any) string {
		n, ok := value.(int64)
		if !ok || n < int64(lo) || n > int64(hi) {
			return fmt.Sprintf("a whole number from %d to %d", lo, hi)
		}
		*to = int(n)
		return ""
	}
}

func number(to *float64, lo, hi float64) setting {
	return func(value any) string {
		v, ok := asFloat(value)
		if !ok || !(v >= lo && v <= hi) {
			return fmt.Sprintf("a number from %v to %v", lo, hi)
		}
		*to = v
		return ""
	}
}

func watts(to *unit.Power, hi unit.Power) setting {
	return func(value any) string {
		v, ok := asFloat(value)
		if !ok || !(v >= 0 && v <= hi.Watts()) {
			return fmt.Sprintf("a number of watts from 0 to %v", hi.Watts())
		}
		*to = unit.FromWatts(v)
		return ""
	}
}

func asFloat(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, !math.IsNaN(v)
	}
	return 0, false
}
