package script

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Scripts wait for windows of two seconds far more than they compute.
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["test.parallel"] {
		_ = flag.Set("test.parallel", "12")
	}
	testscript.Main(m, map[string]func(){"become": become, "serve": serve, "hang-up": hangUp})
}

// update is for go test -run Scripts -update: the pages in the scripts become what was printed.
var update = flag.Bool("update", false, "rewrite the pages in testdata")

// TestScripts runs testdata/*.txtar, each in a directory of its own with these commands beside testscript's:
//
//	machine HOST|FILE.txtar  set up a simulated machine in $QUNER_SOCKET, and remember it as "found"
//	remember NAME            remember every setting of the machine under NAME
//	same NAME                the machine is, byte for byte, as remembered; it has five seconds to get there
//	setting NAME VALUE       a setting has the value, likewise
//	daemon start HOST [ARG…] start the daemon on the machine and wait until it is ready; its log is $WORK/daemon.err
//	daemon stop|kill         end it by SIGTERM, with exit status 0, or by SIGKILL
//	job start NAME CMD…      start a command in the background; its output is $WORK/NAME.out and $WORK/NAME.err
//	job signal NAME SIGNAL   send INT, TERM, KILL or HUP to it
//	job end NAME STATUS      wait for its end and look at its exit status; 128+n if signal n ended it
//	[!] working              a workload (simulate-work, or what calls itself so) of this machine is, or is not, running
//	exits STATUS CMD…        run a command that ends with STATUS, by a signal as above
//	measures STATUS STREAM REGEXP CMD…  run a command, which ends with STATUS each time, until its stdout or stderr has a
//	                         match: a window has no figure where the daemon was kept from looking at the counters in time
//	await FILE REGEXP        wait until the file matches, ten seconds at most
//	page FILE                write standard output to FILE with # for the figures that no two runs share, to compare
//	json FILE                the file is one valid JSON value
//	mode OCTAL FILE…         the files have these permissions
//	$HOSTS                   the directory of the simulated hosts' archives
//	become UID CMD…          a program: run CMD with uid and gid UID and no further groups; needs root
//	serve WORKLOAD WORKERS   a program: a service on the simulated board, with a window a request, until it is terminated
//	hang-up close|end        a program: a client of a sweep that goes without a word, or with one
//	counted CMD…             run a sweep of that service, whose report tells what the board did in each state
func TestScripts(t *testing.T) {
	root := workRoot(t)
	bin := build(t, root)
	hosts, err := filepath.Abs(filepath.Join(top, "internal/host/hostsim/hosts"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		WorkdirRoot:         root,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("HOSTS", hosts)
			e.Setenv("GORACE", "atexit_sleep_ms=0") // by default each program waits a second for reports at its end
			e.Setenv("QUNER_SOCKET", filepath.Join(e.WorkDir, "m"))
			s := newStage(e.WorkDir)
			e.Values[stageKey{}] = s
			e.Defer(s.clear)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"machine": positive(machine), "remember": positive(remember), "same": positive(same), "setting": positive(setting),
			"daemon": positive(daemon), "job": positive(job), "working": working,
			"exits": positive(exits), "measures": positive(measures), "await": positive(await),
			"page": positive(page), "json": positive(validJSON), "mode": positive(mode), "counted": positive(counted),
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// workRoot is a directory that another user may pass through and whose name leaves room for a socket's path.
func workRoot(t *testing.T) string {
	root, err := os.MkdirTemp("", "quner")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// build makes both programs, with the race detector if the test has it, and returns their directory.
func build(t *testing.T, root string) string {
	notice(t)
	bin := filepath.Join(root, "bin")
	args := []string{"build", "-buildvcs=false", "-o", bin + "/", "./cmd/qunerd", "./cmd/qunerctl"}
	if raced() {
		args = append([]string{"build", "-race"}, args[1:]...)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = top
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return bin
}

// top is the repository.
const top = "../.."

// notice looks at every source file, so that go test knows that this test's outcome depends on them: it cannot see what
// the build below reads, and would show an old outcome again.
func notice(t *testing.T) {
	for _, room := range []string{"api", "cmd", "deploy", "internal"} {
		err := filepath.WalkDir(filepath.Join(top, room), func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				_, err = os.Stat(name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// raced reports whether this test was built with the race detector.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// positive makes a command of one that cannot be negated.
func positive(cmd func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("this command cannot be negated: %s", strings.Join(args, " "))
		}
		cmd(ts, args)
	}
}
