// An internal service in Go: GET /whoami says whose access token it was called with.
package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gatehouse.example/verify-go/gatehouse"
)

func main() {
	if err := run(); err != nil {
		slog.Error("stopped", "error", err)
		os.Exit(1)
	}
}

func run() error {
	verifier, err := gatehouse.NewVerifier(gatehouse.Options{
		Address:  os.Getenv("TOKEN_SERVICE_ADDRESS"),
		Audience: os.Getenv("TOKEN_AUDIENCE"), // empty: tokens for the issuer
		TLS: gatehouse.TLSFiles{
			CertFile: os.Getenv("TLS_CERT_FILE"),
			KeyFile:  os.Getenv("TLS_KEY_FILE"),
			CAFile:   os.Getenv("TLS_CA_FILE"),
		},
	})
	if err != nil {
		return err
	}
	defer verifier.Close()

	routes := http.NewServeMux()
	routes.Handle("GET /whoami", gatehouse.RequireBearer(verifier, http.HandlerFunc(whoami)))
	routes.HandleFunc("GET /readyz", func(response http.ResponseWriter, _ *http.Request) {
		if err := verifier.Ready(); err != nil {
			http.Error(response, err.Error(), http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{
		Addr:         os.Getenv("LISTEN_ADDRESS"),
		Handler:      routes,
		ReadTimeout:  5 * time.Second,
		WriteTimeout: 10 * time.Second,
		IdleTimeout:  60 * time.Second,
	}

	stopped, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-stopped.Done():
	}
	grace, cancelGrace := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancelGrace()
	return server.Shutdown(grace)
}

func whoami(response http.ResponseWriter, request *http.Request) {
	principal, _ := gatehouse.PrincipalOf(request)
	response.Header().Set("Content-Type", "application/json")
	response.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(response).Encode(principal)
}
