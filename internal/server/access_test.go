package server

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
)

var (
	_ Daemon = (*daemon.Daemon)(nil)
	_ Daemon = (*scripted)(nil)
)

// methods are those of the services registered on a socket, from their descriptors.
func methods(on socket) []string {
	public, admin := grpc.NewServer(), grpc.NewServer()
	New(newScripted(), nil, Options{}, nil).register(public, admin)
	from := map[socket]*grpc.Server{onPublic: public, onAdmin: admin}[on]
	var all []string
	for service, info := range from.GetServiceInfo() {
		for _, m := range info.Methods {
			all = append(all, "/"+service+"/"+m.Name)
		}
	}
	slices.Sort(all)
	return all
}

func TestEveryMethodHasARole(t *testing.T) {
	registered := methods(onAdmin)
	for _, m := range registered {
		if roles()[m] == nobody {
			t.Errorf("%s has no row in the table", m)
		}
	}
	for m := range roles() {
		if !slices.Contains(registered, m) {
			t.Errorf("%s is in the table and on no socket", m)
		}
	}
	public := methods(onPublic)
	for _, m := range registered {
		if open := roles()[m] == anyone; open != slices.Contains(public, m) {
			t.Errorf("%s: open to anyone %v, on the public socket %v", m, open, !open)
		}
	}
	if len(public) == 0 || len(registered) <= len(public) {
		t.Fatalf("%d public methods of %d", len(public), len(registered))
	}
}

const (
	adminGID = 700
	exactGID = 800
)

func TestAuthorise(t *testing.T) {
	group := uint32(adminGID)
	type who struct {
		name  string
		peer  Peer
		admin bool // may use the admin socket
	}
	people := []who{
		{"root", Peer{UID: 0}, true},
		{"the daemon's own user", Peer{UID: 1234, GID: 1234}, true},
		{"member of the admin group", Peer{UID: 1000, GID: 1000, Groups: []uint32{4, adminGID}}, true},
		{"by primary group", Peer{UID: 1000, GID: adminGID}, true},
		{"somebody", Peer{UID: 1000, GID: 1000, Groups: []uint32{4}}, false},
		{"group root only", Peer{UID: 1000, GID: 0, Groups: []uint32{0}}, false},
		{"member of the exact group", Peer{UID: 1000, GID: 1000, Groups: []uint32{exactGID}}, false},
		{"nobody, or unmapped", Peer{UID: 65534, GID: 65534}, false},
		{"a large uid", Peer{UID: 4_000_000_000, GID: 4_000_000_000}, false},
		{"root of a user namespace", Peer{UID: 100_000, GID: 100_000}, false},
	}
	a := access{self: 1234, adminGroup: &group}
	for _, p := range people {
		for _, m := range append(methods(onAdmin), "/quner.v1.AdminService/SetModeX", "", "/", "quner.v1.StatusService/Status") {
			known := roles()[m] != nobody
			for _, on := range []socket{onPublic, onAdmin} {
				want := known && (on == onPublic && roles()[m] == anyone || on == onAdmin && p.admin)
				err := a.authorise(roles(), m, on, p.peer)
				if (err == nil) != want {
					t.Errorf("%s, socket %d, %s: %v, want allowed %v", p.name, on, m, err, want)
				}
				switch {
				case known && err != nil && !errors.Is(err, errDenied):
					t.Errorf("%s, %s: %v", p.name, m, err)
				case !known && !errors.Is(err, errUnlisted):
					t.Errorf("%s, %q: %v", p.name, m, err)
				}
			}
		}
	}
}

func TestAuthoriseWithoutAnAdminGroup(t *testing.T) {
	a := access{self: 0}
	m := qunerv1.AdminService_Apply_FullMethodName
	if err := a.authorise(roles(), m, onAdmin, Peer{UID: 5, GID: 0, Groups: []uint32{0}}); !errors.Is(err, errDenied) {
		t.Error(err)
	}
}

func TestExactFiguresAreForTheGroupAndTheAdminSocket(t *testing.T) {
	group := uint32(exactGID)
	s := &Server{opts: Options{ExactGroup: &group}}
	for name, c := range map[string]struct {
		on   socket
		peer Peer
		want bool
	}{
		"somebody":               {onPublic, Peer{UID: 1000, GID: 1000}, false},
		"a member":               {onPublic, Peer{UID: 1000, GID: 1000, Groups: []uint32{exactGID}}, true},
		"root of a container":    {onPublic, Peer{UID: 0}, false},
		"root on its own socket": {onAdmin, Peer{UID: 0}, true},
	} {
		if got := s.exact(c.on, c.peer); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (&Server{}).exact(onPublic, Peer{GID: 0}) {
		t.Error("without a group somebody is a member of it")
	}
}

// call makes the least call of a method, to see whether it passes.
func call(t *testing.T, conn *grpc.ClientConn, method string) codes.Code {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err == nil {
		_ = stream.SendMsg(new(emptypb.Empty))
		_ = stream.CloseSend()
		err = stream.RecvMsg(new(emptypb.Empty))
	}
	if err != nil && strings.Contains(err.Error(), "EOF") {
		return codes.OK // a stream that the server ended well
	}
	return status.Code(err)
}

func TestSocketsTellPeopleApart(t *testing.T) {
	needRoot(t)
	s := start(t, nil)
	// The directory's mode would keep all but root away; here the server itself is to.
	for path, mode := range map[string]os.FileMode{filepath.Dir(s.admin()): 0o755, s.admin(): 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, p := range map[string]person{
		"root":         {},
		"somebody":     {uid: 1000, gid: 1000, groups: []uint32{4, 24}},
		"group root":   {uid: 1000, gid: 0},
		"nobody":       {uid: 65534, gid: 65534},
		"a large uid":  {uid: 4_000_000_000, gid: 4_000_000_000},
		"many a group": {uid: 7, gid: 7, groups: manyGroups()},
	} {
		t.Run(name, func(t *testing.T) {
			for on, path := range map[socket]string{onPublic: s.public(), onAdmin: s.admin()} {
				conn := dialWith(t, func(context.Context) (net.Conn, error) { return connectAs(path, p) })
				for _, m := range methods(onAdmin) {
					want := codes.OK
					if on == onPublic && roles()[m] == operator || on == onAdmin && p.uid != 0 {
						want = codes.PermissionDenied
					}
					got := call(t, conn, m)
					// What passes may still find its request wanting.
					if passed := got != codes.PermissionDenied; passed != (want == codes.OK) || got == codes.Internal || got == codes.Unimplemented {
						t.Errorf("socket %d, %s: %v, want %v", on, m, got, want)
					}
				}
				_ = conn.Close()
			}
		})
	}
}

func manyGroups() []uint32 {
	groups := make([]uint32, 300)
	for i := range groups {
		groups[i] = 10_000 + uint32(i)
	}
	return groups
}

func TestPeerIsWhatTheKernelSays(t *testing.T) {
	needRoot(t)
	path := filepath.Join(openDir(t), "s")
	l, err := bind(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, p := range []person{
		{uid: 1000, gid: 100}, {uid: 4_000_000_000, gid: 3_999_999_999, groups: []uint32{0, 4_000_000_001}},
		{uid: 1, gid: 2, groups: manyGroups()},
	} {
		client, err := connectAs(path, p)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := l.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		got, err := peerOf(conn)
		if err != nil {
			t.Fatal(err)
		}
		if got.UID != uint32(p.uid) || got.GID != uint32(p.gid) || !slices.Equal(got.Groups, p.groups) || got.PID != int32(os.Getpid()) {
			t.Errorf("%+v, want %+v", got, p)
		}
		_, _ = client.Close(), conn.Close()
	}
}

func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "quner-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRootOfAUserNamespaceIsSomebody(t *testing.T) {
	needRoot(t)
	dir := openDir(t)
	// The child must be able to execute this binary as the user it is mapped to.
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "knock")
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := bind(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	child := exec.Command(binary)
	child.Env = []string{"QUNER_TEST_KNOCK=" + path}
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 54321, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 54321, Size: 1}},
		Credential:  &syscall.Credential{Uid: 0, Gid: 0},
	}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	child.Stdout = &said
	if err := child.Start(); err != nil {
		t.Skip("needs user namespaces:", err)
	}
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	got, err := peerOf(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), conn.Close()
	if err := child.Wait(); err != nil || !strings.Contains(said.String(), "uid 0 connected") {
		t.Fatalf("the child: %v: %s", err, &said)
	}
	if got.UID != 54321 {
		t.Errorf("it says uid %d", got.UID)
	}
	if err := (access{}).authorise(roles(), qunerv1.AdminService_Apply_FullMethodName, onAdmin, got); !errors.Is(err, errDenied) {
		t.Error(err)
	}
}

func TestAdminCallsCarryTheCaller(t *testing.T) {
	s := start(t, nil)
	c := qunerv1.NewAdminServiceClient(dial(t, s.admin()))
	if _, err := c.SetMode(t.Context(), &qunerv1.SetModeRequest{Mode: qunerv1.Mode_MODE_IDLE}); err != nil {
		t.Fatal(err)
	}
	want := daemon.Caller{UID: uint32(os.Geteuid()), PID: int32(os.Getpid())}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.caller != want {
		t.Errorf("%+v, want %+v", s.caller, want)
	}
}

func TestHandshakeRefusesAWrappedConnection(t *testing.T) {
	path := filepath.Join(openDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	creds := &peerCredentials{quota: newQuota(1, 1)}
	type wrapped struct{ net.Conn }
	if _, _, err := creds.ServerHandshake(wrapped{conn}); err == nil {
		t.Error("took a wrapper's word")
	}
	if _, _, err := creds.ServerHandshake(conn); err != nil {
		t.Error(err)
	}
}
