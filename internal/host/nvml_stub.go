//go:build !cgo || !linux

package host

import "fmt"

// NVML returns a Driver that is never there: this binary was built without cgo, which the binding to NVIDIA's library
// needs. path is ignored.
func NVML(path string) Driver { return noNVML{} }

type noNVML struct{}

func (noNVML) Init() error                { return fmt.Errorf("NVML: built without cgo: %w", ErrNoDriver) }
func (noNVML) Shutdown() error            { return nil }
func (noNVML) Version() (string, error)   { return "", ErrNoDriver }
func (noNVML) Devices() ([]Device, error) { return nil, ErrNoDriver }
