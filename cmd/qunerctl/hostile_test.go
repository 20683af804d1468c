package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func TestPipeThatNobodyReadsEndsWithTheCaller(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := resultOutlet(ctx, path, nil); err == nil {
		t.Errorf("waiting for a reader: %v", err)
	}
	// Somebody reads: what waits in open ends.
	reader, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(reader) }()
	out, err := resultOutlet(context.Background(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.close(); err != nil {
		t.Error(err)
	}
}

func TestWordsThatAreNoUTF8AreNamed(t *testing.T) {
	a := &app{args: []string{"meter", "open", "--workload", "a\xff"}}
	f := a.answered(a.root(), status.New(codes.Internal, "grpc: error while marshaling: string field contains invalid UTF-8"))
	if f.code != exitUsage || !strings.Contains(f.Error(), "a\xff") || strings.Contains(f.Error(), "grpc") {
		t.Errorf("%d: %v", f.code, f)
	}
}

func TestRefusalsForWantOfACounterPointToDoctor(t *testing.T) {
	a := &app{}
	if hint := a.refusedHint(a.root(), "floor: refused: no energy counter to measure with is awake; doctor says why"); !strings.HasPrefix(hint, "qunerctl doctor") {
		t.Error(hint)
	}
}

func TestAnEmptyIDNamesNoPoint(t *testing.T) {
	only := []*qunerv1.TunedPoint{{Id: "20bc47483d43"}}
	if p, err := pick(only, ""); err == nil {
		t.Errorf("the empty id is %s", p.GetId())
	}
	if _, err := pick(only, "20"); err != nil {
		t.Error(err)
	}
}
