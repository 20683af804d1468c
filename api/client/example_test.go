package client_test

import (
	"context"
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
