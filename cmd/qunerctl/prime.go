package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// prime is the machine as the prime verbs see it: who drives the display is prime-select's to say and to set, and what
// it said before is kept here.
type prime struct {
	root string // "/" but in tests
}

// primeBackup is prime.json: the mode before enable.
type primeBackup struct {
	Schema int       `json:"schema"`
	Mode   string    `json:"mode"`
	Taken  time.Time `json:"taken"`
}

// onDemand is the mode in which the integrated GPU drives the display and the discrete one is free for compute.
const onDemand = "on-demand"

// primeModes are those prime-select knows.
func primeModes() []string { return []string{"nvidia", "intel", onDemand} }

// primeTimeout bounds one run of prime-select, which rebuilds an initramfs on some systems.
const primeTimeout = 5 * time.Minute

func (a *app) primeCmd() *cobra.Command {
	p := &prime{root: "/"}
	cmd := &cobra.Command{
		Use:   "prime",
		Short: "Let the integrated GPU drive the display (reverse-PRIME), and back",
		Long: `On a machine with two GPUs, "enable" lets the integrated one drive the display (prime-select
on-demand), so that the NVIDIA one is free for compute. It takes a reboot. The mode before is
kept in /var/lib/quner/prime.json, and "disable" brings it back. Nothing but these verbs, run by
root by hand, ever does this: neither the daemon nor an installation.`,
		Example: "  qunerctl prime status\n  sudo qunerctl prime enable --dry-run\n  sudo qunerctl prime enable\n  sudo qunerctl prime disable",
		Args:    noArgs,
	}
	cmd.PersistentFlags().StringVar(&p.root, "root", "/", "`DIR` in the place of / (for tests)")
	_ = cmd.PersistentFlags().MarkHidden("root")
	status := &cobra.Command{
		Use: "status", Short: "Which GPU drives the display, and what it was before", Args: noArgs,
		Example: "  qunerctl prime status",
		RunE:    func(c *cobra.Command, _ []string) error { return a.primeStatus(c.Context(), p) },
	}
	cmd.RunE = status.RunE
	cmd.AddCommand(status, a.primeEnableCmd(p), a.primeDisableCmd(p))
	return cmd
}

func (a *app) primeEnableCmd(p *prime) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "enable", Short: "The integrated GPU drives the display from the next boot on", Args: noArgs,
		Example: "  sudo qunerctl prime enable --dry-run",
		RunE: func(c *cobra.Command, _ []string) error {
			if why := p.noDriver(); why != "" {
				a.out.printf("Nothing to do: %s.\n", why)
				return nil
			}
			mode, err := p.query(c.Context())
			if err != nil {
				return err
			}
			if mode == onDemand {
				a.out.printf("Nothing to do: the integrated GPU drives the display already (prime-select says %s).\n", onDemand)
				return nil
			}
			return a.primeSwitch(c.Context(), p, mode, onDemand, dryRun)
		},
	}
	dryRunFlag(c, &dryRun)
	return c
}

func (a *app) primeDisableCmd(p *prime) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "disable", Short: "Back to the mode before enable, from the next boot on", Args: noArgs,
		Example: "  sudo qunerctl prime disable --dry-run",
		RunE: func(c *cobra.Command, _ []string) error {
			old, err := p.backup()
			if errors.Is(err, fs.ErrNotExist) {
				a.out.printf("Nothing to do: quner has not changed who drives the display.\n")
				return nil
			}
			if err != nil {
				return err
			}
			mode, err := p.query(c.Context())
			if err != nil {
				return err
			}
			if mode != onDemand && mode != old.Mode {
				return &failure{error: fmt.Errorf("prime: the mode is %q, which quner has not set: somebody else did", mode), code: exitRefused,
					hint: "sudo prime-select " + old.Mode + ", if that is what you want"}
			}
			return a.primeSwitch(c.Context(), p, mode, old.Mode, dryRun)
		},
	}
	dryRunFlag(c, &dryRun)
	return c
}

func (a *app) primeStatus(ctx context.Context, p *prime) error {
	type report struct {
		Mode      string `json:"mode"`
		Supported bool   `json:"supported"`
		Reason    string `json:"reason"`
		Before    string `json:"before"`
	}
	r := report{Reason: p.noDriver()}
	if r.Reason == "" {
		mode, err := p.query(ctx)
		r.Mode, r.Supported = mode, err == nil
		if err != nil {
			r.Reason = err.Error()
		}
	}
	if old, err := p.backup(); err == nil {
		r.Before = old.Mode
	}
	if a.json {
		enc := json.NewEncoder(a.out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	switch {
	case !r.Supported:
		a.out.printf("Reverse-PRIME is not to be had here: %s.\n", r.Reason)
	case r.Mode == onDemand:
		a.out.printf("The integrated GPU drives the display (%s); the NVIDIA one is free for compute.\n", r.Mode)
	default:
		a.out.printf("prime-select says %q. To let the integrated GPU drive the display: sudo qunerctl prime enable\n", r.Mode)
	}
	if r.Before != "" {
		a.out.printf("Before quner it was %q: sudo qunerctl prime disable brings that back.\n", r.Before)
	}
	return nil
}

// primeSwitch goes from one mode to another: the backup is on disk before the tool runs, and goes when its mode is back.
func (a *app) primeSwitch(ctx context.Context, p *prime, from, to string, dryRun bool) error {
	enabling := to == onDemand
	if dryRun {
		if enabling {
			a.out.printf("would write  %s: the mode now, %q\n", p.backupFile(), from)
		}
		a.out.printf("would run    prime-select %s\n", to)
		if !enabling {
			a.out.printf("would remove %s\n", p.backupFile())
		}
		a.out.printf("Dry run: nothing was done. It takes a reboot to come into force.\n")
		return nil
	}
	if os.Geteuid() != 0 && p.root == "/" {
		return &failure{error: errors.New("prime: only root may change who drives the display"), code: exitDenied,
			hint: "sudo qunerctl " + strings.Join(a.args, " ")}
	}
	kept := false // by this very call
	if enabling {
		var err error
		if kept, err = p.keep(primeBackup{Schema: 1, Mode: from, Taken: time.Now().UTC()}); err != nil {
			return err
		}
	}
	done := a.waiting("prime-select " + to)
	_, err := p.tool(ctx, to)
	done()
	now, asked := p.query(context.WithoutCancel(ctx))
	if err == nil && asked == nil && now != to {
		err = fmt.Errorf("prime-select took %q and says %q", to, now)
	}
	if err != nil {
		return p.failed(errors.Join(err, asked), kept, from, now)
	}
	if !enabling {
		if err := os.Remove(p.backupFile()); err != nil {
			return err
		}
	}
	a.out.printf("prime-select is set to %q, from %q. It takes a reboot to come into force.\n", to, from)
	a.out.printf("If the screen stays dark then: switch to a text console (Ctrl-Alt-F3), log in, and run\n")
	a.out.printf("  sudo prime-select %s && sudo reboot\n", from)
	return nil
}

// failed is what to say of a tool that did not do it; a backup that nothing has come of goes again.
func (p *prime) failed(err error, kept bool, from, now string) error {
	if now == from {
		if kept {
			err = errors.Join(err, os.Remove(p.backupFile()))
		}
		return &failure{error: fmt.Errorf("prime: the mode is still %q: %w", from, err), code: exitError}
	}
	return &failure{error: fmt.Errorf("prime: the mode is now %q: %w", now, err), code: exitError, hint: "sudo prime-select " + from}
}

// noDriver says why there is nothing to choose from: without the NVIDIA driver no discrete GPU drives a display.
func (p *prime) noDriver() string {
	for _, sign := range []string{"proc/driver/nvidia/version", "sys/module/nvidia"} {
		if _, err := os.Stat(filepath.Join(p.root, sign)); err == nil {
			return ""
		}
	}
	return "no NVIDIA driver is loaded, so no NVIDIA GPU drives a display"
}

// query asks which mode is set.
func (p *prime) query(ctx context.Context) (string, error) {
	out, err := p.tool(ctx, "query")
	if err != nil {
		return "", err
	}
	mode := strings.TrimSpace(out)
	if !slices.Contains(primeModes(), mode) {
		return "", fmt.Errorf("prime-select query: says %q; known are %s", clean(mode), strings.Join(primeModes(), ", "))
	}
	return mode, nil
}

func (p *prime) tool(ctx context.Context, arg string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, primeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "prime-select", arg)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "", &failure{error: errors.New("prime-select is not installed, so reverse-PRIME is not supported here"), code: exitError,
			hint: "sudo apt install nvidia-prime (Ubuntu; other systems set it in the X server's or the compositor's configuration)"}
	}
	if err != nil {
		return "", fmt.Errorf("prime-select %s: %w: %s", arg, err, clean(strings.TrimSpace(string(out))))
	}
	return string(out), nil
}

func (p *prime) backupFile() string { return filepath.Join(p.root, "var/lib/quner/prime.json") }

// backup reads the mode before enable.
func (p *prime) backup() (primeBackup, error) {
	var b primeBackup
	data, err := os.ReadFile(p.backupFile())
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return b, p.damaged(err)
	}
	// enable keeps no mode that is its own aim.
	if b.Schema != 1 || !slices.Contains(primeModes(), b.Mode) || b.Mode == onDemand {
		return b, p.damaged(fmt.Errorf("schema %d, mode %q: not a backup of this version", b.Schema, b.Mode))
	}
	return b, nil
}

// damaged is the error of a backup that cannot be read, with the way on: without it an uninstallation would ask for a
// "disable" that cannot be.
func (p *prime) damaged(err error) error {
	return &failure{error: fmt.Errorf("%s: %w", p.backupFile(), err), code: exitError,
		hint: "set the mode you want, sudo prime-select nvidia (or intel), and then: sudo rm " + p.backupFile()}
}

// keep writes the backup, unless an older one stands: that is the true original.
func (p *prime) keep(b primeBackup) (written bool, err error) {
	if _, err := p.backup(); err == nil {
		return false, nil
	}
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(p.backupFile()), 0o700); err != nil {
		return false, err
	}
	return true, replaceFile(p.backupFile(), append(data, '\n'), 0o600)
}

// replaceFile gives a file new content such that a machine that loses power has the old one or the new.
func replaceFile(name string, data []byte, perm fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already if all went well
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(perm), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
