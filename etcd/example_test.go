package etcd_test

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/etcd"
)

func ExampleNew() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:       strings.Split(os.Getenv("ETCD_ENDPOINTS"), ","),
		DialTimeout:     5 * time.Second,
		MaxUnaryRetries: 1, // errors come sooner; idem repeats what may be repeated
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	b, err := etcd.New(client, etcd.WithPrefix("payments/idem/"))
	if err != nil {
		log.Fatal(err)
	}
	d, err := b.Describe(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range d.Findings {
		log.Printf("%s: %s (%s)", f.ID, f.Text, f.Advice)
	}
}
