// Package qunerv1 is quner's API: gRPC services over Unix sockets, for clients in any language. StatusService and
// MeterService are on the public socket; AdminService is on the admin socket, with them. The messages are generated from
// the .proto files beside this one.
package qunerv1
