//go:build cgo && linux

package host

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/qunerd/quner/internal/unit"
)

// nvmlCall makes one call of the library, if the library has the function under one of its names.
func nvmlCall[T any](d *nvmlDriver, get func() (T, nvml.Return), names ...string) (T, error) {
	var none T
	if err := d.need(names...); err != nil {
		return none, err
	}
	v, ret := get()
	if err := nvmlError(names[0], ret); err != nil {
		return none, err
	}
	return v, nil
}

// nvmlError turns a return code into an error that wraps one of this package's sentinels; it is the only place that
// does. The code's text comes from the number: asking the library for it is one more call into a library in trouble.
func nvmlError(function string, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: code %d: %w", function, int(ret), nvmlSentinel(ret))
}

func nvmlSentinel(ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return ErrNoDriver
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return ErrNotSupported
	case nvml.ERROR_NO_PERMISSION:
		return ErrNoPermission
	case nvml.ERROR_INVALID_ARGUMENT: // the only argument that callers choose is a limit
		return ErrOutOfRange
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_GPU_NOT_FOUND, nvml.ERROR_RESET_REQUIRED,
		nvml.ERROR_UNINITIALIZED, nvml.ERROR_UNKNOWN: // all of them: the handles are void
		return ErrLost
	}
	return ErrUnread
}

// milliwatts checks a power that the library gave. All ones is how some boards say that they do not know.
func milliwatts(function string, mw uint64) (unit.Power, error) {
	if mw >= math.MaxUint32 {
		return 0, fmt.Errorf("%s: %d mW: %w", function, mw, ErrUnread)
	}
	return unit.Power(mw) * unit.Milliwatt, nil
}

// fieldUint returns the value of a field that counts something; NVML says which member of its union holds it.
func fieldUint(f nvml.FieldValue) (uint64, bool) {
	switch nvml.ValueType(f.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return uint64(binary.NativeEndian.Uint32(f.Value[:])), true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return binary.NativeEndian.Uint64(f.Value[:]), true
	}
	return 0, false
}

// lostBoard is a board that the library counts and gives no handle for.
type lostBoard struct{ err error }

func (b lostBoard) Info() (GPUInfo, error)                   { return GPUInfo{}, b.err }
func (b lostBoard) Energy() (unit.Energy, error)             { return 0, b.err }
func (b lostBoard) Power() (unit.Power, error)               { return 0, b.err }
func (b lostBoard) Utilisation() (float64, error)            { return 0, b.err }
func (b lostBoard) Limit() (unit.Power, error)               { return 0, b.err }
func (b lostBoard) EnforcedLimit() (unit.Power, error)       { return 0, b.err }
func (b lostBoard) LimitRange() (lo, hi unit.Power, _ error) { return 0, 0, b.err }
func (b lostBoard) DefaultLimit() (unit.Power, error)        { return 0, b.err }
func (b lostBoard) SetLimit(unit.Power) error                { return b.err }
func (b lostBoard) Processes() ([]int, error)                { return nil, b.err }
