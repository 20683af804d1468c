package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/qunerd/quner/api/client"
)

// A service meters each request. Where no daemon runs the request goes on all the same.
func ExampleClient_Open() {
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Options{Dir: "/nowhere"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()

	w, err := c.Open(ctx, client.OpenOptions{Name: "request", Unit: "token", IdleWatts: map[string]float64{"gpu": 50}})
	if err != nil {
		fmt.Println(err) // the options are wrong
		return
	}
	tokens := 128.0 // the work; then wait for the GPU
	result, err := w.Close(ctx, client.CloseOptions{Work: tokens, Synced: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if joules, halfWidth, ok := result.Joules(); ok {
		fmt.Printf("%.1f J ± %.1f J\n", joules, halfWidth)
	} else {
		fmt.Println(result)
	}
	// Output: unknown [daemon_unreachable]
}

func ExampleClient_Measure() {
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Options{Dir: "/nowhere"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()

	result, err := c.Measure(ctx, client.MeasureOptions{Open: client.OpenOptions{Name: "epoch"}}, func(context.Context) (float64, error) {
		return 1000, nil // samples trained with
	})
	fmt.Println(result, err)
	// Output: unknown [daemon_unreachable] <nil>
}

// A stage ends at each mark. The window's total is computed over all of it, never from its stages.
func ExampleWindow_Mark() {
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Options{Dir: "/nowhere"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()

	w, err := c.Open(ctx, client.OpenOptions{Name: "request", Unit: "token"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Mark(ctx, "prefill"); err != nil { // what was done so far
		fmt.Println(err)
	}
	result, _ := w.Close(ctx, client.CloseOptions{Work: 128, Synced: true})
	for _, stage := range result.Window.GetStages() {
		fmt.Println(stage.GetName(), stage.GetEnergyUj())
	}
	fmt.Println(w.Measured(), result.Reasons())
	// Output: false [daemon_unreachable]
}

// A strict client tells that there is no daemon instead of going on without a figure.
func ExampleOptions_strict() {
	_, err := client.Dial(context.Background(), client.Options{Dir: "/nowhere", Strict: true})
	fmt.Println(errors.Is(err, client.ErrUnreachable))
	// Output: true
}
