// The conversion webhook that most operators have: controller-runtime's, with Go types for the kind Profile.
//
//	controllerruntime --cert-dir FOLDER [--host 127.0.0.1]
//
// FOLDER has tls.crt and tls.key. The program says on which port it listens, and serves until SIGTERM. Nothing of
// controller-runtime is changed: its server, its handler, its decoder, and the hub and spoke interfaces that kubebuilder
// scaffolds.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	v1 "restow/benchmarks/peers/controllerruntime/v1"
	v2 "restow/benchmarks/peers/controllerruntime/v2"
)

const path = "/convert"

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	folder := flag.String("cert-dir", "", "folder with tls.crt and tls.key")
	flag.Parse()
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if err := serve(*host, *folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(host, folder string) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, v2.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	port, err := freePort(host)
	if err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{Host: host, Port: port, CertDir: folder})
	server.Register(path, conversion.NewWebhookHandler(scheme, conversion.NewRegistry()))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go announce(ctx, server, port)
	return server.Start(ctx)
}

// freePort finds a port: the server takes none that was opened before.
func freePort(host string) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func announce(ctx context.Context, server webhook.Server, port int) {
	for ctx.Err() == nil {
		if server.StartedChecker()(nil) == nil {
			fmt.Printf("listening on port %d\n", port)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
