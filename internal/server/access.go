package server

import (
	"errors"
	"fmt"
	"strings"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// role is what a method asks of its caller.
type role uint8

// The roles. The zero value is nobody, so that a row that is forgotten is closed.
const (
	nobody   role = iota
	anyone        // on either socket
	operator      // root, or the admin socket's group, on the admin socket
)

// socket is where a call came in.
type socket uint8

const (
	onPublic socket = iota
	onAdmin
)

// roles is the one table of who may call what. A method that is not in it is closed.
func roles() map[string]role {
	return map[string]role{
		qunerv1.StatusService_Status_FullMethodName:      anyone,
		qunerv1.StatusService_WatchStatus_FullMethodName: anyone,
		qunerv1.StatusService_Doctor_FullMethodName:      anyone,
		qunerv1.StatusService_ListPoints_FullMethodName:  anyone,
		qunerv1.StatusService_Savings_FullMethodName:     anyone,

		qunerv1.MeterService_Session_FullMethodName: anyone,
		qunerv1.MeterService_Open_FullMethodName:    anyone,
		qunerv1.MeterService_Mark_FullMethodName:    anyone,
		qunerv1.MeterService_Close_FullMethodName:   anyone,
		qunerv1.MeterService_List_FullMethodName:    anyone,
		qunerv1.MeterService_Watch_FullMethodName:   anyone,

		qunerv1.MeterService_ListFloors_FullMethodName: anyone,

		qunerv1.AdminService_SetMode_FullMethodName:      operator,
		qunerv1.AdminService_Apply_FullMethodName:        operator,
		qunerv1.AdminService_Restore_FullMethodName:      operator,
		qunerv1.AdminService_Tune_FullMethodName:         operator,
		qunerv1.AdminService_Retune_FullMethodName:       operator,
		qunerv1.AdminService_ForgetPoints_FullMethodName: operator,
		qunerv1.AdminService_Rollback_FullMethodName:     operator,

		qunerv1.AdminService_History_FullMethodName:       operator,
		qunerv1.AdminService_SetLeverOwner_FullMethodName: operator,
		qunerv1.AdminService_Selftest_FullMethodName:      operator,

		qunerv1.AdminService_MeasureFloor_FullMethodName: operator,
		qunerv1.AdminService_ForgetFloors_FullMethodName: operator,
	}
}

// Why a call does not pass.
var (
	errDenied   = errors.New("permission denied")
	errUnlisted = errors.New("no such method")
	errTooMany  = errors.New("too many connections")

	errTooManyWatch = errors.New("too many streams that watch windows: allowed are 4 of one user")
)

// access is who counts as an operator.
type access struct {
	self       uint32  // the daemon's own uid: 0, or that of a person who simulates a host
	adminGroup *uint32 // members may use the admin socket; nil: none
}

// authorise decides on one call. On the admin socket every method asks for an operator, whatever the directory's mode let
// through. On the public one nobody has a special right, uid 0 neither: it may be root of a container.
func (a access) authorise(roles map[string]role, method string, on socket, p Peer) error {
	asked := roles[method]
	switch {
	case asked == nobody:
		return fmt.Errorf("%w: %q", errUnlisted, truncated(method))
	case on == onPublic && asked == anyone:
		return nil
	case on == onPublic:
		return fmt.Errorf("%w: %s is on the admin socket alone", errDenied, method)
	case p.UID == 0, p.UID == a.self:
		return nil
	case a.adminGroup != nil && p.In(*a.adminGroup):
		return nil
	}
	return fmt.Errorf("%w: uid %d may not use the admin socket", errDenied, p.UID)
}

// exact reports whether a caller may see exact CPU energy, which tells what others compute (CVE-2020-8694).
func (s *Server) exact(on socket, p Peer) bool {
	return on == onAdmin || s.opts.ExactGroup != nil && p.In(*s.opts.ExactGroup)
}

// truncated keeps a text from elsewhere short; it stays valid UTF-8.
func truncated(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}
