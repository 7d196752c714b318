// Package seam lets package gatehousetest make a verifier without a network, which no package of a service can do.
package seam

import "google.golang.org/grpc"

// NewVerifier makes a *gatehouse.Verifier that asks through the connection. Package gatehouse sets it, because it cannot be
// imported from here.
var NewVerifier func(connection grpc.ClientConnInterface) any
