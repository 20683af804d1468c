//go:build cgo && linux

package host

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// sliced reports whether the board says that it is cut into slices.
func (b *nvmlBoard) sliced() bool {
	const function = "nvmlDeviceGetMigMode"
	if b.driver.need(function) != nil {
		return false
	}
	now, _, ret := b.handle.GetMigMode()
	return ret == nvml.SUCCESS && now == nvml.DEVICE_MIG_ENABLE
}

// onModule reports whether the board shares a module with a CPU: it has a chip-to-chip link, and there is a power of the
// whole module to be told. Boards with neither refuse the fields.
func (b *nvmlBoard) onModule() bool {
	links, ok := b.field(nvml.FI_DEV_C2C_LINK_COUNT, 0)
	if !ok || links == 0 {
		return false
	}
	_, ok = b.field(nvml.FI_DEV_POWER_INSTANT, nvml.POWER_SCOPE_MODULE)
	return ok
}

// field returns a field of the board, and whether it tells that one.
func (b *nvmlBoard) field(id, scope uint32) (uint64, bool) {
	if b.driver.need("nvmlDeviceGetFieldValues") != nil {
		return 0, false
	}
	value := []nvml.FieldValue{{FieldId: id, ScopeId: scope}}
	if b.handle.GetFieldValues(value) != nvml.SUCCESS || nvml.Return(value[0].NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	return fieldUint(value[0])
}
